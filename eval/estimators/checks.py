"""What estimators demand of their arrays; each refusal names the array and the row, from 1."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class Rows:
    """How the rows at hand stand for the decisions made.

    Attributes:
        decisions: Shape (n,). Decisions each row stands for: 1 where nothing was dropped, else
            proportional to 1 / keep probability.
        n_decisions: Their sum: how many decisions the rows speak for.
        keep_prob: Shape (n,). Probability with which each row was kept; None where every row was.
    """

    decisions: FloatArray
    n_decisions: float
    keep_prob: FloatArray | None = None

    def reshaped(self, weight: FloatArray, shape: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Weights of shape (n,) after a change of the policies' ratio.

        Args:
            weight: Shape (n,). Importance weights, keep probability divided in.
            shape: From ratios of target over logging probability to what replaces them.
        """
        if self.keep_prob is None:
            return shape(weight)
        # The keep probability is known and no policy's doing; it may depend on the reward. To cut
        # by it would tilt the rewards, and not even a perfect reward model could undo that.
        ratio = weight * self.keep_prob
        changed = shape(ratio)
        return np.where(changed == ratio, weight, changed / self.keep_prob)


def numbers(name: str, values: ArrayLike, n_rows: int | None = None) -> FloatArray:
    """A finite float64 vector.

    Args:
        name: What errors call it.
        values: Shape (n,).
        n_rows: Length it must have; None takes any.

    Raises:
        ShapeMismatchError: If it is no vector, or of another length.
        RangeError: If a number is NaN or infinite.
    """
    array = np.asarray(values, dtype=np.float64)
    expected = (n_rows if n_rows is not None else array.size,)
    if array.shape != expected:
        raise ShapeMismatchError(name, array.shape, expected)
    require(name, array, np.isfinite(array), "a finite number")
    return array


def weights(values: ArrayLike, n_rows: int) -> FloatArray:
    """Importance weights.

    Raises:
        ShapeMismatchError: If they are not one per row.
        RangeError: If one is negative, NaN or infinite.
    """
    array = numbers("weight", values, n_rows)
    require("weight", array, array >= 0, "a weight of at least 0")
    return array


def rows_of(n_rows: int, keep_prob: ArrayLike | None, n_decisions: float | None) -> Rows:
    """How many decisions each row stands for.

    Args:
        n_rows: Rows at hand.
        keep_prob: Shape (n,), in (0, 1]: probability with which each row was kept; None where
            every row was.
        n_decisions: Decisions made, the dropped ones included, if that was logged.

    Raises:
        ShapeMismatchError: If there is not one keep probability per row.
        RangeError: If one lies outside (0, 1], or fewer decisions than rows are claimed.
    """
    keep = None if keep_prob is None else positive_probabilities("keep_prob", keep_prob, n_rows)
    decisions = np.ones(n_rows) if keep is None else 1 / keep
    if n_decisions is None:
        return Rows(decisions, float(decisions.sum()), keep)
    if not n_rows <= n_decisions < np.inf:
        raise RangeError("n_decisions", None, n_decisions, f"at least the {n_rows} rows at hand")
    if n_rows:
        decisions *= n_decisions / decisions.sum()
    return Rows(decisions, float(n_decisions), keep)


def positive_probabilities(name: str, values: ArrayLike, n_rows: int) -> FloatArray:
    """Probabilities of what did happen, so none is 0.

    Raises:
        ShapeMismatchError: If they are not one per row.
        RangeError: If one lies outside (0, 1].
    """
    array = numbers(name, values, n_rows)
    require(name, array, (array > 0) & (array <= 1), "a probability in (0, 1]")
    return array


def probabilities(name: str, values: ArrayLike, n_rows: int | None = None) -> FloatArray:
    """Probabilities.

    Raises:
        ShapeMismatchError: If they are not one per row.
        RangeError: If one lies outside [0, 1].
    """
    array = numbers(name, values, n_rows)
    require(name, array, (array >= 0) & (array <= 1), "a probability from 0 to 1")
    return array


def declared_range(reward: FloatArray, reward_range: tuple[float, float]) -> tuple[float, float]:
    """The range that rewards were declared to keep to.

    Raises:
        RangeError: If it is none, or a reward lies outside.
    """
    lo, hi = reward_range
    if not -np.inf < lo < hi < np.inf:
        raise RangeError("reward_range", None, hi, f"a finite number above the lowest reward {lo}")
    within = (reward >= lo) & (reward <= hi)
    require("reward", reward, within, f"a reward within the declared {lo:g} to {hi:g}")
    return lo, hi


def require(name: str, array: FloatArray, holds: BoolArray, expected: str) -> None:
    """Refuse the first row where a condition fails.

    Raises:
        RangeError: Naming the row.
    """
    bad = np.flatnonzero(~holds)
    if bad.size:
        raise RangeError(name, int(bad[0]) + 1, float(array[bad[0]]), expected)
