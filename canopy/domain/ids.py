"""Identifiers: content hashes, decision ids and stable unit hashes."""

import hashlib
import json
import os
import time
import uuid
from typing import Final

HASH_LENGTH: Final = 32
"""Hex digits of a content hash: 128 bits, enough that no two contents meet."""


def content_hash(content: bytes | str) -> str:
    """The identity of a content: the first 32 hex digits of its SHA-256."""
    raw = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(raw).hexdigest()[:HASH_LENGTH]


def canonical_json(value: object) -> str:
    """JSON whose bytes depend on the value alone: sorted keys, no spaces, no NaN.

    Raises:
        ValueError: If the value holds NaN or an infinity, which JSON cannot carry.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def new_decision_id() -> uuid.UUID:
    """A fresh UUID version 7: random, and ordered by time so that indexes stay narrow.

    Source:
        RFC 9562, section 5.7.
    """
    millis = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(10), "big")
    value = (millis & (1 << 48) - 1) << 80 | tail
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


def unit_fraction(unit_id: str, salt: str) -> float:
    """A number in [0, 1) that depends on the unit and the salt alone.

    Reserve, canary and sampling use different salts, so that one assignment says
    nothing about another.
    """
    digest = hashlib.blake2b(unit_id.encode(), digest_size=8, key=salt.encode()).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53
