"""The target distribution of a policy: one path for serving, training and evaluation."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from canopy.domain.errors import RangeError
from policy.arrays import BoolArray, FloatArray
from policy.distributions import distribution
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
    n = len(features)
    feasible = check_mask(mask, (n, head.n_plans))
    rows = np.empty((n, head.n_plans))
    for block in blocks(n, head.n_plans):
        scores = head.scores(features[block], temperature=temperature)
        rows[block] = distribution(scores, feasible[block], floor)
    return rows
