"""Pairs judged in both orders: which verdicts survive the swap of sides.

Two orders are one observation. A pair whose winner does not survive is a tie of its own kind; a
verdict that could not be read is none at all, and never a tie, a win or a loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from canopy.domain.errors import InputError, ShapeMismatchError
from policy.arrays import BoolArray, IntArray

_A, _B, _TIE, _UNPARSED, _ABSENT = range(5)
_WORDS: Final = {"a": _A, "b": _B, "tie": _TIE, "": _UNPARSED}


class SwapCode(StrEnum):
    """What both orders of a pair come to."""

    A = "a"
    """Item a won in both orders."""
    B = "b"
    """Item b won in both orders."""
    SWAP_TIE = "swap_tie"
    """The orders disagree: the winner changed with its side, or won once and tied once."""
    JUDGE_TIE = "judge_tie"
    """The judge called a tie in both orders."""
    UNPARSED = "unparsed"
    """Both orders were judged, and a verdict could not be read."""
    INCOMPLETE = "incomplete"
    """An order was not judged: the pair is to be judged again."""


CODES: Final = tuple(SwapCode)
_NUMBER: Final = {code: number for number, code in enumerate(CODES)}


@dataclass(frozen=True, slots=True)
class SwapCounts:
    """How many pairs came to what.

    Attributes:
        counts: Pairs by code.
        survival: Share of the pairs readable in both orders whose winner survived the swap; None
            without such pairs.
        first_both: Pairs in which the side shown first won in both orders.
        second_both: Pairs in which the side shown second did.
    """

    counts: dict[SwapCode, int]
    survival: float | None
    first_both: int
    second_both: int


def swap_check(
    verdict_ab: Sequence[Any] | np.ndarray[Any, Any],
    verdict_ba: Sequence[Any] | np.ndarray[Any, Any],
) -> np.ndarray[Any, np.dtype[np.object_]]:
    """What each pair's two verdicts come to.

    Args:
        verdict_ab: Shape (n,). Verdict with item a shown first: `a`, `b` or `tie`, which name
            items and not sides; blank where it could not be read, None where not judged.
        verdict_ba: Shape (n,). Verdict with item b shown first; `a` is item a here too.

    Returns:
        Shape (n,). A `SwapCode` per pair.

    Raises:
        ShapeMismatchError: If there is not one of both per pair.
        InputError: If a verdict is none of these; the column and the row are named, from 1.
    """
    ab, ba = _read("verdict_ab", verdict_ab), _read("verdict_ba", verdict_ba)
    _require_pairs(ab, ba)
    return np.array(CODES, dtype=object)[_codes(ab, ba)]


def count_swaps(
    verdict_ab: Sequence[Any] | np.ndarray[Any, Any],
    verdict_ba: Sequence[Any] | np.ndarray[Any, Any],
) -> SwapCounts:
    """How many pairs came to what.

    Args:
        verdict_ab: As for `swap_check`.
        verdict_ba: As for `swap_check`.

    Raises:
        ShapeMismatchError: As for `swap_check`.
        InputError: As for `swap_check`.
    """
    ab, ba = _read("verdict_ab", verdict_ab), _read("verdict_ba", verdict_ba)
    _require_pairs(ab, ba)
    n = np.bincount(_codes(ab, ba), minlength=len(CODES)).tolist()
    counts = dict(zip(CODES, n, strict=True))
    survived = counts[SwapCode.A] + counts[SwapCode.B]
    readable = survived + counts[SwapCode.SWAP_TIE] + counts[SwapCode.JUDGE_TIE]
    return SwapCounts(
        counts=counts,
        survival=survived / readable if readable else None,
        first_both=int(((ab == _A) & (ba == _B)).sum()),
        second_both=int(((ab == _B) & (ba == _A)).sum()),
    )


def _codes(ab: IntArray, ba: IntArray) -> IntArray:
    found = np.full(len(ab), _NUMBER[SwapCode.SWAP_TIE], dtype=np.intp)
    rules: tuple[tuple[BoolArray, SwapCode], ...] = (
        ((ab == _A) & (ba == _A), SwapCode.A),
        ((ab == _B) & (ba == _B), SwapCode.B),
        ((ab == _TIE) & (ba == _TIE), SwapCode.JUDGE_TIE),
        ((ab == _UNPARSED) | (ba == _UNPARSED), SwapCode.UNPARSED),
        ((ab == _ABSENT) | (ba == _ABSENT), SwapCode.INCOMPLETE),
    )
    for holds, code in rules:
        found[holds] = _NUMBER[code]
    return found


def _read(column: str, verdicts: Sequence[Any] | np.ndarray[Any, Any]) -> IntArray:
    words = verdicts.tolist() if isinstance(verdicts, np.ndarray) else list(verdicts)
    codes = np.empty(len(words), dtype=np.intp)
    for row, word in enumerate(words):
        # NaN is how data frames say None.
        is_absent = word is None or word != word  # noqa: PLR0124 - only NaN differs from itself
        found = _ABSENT if is_absent else _WORDS.get(word) if isinstance(word, str) else None
        if found is None:
            raise InputError(
                f"{column}, row {row + 1}",
                f"{word!r} is no verdict.",
                "Write a, b or tie, and leave it blank where it could not be read.",
            )
        codes[row] = found
    return codes


def _require_pairs(ab: IntArray, ba: IntArray) -> None:
    if len(ab) != len(ba):
        raise ShapeMismatchError("verdict_ba", ba.shape, ab.shape)
