"""From scores to a distribution over feasible plans, and from there to one plan.

The same operations in the same order for one row and for many, so that both agree to the
bit: no BLAS, and sums along the last axis only.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canopy.domain.errors import InputError, NonFiniteScoreError, RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray, IntArray
from policy.masks import check_mask

_SUM_TOLERANCE: Final = 1e-6
_ROWS: Final = 2
_HUGE: Final = 1e290
_LONG: Final = 4096
_BLOCK: Final = 256
_EPSILON: Final = 2.0**-51


def distribution(scores: ArrayLike, mask: ArrayLike, floor: float) -> FloatArray:
    """The served distribution: softmax over the feasible plans, mixed with a uniform floor.

    Each feasible plan gets (1 - floor) times its softmax share plus floor / n_feasible; a
    masked plan gets exactly 0, whatever its score. A feasible plan that scores -inf gets its
    floor share; where all do, the feasible plans share evenly.

    Args:
        scores: Shape (n_plans,) or (n, n_plans): logits.
        mask: The same shape, bool: True = feasible.
        floor: Exploration floor, from 0 to 1.

    Returns:
        Probabilities in the shape of `scores`; each row sums to 1.

    Raises:
        InputError: If the scores are not real numbers.
        NonFiniteScoreError: If a feasible plan scores NaN or +inf.
        RangeError: If the floor lies outside [0, 1], the mask is not boolean, or a row has no
            feasible plan.
        ShapeMismatchError: If the shapes differ.
    """
    logits = _logits(scores)
    feasible = np.ascontiguousarray(check_mask(np.asarray(mask), logits.shape))
    check_floor(floor)
    if logits.ndim == 1:
        return served_row(logits, feasible, floor, int(np.count_nonzero(feasible)))
    return _served_rows(logits, feasible, floor)


def _logits(scores: ArrayLike) -> FloatArray:
    """Scores as float64.

    Raises:
        InputError: If they are not real numbers.
        ShapeMismatchError: If they are neither a row nor rows.
    """
    raw: NDArray[np.generic] = np.asarray(scores)
    if raw.dtype.kind not in "fiu":
        raise InputError("scores", f"hold {raw.dtype}, expected real numbers.", "Pass floats.")
    if raw.ndim not in {1, _ROWS}:
        raise ShapeMismatchError("scores", raw.shape, (-1, -1))
    # Rows must lie whole in memory: a sum along a strided axis adds in another order.
    return np.ascontiguousarray(raw, dtype=np.float64)


def check_floor(floor: float) -> None:
    """Refuse a floor that is no share.

    Raises:
        RangeError: If it lies outside [0, 1].
    """
    if not 0.0 <= floor <= 1.0:
        raise RangeError("floor", None, floor, "a share from 0 to 1")


def served_row(
    logits: FloatArray, feasible: BoolArray, floor: float, n_feasible: int
) -> FloatArray:
    """`distribution` of one row whose shapes, floor and feasible count are known to be right.

    Raises:
        NonFiniteScoreError: If a feasible plan scores NaN or +inf.
        RangeError: If no plan is feasible.
    """
    if not n_feasible:
        raise RangeError("mask", None, 0, "at least one feasible plan")
    shifted = np.where(feasible, logits, -np.inf)
    # The bare reductions: the methods of the same name cost as much again in Python.
    top = float(np.maximum.reduce(shifted))
    if not top < math.inf:
        action = int(np.argmax(~(shifted < np.inf)))
        raise NonFiniteScoreError(action, float(logits[action]))
    if top == -math.inf:
        return feasible / np.float64(n_feasible)
    if top < _HUGE:
        shifted -= top
    else:
        with np.errstate(over="ignore"):
            shifted -= top
    np.exp(shifted, out=shifted)
    shifted *= (1.0 - floor) / np.add.reduce(shifted)
    if floor:
        shifted += np.multiply(feasible, floor / n_feasible)
    return shifted


def shared_row(
    odds: FloatArray,
    indicator: FloatArray,
    floor_row: FloatArray,
    *,
    floor: float,
    n_feasible: int,
) -> FloatArray:
    """The distribution of one row of odds, worked out in its place.

    Args:
        odds: Shape (n_plans,), positive and finite: overwritten.
        indicator: Shape (n_plans,): 1 where feasible, 0 elsewhere.
        floor_row: Shape (n_plans,): the floor's share where feasible, 0 elsewhere.
        floor: Exploration floor, from 0 to 1.
        n_feasible: How many plans are feasible, at least one.

    Returns:
        `odds`: probabilities that sum to 1, at least the floor's share where feasible and
        exactly 0 elsewhere.
    """
    if n_feasible == 1:
        # Scaling rounds, and could leave the one plan a little above or below 1.
        odds[:] = indicator
        return odds
    if n_feasible < len(odds):
        odds *= indicator
    odds *= (1.0 - floor) / np.add.reduce(odds)
    if floor:
        odds += floor_row
    return odds


def shared_rows(
    odds: FloatArray, feasible: BoolArray, floor: float, n_feasible: IntArray
) -> FloatArray:
    """Many rows; each has the bits that `shared_row` gives it.

    Args:
        odds: Shape (n, n_plans), positive and finite: overwritten.
        feasible: Shape (n, n_plans): True = feasible.
        floor: Exploration floor, from 0 to 1.
        n_feasible: Shape (n, 1): feasible plans of each row, at least one.

    Returns:
        `odds`: the probabilities.
    """
    odds *= feasible
    odds *= (1.0 - floor) / odds.sum(axis=1, keepdims=True)
    if floor:
        odds += floor / n_feasible
        odds *= feasible
    single = n_feasible[:, 0] == 1
    if single.any():
        odds[single] = feasible[single]
    return odds


def feasible_counts(feasible: BoolArray) -> IntArray:
    """Feasible plans of each row, shape (n, 1).

    Raises:
        RangeError: If a row has none.
    """
    n_feasible: IntArray = np.count_nonzero(feasible, axis=1, keepdims=True)
    if not n_feasible.all():
        row = int(np.argmin(n_feasible[:, 0] > 0)) + 1
        raise RangeError("mask", row, 0, "at least one feasible plan")
    return n_feasible


def _served_rows(logits: FloatArray, feasible: BoolArray, floor: float) -> FloatArray:
    """Many rows; each has the bits that `served_row` gives it.

    Raises:
        NonFiniteScoreError: If a feasible plan scores NaN or +inf; the first such row counts.
        RangeError: If a row has no feasible plan.
    """
    shifted = np.where(feasible, logits, -np.inf)
    top = shifted.max(axis=1, keepdims=True, initial=-np.inf)
    wrong = np.flatnonzero(~(top[:, 0] < np.inf))
    if len(wrong):
        action = int(np.argmax(~(shifted[wrong[0]] < np.inf)))
        raise NonFiniteScoreError(action, float(logits[wrong[0], action]))
    n_feasible = feasible_counts(feasible)
    flat = top[:, 0] == -np.inf
    top[flat] = 0.0
    with np.errstate(over="ignore"):
        shifted -= top
    np.exp(shifted, out=shifted)
    total = shifted.sum(axis=1, keepdims=True)
    total[flat] = 1.0
    shifted *= (1.0 - floor) / total
    if floor:
        shifted += np.multiply(feasible, floor / n_feasible)
    shifted[flat] = feasible[flat] / n_feasible[flat].astype(np.float64)
    return shifted


def draw(probabilities: ArrayLike, u: float) -> int:
    """The plan that a uniform number picks, by inverse CDF; never one of probability 0.

    Args:
        probabilities: Shape (n_plans,), at least 0, summing to 1.
        u: A number in [0, 1).

    Returns:
        The action.

    Raises:
        RangeError: If `u` or the probabilities lie outside their ranges.
        ShapeMismatchError: If the probabilities are not one row.
    """
    row = np.asarray(probabilities, dtype=np.float64)
    if row.ndim != 1:
        raise ShapeMismatchError("probabilities", row.shape, (-1,))
    if not 0.0 <= u < 1.0:
        raise RangeError("u", None, u, "a number in [0, 1)")
    if not row.min(initial=0.0) >= 0.0:
        raise RangeError("probabilities", None, float(row.min()), "numbers of at least 0")
    cumulated = row.cumsum()
    total = float(cumulated[-1]) if len(row) else 0.0
    if not abs(total - 1.0) <= _SUM_TOLERANCE:
        raise RangeError("probabilities", None, total, "a sum of 1")
    return pick(row, cumulated, u)


def pick(row: FloatArray, cumulated: FloatArray, u: float) -> int:
    """The plan that `u` picks from a row whose running sum is known."""
    action = int(cumulated.searchsorted(u, side="right"))
    if action < len(row):
        return action
    # Rounding may leave the sum a little below 1 and u between: the last plan that can be.
    return int(np.flatnonzero(row)[-1])


def picked(row: FloatArray, u: float) -> int:
    """The plan that `u` picks from a row of probabilities: `pick` from its running sum.

    A running sum adds one number at a time. Of a long row, sums of blocks find the plan
    sooner; where rounding could make the running sum disagree, it is asked itself.
    """
    n = len(row)
    if n >= _LONG:
        n_blocks = n // _BLOCK
        edges = np.add.reduce(row[: n_blocks * _BLOCK].reshape(n_blocks, _BLOCK), axis=1).cumsum()
        block = int(edges.searchsorted(u, side="right"))
        if block < n_blocks:
            inner = row[block * _BLOCK : (block + 1) * _BLOCK].cumsum()
            if block:
                inner += edges[block - 1]
            position = int(inner.searchsorted(u, side="right"))
            # Neither sum is off by more than this from the exact one.
            slack = n * _EPSILON
            if (
                0 < position < _BLOCK
                and inner[position - 1] + slack < u
                and u + slack < inner[position]
            ):
                return block * _BLOCK + position
    return pick(row, np.add.accumulate(row), u)


def doctrine(weights: FloatArray | None, default: int, mask: BoolArray, floor: float) -> FloatArray:
    """The doctrine policy over the feasible plans: the authored weights, renormalised.

    Without weights it is the default plan alone. Where none of the mass is feasible, the
    feasible plans share evenly: what the caller can do comes before what the author likes.

    Args:
        weights: Shape (n_plans,): the catalog's weights; None without.
        default: Action of the default plan.
        mask: Shape (n_plans,) or (n, n_plans): True = feasible.
        floor: Exploration floor, from 0 to 1.

    Returns:
        Probabilities in the shape of `mask`.

    Raises:
        RangeError: If a row has no feasible plan, or the floor is no share.
    """
    check_floor(floor)
    feasible = np.atleast_2d(mask)
    n_feasible = feasible_counts(feasible)
    if weights is None:
        weights = np.zeros(feasible.shape[1])
        weights[default] = 1.0
    rows = np.multiply(feasible, weights)
    total = rows.sum(axis=1, keepdims=True)
    flat = total[:, 0] == 0.0
    total[flat] = 1.0
    rows *= (1.0 - floor) / total
    if floor:
        rows += np.multiply(feasible, floor / n_feasible)
    rows[flat] = feasible[flat] / n_feasible[flat].astype(np.float64)
    return rows[0] if np.ndim(mask) == 1 else rows


def greedy(probabilities: FloatArray) -> IntArray:
    """The likeliest plan of each row, the first of equals, shape (n,)."""
    return np.asarray(np.argmax(probabilities, axis=-1))
