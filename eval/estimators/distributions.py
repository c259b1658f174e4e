"""Whole distributions over plans: what is demanded of them, and what estimators need of them.

A target policy's probabilities are those under the mask that was logged, at the plan that was
logged; a plan drawn anew, or a mask of today, would give the weight of another decision.
"""

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError, ShapeMismatchError
from canopy.logs.schema import SUM_TOLERANCE
from eval.estimators.checks import positive_probabilities, probabilities, require
from policy.arrays import BoolArray, FloatArray, IntArray

_ROWS_BY_PLANS = 2


def importance_weight(
    target_taken: ArrayLike, propensity: ArrayLike, *, keep_prob: ArrayLike | None = None
) -> FloatArray:
    """Importance weights: target probability of the plan taken over its propensity.

    Args:
        target_taken: Shape (n,), from 0 to 1. Target policy's probability of the plan that was
            logged, under the mask that was logged.
        propensity: Shape (n,), in (0, 1]. Logging policy's probability of that plan.
        keep_prob: Shape (n,), in (0, 1]. Probability with which each row was kept; None where
            every row was.

    Returns:
        Shape (n,), at least 0; the keep probability is divided in, as the estimators want it.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is no such probability; the row is named, from 1.

    Source:
        Horvitz and Thompson, A Generalization of Sampling Without Replacement, JASA 1952.
    """
    p = positive_probabilities("propensity", propensity, np.size(propensity))
    pi = probabilities("target_taken", target_taken, len(p))
    with np.errstate(over="ignore"):
        return kept(pi / p, keep_prob)


def expected_reward(
    target: ArrayLike, q_all: ArrayLike, *, mask: ArrayLike | None = None
) -> FloatArray:
    """A reward model's value of the target policy in every row.

    Args:
        target: Shape (n, n_plans). Target policy's distributions under the logged masks.
        q_all: Shape (n, n_plans). Model's reward of every plan, in reward units; anything, NaN
            included, where the target has no probability.
        mask: Shape (n, n_plans). True where a plan was feasible; None takes the target's word.

    Returns:
        Shape (n,): predictions averaged with the target's probabilities.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a distribution is none or leaves the mask, or a prediction that is needed
            is not finite; the row is named, from 1.
    """
    pi = distributions("target", target, mask=mask)
    return np.asarray((pi * needed("q_all", q_all, pi > 0)).sum(axis=1))


def renormalized(target: ArrayLike, mask: ArrayLike) -> FloatArray:
    """Distributions cut to the feasible plans, so that they sum to 1 there.

    Args:
        target: Shape (n, n_plans), at least 0. Probabilities, or weights in proportion to them.
        mask: Shape (n, n_plans). True where a plan was feasible when the row was logged.

    Returns:
        Shape (n, n_plans): 0 where masked.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is negative or not finite, no plan is feasible, or the target has
            no probability on any feasible plan; the row is named, from 1.
    """
    array = _matrix("target", target)
    feasible = _mask(mask, array.shape)
    _require_rows("target", array, (array >= 0) & np.isfinite(array), "a finite number, at least 0")
    cut = np.where(feasible, array, 0.0)
    total = cut.sum(axis=1)
    require("target", total, total > 0, "some probability on the feasible plans")
    return np.asarray(cut / total[:, None])


def kept(weight: FloatArray, keep_prob: ArrayLike | None) -> FloatArray:
    """Weights of shape (n,) with the keep probability divided in.

    Raises:
        ShapeMismatchError: If there is not one keep probability per row.
        RangeError: If one lies outside (0, 1].
    """
    if keep_prob is None:
        return weight
    keep = positive_probabilities("keep_prob", keep_prob, len(weight))
    with np.errstate(over="ignore"):
        return weight / keep


def distributions(
    name: str,
    values: ArrayLike,
    shape: tuple[int, ...] | None = None,
    *,
    mask: ArrayLike | None = None,
) -> FloatArray:
    """Distributions over plans, one a row.

    Args:
        name: What errors call them.
        values: Shape (n, n_plans).
        shape: Shape they must have; None takes any.
        mask: Shape (n, n_plans). Plans that may have probability; None allows all.

    Raises:
        ShapeMismatchError: If they are no matrix, or of another shape.
        RangeError: If a number is no probability, a masked plan has some, or a row does not sum
            to 1 within 1e-6.
    """
    array = _matrix(name, values, shape)
    _require_rows(name, array, (array >= 0) & (array <= 1), "a probability from 0 to 1")
    if mask is not None:
        feasible = _mask(mask, array.shape)
        _require_rows(name, array, feasible | (array == 0), "0 where a plan is masked")
    total = array.sum(axis=1)
    require(name, total, np.abs(total - 1) <= SUM_TOLERANCE, "a sum of 1 over the plans")
    return array


def actions(taken: ArrayLike, n_rows: int, n_plans: int) -> IntArray:
    """Indices of the plans taken.

    Args:
        taken: Shape (n,).
        n_rows: Rows there must be.
        n_plans: Plans there are.

    Raises:
        ShapeMismatchError: If there is not one per row.
        RangeError: If one is no whole number from 0 to n_plans - 1. A negative one would count
            from the end.
    """
    array = np.asarray(taken, dtype=np.float64)
    if array.shape != (n_rows,):
        raise ShapeMismatchError("taken", array.shape, (n_rows,))
    is_plan = (array >= 0) & (array < n_plans) & (array == np.floor(array))
    require("taken", array, is_plan, f"a plan from 0 to {n_plans - 1}")
    return array.astype(np.intp)


def at(values: FloatArray, taken: IntArray) -> FloatArray:
    """The entries of shape (n, n_plans) that belong to the plans taken, shape (n,)."""
    return values[np.arange(len(taken)), taken]


def took(name: str, propensity: FloatArray) -> FloatArray:
    """Probabilities of the plans taken, of shape (n,), none of which can be 0.

    Raises:
        RangeError: If one is.
    """
    require(name, propensity, propensity > 0, "a probability above 0 of the plan taken")
    return propensity


def needed(name: str, values: ArrayLike, is_needed: BoolArray) -> FloatArray:
    """Finite numbers where they are needed, 0 elsewhere, whatever stood there.

    Args:
        name: What errors call them.
        values: Shape (n, n_plans).
        is_needed: Shape (n, n_plans).

    Raises:
        ShapeMismatchError: If the shapes differ.
        RangeError: If a number that is needed is NaN or infinite.
    """
    array = _matrix(name, values, is_needed.shape)
    _require_rows(name, array, np.isfinite(array) | ~is_needed, "a finite number")
    return np.where(is_needed, array, 0.0)


def _matrix(name: str, values: ArrayLike, shape: tuple[int, ...] | None = None) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != _ROWS_BY_PLANS or (shape is not None and array.shape != shape):
        raise ShapeMismatchError(name, array.shape, shape or (len(np.atleast_1d(array)), 1))
    return array


def _mask(values: ArrayLike, shape: tuple[int, ...]) -> BoolArray:
    array = _matrix("mask", values, shape)
    _require_rows("mask", array, (array == 0) | (array == 1), "True or False")
    feasible: BoolArray = array == 1
    n_feasible = feasible.sum(axis=1).astype(np.float64)
    require("mask", n_feasible, n_feasible > 0, "at least one feasible plan")
    return feasible


def _require_rows(name: str, array: FloatArray, holds: BoolArray, expected: str) -> None:
    """Refuse the first row with an entry where a condition fails.

    Raises:
        RangeError: Naming the row and the plan.
    """
    bad = np.argwhere(~holds)
    if len(bad):
        row, plan = bad[0]
        raise RangeError(name, int(row) + 1, float(array[row, plan]), f"{expected} (plan {plan})")
