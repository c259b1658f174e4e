"""The target distribution of a policy: one path for serving, training and evaluation."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray
from policy.distributions import (
    check_floor,
    feasible_counts,
    served_row,
    shared_row,
    shared_rows,
)
from policy.heads import FactoredHead
from policy.masks import check_mask

BLOCK_CELLS: Final = 2**15
"""Scores made at once: enough to amortise the calls, few enough to stay in the caches."""


def check_temperature(temperature: float) -> float:
    """A temperature that scores may be divided by.

    Raises:
        RangeError: If it is not positive and finite.
    """
    if not 0.0 < temperature < float("inf"):
        raise RangeError("temperature", None, temperature, "a positive finite number")
    return float(temperature)


def blocks(n: int, n_plans: int) -> Iterator[slice]:
    """Runs of rows to be scored together; the bits of a row do not depend on its run."""
    step = max(1, BLOCK_CELLS // max(1, n_plans))
    for start in range(0, n, step):
        yield slice(start, start + step)


def target_rows(
    head: FactoredHead,
    features: FloatArray,
    mask: BoolArray,
    *,
    temperature: float,
    floor: float,
) -> FloatArray:
    """What a head would serve: the floored softmax over each row's feasible plans.

    Args:
        head: The scorer.
        features: Shape (n, d): encoded contexts.
        mask: Shape (n, n_plans): True = feasible.
        temperature: What the scores are divided by.
        floor: Exploration floor, from 0 to 1.

    Returns:
        Shape (n, n_plans); each row sums to 1, with the bits that a single selection gives.

    Raises:
        NonFiniteScoreError: If a feasible plan scores NaN or +inf.
        RangeError: If a row has no feasible plan, or temperature or floor is out of range.
        ShapeMismatchError: If features, mask and head do not fit.
    """
    check_temperature(temperature)
    check_floor(floor)
    n = len(features)
    # Rows must lie whole in memory: along strides, additions could come in another order.
    contexts = np.ascontiguousarray(features, dtype=np.float64)
    feasible = check_mask(mask, (n, head.n_plans))
    counts = feasible_counts(feasible)
    rows = np.empty((n, head.n_plans))
    for block in blocks(n, head.n_plans):
        odds = head.odds(contexts[block], temperature=temperature)
        if odds is not None:
            rows[block] = shared_rows(odds, feasible[block], floor, counts[block])
            continue
        # What is out of range in one row must not change the bits of its neighbours.
        for row in range(*block.indices(n)):
            indicator = feasible[row].astype(np.float64)
            rows[row] = target_row(
                head,
                contexts[row],
                feasible[row],
                indicator,
                indicator * (floor / counts[row, 0]),
                temperature=temperature,
                floor=floor,
                n_feasible=int(counts[row, 0]),
            )
    return rows


def target_row(
    head: FactoredHead,
    features: FloatArray,
    feasible: BoolArray,
    indicator: FloatArray,
    floor_row: FloatArray,
    *,
    temperature: float,
    floor: float,
    n_feasible: int,
) -> FloatArray:
    """One row of `target_rows`, with its bits.

    Args:
        head: The scorer.
        features: Shape (d,): an encoded context.
        feasible: Shape (n_plans,): True = feasible.
        indicator: Shape (n_plans,): the same as 1 and 0.
        floor_row: Shape (n_plans,): the floor's share where feasible, 0 elsewhere.
        temperature: What the scores are divided by.
        floor: Exploration floor, from 0 to 1.
        n_feasible: How many plans are feasible, at least one.

    Returns:
        Shape (n_plans,), new: sums to 1.

    Raises:
        NonFiniteScoreError: If a feasible plan scores NaN or +inf.
        ShapeMismatchError: If features, mask and head do not fit.
    """
    if head.n_plans != len(feasible):
        raise ShapeMismatchError("mask", feasible.shape, (head.n_plans,))
    context = features[None]
    odds = head.odds(context, temperature=temperature)
    if odds is None:
        scores = head.scores(context, temperature=temperature)[0]
        return served_row(scores, feasible, floor, n_feasible)
    return shared_row(odds[0], indicator, floor_row, floor=floor, n_feasible=n_feasible)
