"""What the fields of a feature schema read out of one value."""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from canopy.domain.errors import FeatureError
from policy.columns import is_missing

_WORD: Final = re.compile(r"\w+")
_WORD_KEY: Final = b"canopy.words.1"


def _place(name: str, row: int | None) -> str:
    return f"`{name}`" if row is None else f"`{name}`, row {row + 1}"


def category_value(name: str, value: object, row: int | None = None) -> str | None:
    """The level that a value names, booleans as `true` and `false`; None if missing.

    Raises:
        FeatureError: If it is neither text nor boolean.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if is_missing(value):
        return None
    raise FeatureError(
        _place(name, row), f"is {value!r}, expected text or a boolean.", "Correct the context."
    )


def members(name: str, value: object, row: int | None = None) -> frozenset[str] | None:
    """The texts that a value holds; None if missing.

    Raises:
        FeatureError: If it is no collection of texts.
    """
    if is_missing(value):
        return None
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | dict):
        found = list(value)
        if all(isinstance(member, str) for member in found):
            return frozenset(found)
    raise FeatureError(
        _place(name, row), f"is {value!r}, expected a list of texts.", "Correct the context."
    )


def hashed_words(
    name: str, value: object, buckets: int, row: int | None = None
) -> list[int] | None:
    """The bucket of each word of a text, in order; None if missing.

    Raises:
        FeatureError: If the value is no text.
    """
    if isinstance(value, str):
        return [word_bucket(word) % buckets for word in _WORD.findall(value.casefold())]
    if is_missing(value):
        return None
    raise FeatureError(_place(name, row), f"is {value!r}, expected text.", "Correct the context.")


@lru_cache(maxsize=65_536)
def word_bucket(word: str) -> int:
    """A number that depends on the word alone, in every process and for ever."""
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8, key=_WORD_KEY)
    return int.from_bytes(digest.digest(), "big")
