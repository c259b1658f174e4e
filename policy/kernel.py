"""What the numbers of a decision rest on: the draw's uniform, and the numeric kernel's name."""

import functools
import hashlib
import platform
from typing import Any, Final

import numpy as np

from canopy.domain.ids import canonical_json, content_hash

DRAW_KEY: Final = b"canopy.draw.1"
"""Key of the hash that turns a request key into its uniform number.

It is a constant of the format: with another key, no recorded draw could be repeated.
"""

SHADOW_SUFFIX: Final = "\x1fshadow"
"""Appended to the key for the candidate's own draw in observation, so that the two draws of
one request say nothing about each other."""

ARITHMETIC: Final = 2
"""Raised whenever this code adds, multiplies or draws in another order than before, so that
an artifact made earlier is held to the tolerance and not to the bit."""

_FINGERPRINT_LENGTH: Final = 16


def uniform(key: str) -> float:
    """A number in [0, 1) that depends on the key alone: 53 bits of a keyed BLAKE2b.

    The same request, retried anywhere, gets the same number and therefore the same plan.
    """
    digest = hashlib.blake2b(
        key.encode("utf-8", "surrogatepass"), digest_size=8, key=DRAW_KEY
    ).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


@functools.cache
def kernel_facts() -> dict[str, Any]:
    """What decides the last bits of exp and of sums: numpy, its CPU dispatch, the C library."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "arithmetic": ARITHMETIC,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "simd": sorted({*simd.get("baseline", ()), *simd.get("found", ())}),
    }


@functools.cache
def kernel_fingerprint() -> str:
    """A short name of the numeric kernel: equal names promise equal bits."""
    return content_hash(canonical_json(kernel_facts()))[:_FINGERPRINT_LENGTH]
