"""Full rows of two policies: what a control variate over all plans needs to know."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators.checks import require
from eval.estimators.distributions import actions, distributions, took
from policy.arrays import BoolArray, FloatArray, IntArray

_NEAR: Final = 1e-6
"""How far a weight may lie from its ratio."""


@dataclass(frozen=True, slots=True)
class PlanRows:
    """Both policies' probabilities of every plan.

    Attributes:
        target: Shape (n, K). Target policy's probabilities, 0 where masked.
        logging: Shape (n, K). Logging policy's, 0 where masked.
        taken: Shape (n,). Plan taken, from 0.
        ratio: Shape (n, K). Target over logging probability; 0 where nothing was logged, which
            `is_logged` tells apart.
        is_logged: Shape (n, K). Whether the logging policy could take the plan.
    """

    target: FloatArray
    logging: FloatArray
    taken: IntArray
    ratio: FloatArray
    is_logged: BoolArray

    def of_taken(self, values: FloatArray) -> FloatArray:
        """The column of the plan taken.

        Args:
            values: Shape (n, K).

        Returns:
            Shape (n,).
        """
        return values[np.arange(len(self.taken)), self.taken]

    def unsupported_mass(self) -> float | None:
        """Mean share of the target on plans that were never logged; None without rows."""
        if not len(self.taken):
            return None
        return float(np.where(self.is_logged, 0, self.target).sum(axis=1).mean())


def plan_rows(
    target: ArrayLike, logging: ArrayLike, taken: ArrayLike, weight: FloatArray
) -> PlanRows:
    """Full rows, checked against the weights of the plans taken.

    Args:
        target: Shape (n, K). Each row sums to 1.
        logging: Shape (n, K). Each row sums to 1.
        taken: Shape (n,). Whole numbers from 0 to K - 1.
        weight: Shape (n,). Target over logging probability of the plan taken.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows and plans.
        RangeError: If a row is no distribution, a plan taken could not be logged, or its weight is
            not its ratio; the row is named, from 1.
    """
    n = len(weight)
    logged = distributions("logging", logging)
    if len(logged) != n:
        raise ShapeMismatchError("logging", logged.shape, (n, logged.shape[1]))
    wanted = distributions("target", target, logged.shape)
    chosen = actions(taken, n, logged.shape[1])
    is_logged = logged > 0
    ratio = np.divide(wanted, logged, out=np.zeros_like(wanted), where=is_logged)
    rows = PlanRows(wanted, logged, chosen, ratio, is_logged)
    took("logging", rows.of_taken(logged))
    near = np.isclose(weight, rows.of_taken(ratio), rtol=_NEAR, atol=_NEAR)
    require("weight", weight, near, "the target's over the logging probability of the plan taken")
    return rows


def model_rows(q: ArrayLike, rows: PlanRows, lo: float, hi: float) -> FloatArray:
    """A reward model's predictions, 0 in `[0, 1]` where neither policy can go.

    Args:
        q: Shape (n, K), within [lo, hi]; anything, NaN too, where neither policy can go.
        rows: Both policies' probabilities.
        lo: Least reward.
        hi: Largest reward.

    Returns:
        Shape (n, K), scaled so that [lo, hi] becomes [0, 1].

    Raises:
        ShapeMismatchError: If there is not one prediction for each plan of each row.
        RangeError: If a prediction that counts lies outside the range.
    """
    found = np.asarray(q, dtype=np.float64)
    if found.shape != rows.target.shape:
        raise ShapeMismatchError("q", found.shape, rows.target.shape)
    scaled = np.where((rows.target > 0) | rows.is_logged, (found - lo) / (hi - lo), 0.0)
    inside = ((scaled >= 0) & (scaled <= 1)).all(axis=1)
    if not inside.all():
        row = int(np.argmin(inside))
        worst = scaled[row][~((scaled[row] >= 0) & (scaled[row] <= 1))][0]
        expected = f"predictions in the declared {lo:g} to {hi:g}"
        raise RangeError("q", row + 1, float(lo + worst * (hi - lo)), expected)
    return np.asarray(scaled, dtype=np.float64)
