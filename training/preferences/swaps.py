"""Pairs judged in both orders: which verdicts survive the swap of sides.

Two orders are one observation. A pair whose winner does not survive is a tie of its own kind; a
verdict that could not be read is none at all, and never a tie, a win or a loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from canopy.domain.errors import InputError, ShapeMismatchError

VerdictArray = npt.NDArray[np.int8]

A, B, TIE, UNPARSED, NOT_JUDGED = range(5)
"""Verdicts as arrays hold them: item a, item b, tie, unreadable, order not judged."""

_WORDS: Final = {"a": A, "b": B, "tie": TIE, "": UNPARSED}


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
"""The codes, in the order of the numbers that `swap_numbers` gives."""

_NUMBER: Final = {code: number for number, code in enumerate(CODES)}
N_VERDICTS: Final = 5
"""How many verdicts there are, those that are none included."""


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
    ab, ba = read_verdicts("verdict_ab", verdict_ab), read_verdicts("verdict_ba", verdict_ba)
    return np.array(CODES, dtype=object)[swap_numbers(ab, ba)]


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
    return tally_swaps(
        read_verdicts("verdict_ab", verdict_ab), read_verdicts("verdict_ba", verdict_ba)
    )


def tally_swaps(ab: VerdictArray, ba: VerdictArray) -> SwapCounts:
    """What `count_swaps` gives, from verdicts as numbers.

    Args:
        ab: Shape (n,). Of `read_verdicts`, with item a shown first.
        ba: Shape (n,). With item b shown first.

    Raises:
        ShapeMismatchError: If there is not one of both per pair.
    """
    _require_pairs(ab, ba)
    cells = np.bincount(joint_verdicts(ab, ba), minlength=N_VERDICTS**2)
    return swap_counts(cells.reshape(N_VERDICTS, N_VERDICTS))


def swap_counts(table: npt.NDArray[np.int64]) -> SwapCounts:
    """What `count_swaps` gives, from a table of both verdicts.

    Args:
        table: Shape (5, 5). Pairs by the verdict with item a first (row) and with item b first.
    """
    cells = table.ravel()
    totals = np.bincount(_RULES, weights=cells, minlength=len(CODES)).astype(int).tolist()
    counts = dict(zip(CODES, totals, strict=True))
    survived = counts[SwapCode.A] + counts[SwapCode.B]
    readable = survived + counts[SwapCode.SWAP_TIE] + counts[SwapCode.JUDGE_TIE]
    return SwapCounts(
        counts=counts,
        survival=survived / readable if readable else None,
        first_both=int(table[A, B]),
        second_both=int(table[B, A]),
    )


def swap_numbers(ab: VerdictArray, ba: VerdictArray) -> VerdictArray:
    """The code of each pair, as its place in `CODES`.

    Args:
        ab: Shape (n,). Of `read_verdicts`, with item a shown first.
        ba: Shape (n,). With item b shown first.

    Raises:
        ShapeMismatchError: If there is not one of both per pair.
    """
    _require_pairs(ab, ba)
    return _RULES[joint_verdicts(ab, ba)]


def joint_verdicts(ab: VerdictArray, ba: VerdictArray) -> VerdictArray:
    """Shape (n,). Both verdicts of each pair as one number from 0 to 24.

    Args:
        ab: Shape (n,). Of `read_verdicts`, with item a shown first.
        ba: Shape (n,). With item b shown first.
    """
    return ab * np.int8(N_VERDICTS) + ba


def _rule(ab: int, ba: int) -> SwapCode:
    if ab == ba and ab in {A, B, TIE}:
        return {A: SwapCode.A, B: SwapCode.B, TIE: SwapCode.JUDGE_TIE}[ab]
    # An order that is to be judged again may still make the pair readable; so it goes first.
    if NOT_JUDGED in {ab, ba}:
        return SwapCode.INCOMPLETE
    return SwapCode.UNPARSED if UNPARSED in {ab, ba} else SwapCode.SWAP_TIE


_RULES: Final = np.array(
    [_NUMBER[_rule(ab, ba)] for ab in range(N_VERDICTS) for ba in range(N_VERDICTS)],
    dtype=np.int8,
)
"""Every combination of two verdicts, looked up instead of asked rule by rule."""


def read_verdicts(column: str, verdicts: Sequence[Any] | np.ndarray[Any, Any]) -> VerdictArray:
    """Verdicts as numbers.

    Args:
        column: Its name, for errors.
        verdicts: Shape (n,). As for `swap_check`.

    Returns:
        Shape (n,). `A`, `B`, `TIE`, `UNPARSED` or `NOT_JUDGED`.

    Raises:
        InputError: If one is no verdict; the row is named, from 1.
    """
    words = verdicts.tolist() if isinstance(verdicts, np.ndarray) else list(verdicts)
    numbers = np.empty(len(words), dtype=np.int8)
    for row, word in enumerate(words):
        # NaN is how data frames say None.
        is_absent = word is None or word != word  # noqa: PLR0124 - only NaN differs from itself
        found = NOT_JUDGED if is_absent else _WORDS.get(word) if isinstance(word, str) else None
        if found is None:
            raise InputError(
                f"{column}, row {row + 1}",
                f"{word!r} is no verdict.",
                "Write a, b or tie, and leave it blank where it could not be read.",
            )
        numbers[row] = found
    return numbers


def _require_pairs(ab: VerdictArray, ba: VerdictArray) -> None:
    if len(ab) != len(ba):
        raise ShapeMismatchError("verdict_ba", ba.shape, ab.shape)
