"""Decisive comparisons, and the scale on which scores fitted to them stand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal

import numpy as np

from canopy.domain.errors import InputError
from policy.arrays import BoolArray, FloatArray, IntArray
from training.preferences.pair_table import Names, NumberArray, PairTable
from training.preferences.swaps import CODES, NOT_JUDGED, TIE, A, B, SwapCode

Ties = Literal["drop", "half"]


class ScaleKind(StrEnum):
    """What a difference of scores is the log-odds of. Scales of two kinds are not one scale."""

    SWAP_SURVIVOR = "swap_survivor"
    """That the item wins in both orders, given that one of the two does: steeper than the chance
    of one verdict, up to twofold, with the judge's order bias cancelled exactly."""
    SINGLE_VERDICT = "single_verdict"
    """That the item wins a verdict given in one order; an order bias flattens it."""
    ORDER_EFFECT = "order_effect"
    """That the item wins a verdict, were its side of no account."""


@dataclass(frozen=True)
class Comparisons:
    """Who beat whom.

    Attributes:
        scale_kind: What scores fitted to them will mean.
        items: The distinct items.
        winner: Shape (m,). Place of each winner in `items`.
        loser: Shape (m,). Place of each loser.
        cluster: What each comparison belongs to.
        weight: Shape (m,). What each counts for; a half win counts for 1/2. None where each
            counts for 1.
        covariates: By name, shape (m,): the winner's value less the loser's.
    """

    scale_kind: ScaleKind
    items: tuple[str, ...]
    winner: NumberArray
    loser: NumberArray
    cluster: Names
    weight: FloatArray | None = None
    covariates: Mapping[str, FloatArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.winner)

    @cached_property
    def outcome(self) -> IntArray:
        """Shape (m,). Winner and loser as one number: a cell of `wins`, row by row."""
        return self.winner.astype(np.intp) * len(self.items) + self.loser

    @cached_property
    def wins(self) -> FloatArray:
        """Shape (n, n). Row i, column j: how often i beat j."""
        n = len(self.items)
        counts = np.bincount(self.outcome, self.weight, n * n)
        return counts.astype(np.float64).reshape(n, n)


def surviving_comparisons(pairs: PairTable) -> Comparisons:
    """The pairs whose winner survived the swap of sides, each as one comparison.

    Ties, and pairs not readable in both orders, are excluded: given that a pair is decisive,
    they say nothing about who is the stronger.

    Args:
        pairs: What was judged.
    """
    codes = pairs.codes
    return _comparisons(
        ScaleKind.SWAP_SURVIVOR, pairs, codes == CODES.index(SwapCode.A),
        codes == CODES.index(SwapCode.B), np.zeros(len(pairs), dtype=np.bool_),
    )  # fmt: skip


def single_comparisons(pairs: PairTable, *, ties: Ties = "drop") -> Comparisons:
    """Pairs that were judged in one order only, each as one comparison.

    Args:
        pairs: What was judged.
        ties: `drop` leaves ties out; `half` makes each half a win for either side, which
            flattens the scale.

    Raises:
        InputError: If a pair was judged in both orders: its two verdicts are one observation,
            which the scale of survivors holds.
    """
    both = (pairs.verdict_ab != NOT_JUDGED) & (pairs.verdict_ba != NOT_JUDGED)
    if both.any():
        raise InputError(
            f"row {int(np.argmax(both)) + 1}",
            "was judged in both orders.",
            "Fit the survivors of the swap, or keep these pairs in a file of their own.",
        )
    verdict = np.where(pairs.verdict_ab != NOT_JUDGED, pairs.verdict_ab, pairs.verdict_ba)
    is_tie = (verdict == TIE) if ties == "half" else np.zeros(len(pairs), dtype=np.bool_)
    return _comparisons(ScaleKind.SINGLE_VERDICT, pairs, verdict == A, verdict == B, is_tie)


def _comparisons(
    scale_kind: ScaleKind, pairs: PairTable, a_wins: BoolArray, b_wins: BoolArray, tied: BoolArray
) -> Comparisons:
    decisive = a_wins | b_wins
    # Where all are, columns are taken as they are: a million rows picked are milliseconds.
    rows: slice | IntArray = slice(None) if decisive.all() else np.flatnonzero(decisive)
    is_b = b_wins[rows]
    a, b = pairs.item_a[rows], pairs.item_b[rows]
    halves = np.flatnonzero(tied)
    # By arithmetic: a choice by a random truth value costs the processor its foresight.
    winner = a + (b - a) * is_b
    loser = a + b - winner
    cluster = pairs.cluster.numbers[rows]
    covariates = {
        name: np.where(is_b, -column[rows], column[rows])
        for name, column in pairs.covariates.items()
    }
    weight = None
    if len(halves):
        first, second = pairs.item_a[halves], pairs.item_b[halves]
        winner = np.concatenate([winner, first, second])
        loser = np.concatenate([loser, second, first])
        cluster = np.concatenate([cluster, *[pairs.cluster.numbers[halves]] * 2])
        weight = np.concatenate([np.ones(len(is_b)), np.full(2 * len(halves), 0.5)])
        for name, column in pairs.covariates.items():
            tie = column[halves]
            covariates[name] = np.concatenate([covariates[name], tie, -tie])
    return Comparisons(
        scale_kind, pairs.items, winner, loser, Names(pairs.cluster.names, cluster), weight,
        covariates,
    )  # fmt: skip
