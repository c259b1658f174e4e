"""The t interval by unit: the sandwich error of a sum of ratios, linearised."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from canopy.logs.weights import effective_sample_size
from eval.estimators.checks import numbers, weights
from eval.intervals.units import Units, units_of
from policy.arrays import FloatArray

_LEAST_UNITS: Final = 2


@dataclass(frozen=True, slots=True)
class UnitInterval:
    """An interval around a mean of contributions.

    Attributes:
        value: The mean, in reward units.
        std_err: Its standard error; None with fewer than two units.
        lo: Lower end; None with fewer than two units.
        hi: Upper end; None with fewer than two units.
        level: Nominal coverage.
        n_units: Units it rests on.
    """

    value: float
    std_err: float | None
    lo: float | None
    hi: float | None
    level: float
    n_units: int


def unit_interval(
    contributions: ArrayLike,
    units: Units | Sequence[Any] | np.ndarray[Any, Any] | None = None,
    *,
    level: float = 0.95,
) -> UnitInterval:
    """A t interval for the mean of contributions whose units are independent.

    Args:
        contributions: Shape (n,), n at least 1. `Estimate.contributions`, or the difference of
            two over the same rows.
        units: Shape (n,). Unit of each row; None makes each row its own.
        level: Coverage wanted, between 0 and 1.

    Returns:
        Value and interval, in the contributions' units, with n_units - 1 degrees of freedom.

    Raises:
        ShapeMismatchError: If there is not one unit per row.
        RangeError: If a contribution is not finite.

    Source:
        Cameron and Miller, A Practitioner's Guide to Cluster-Robust Inference, JHR 2015,
        with the small-sample factor G / (G - 1).
    """
    c = numbers("contributions", contributions)
    grouped = units_of(units, len(c))
    value = float(c.mean())
    return effects_interval(value, grouped.sums(c - value) / len(c), level=level)


def effects_interval(value: float, effects: FloatArray, *, level: float = 0.95) -> UnitInterval:
    """The same from what each unit adds to an estimate, beside the value itself.

    Args:
        value: The estimate, in reward units.
        effects: Shape (n_units,). Linearised effect of each unit on it; they sum to 0.
        level: Coverage wanted, between 0 and 1.
    """
    g = len(effects)
    if g < _LEAST_UNITS:
        return UnitInterval(value, None, None, None, level, g)
    std_err = float(np.sqrt(g / (g - 1) * np.square(effects).sum()))
    half = float(stdtrit(g - 1, (1 + level) / 2)) * std_err
    return UnitInterval(value, std_err, value - half, value + half, level, g)


def unit_ess(
    weight: ArrayLike, units: Units | Sequence[Any] | np.ndarray[Any, Any] | None = None
) -> float:
    """Effective sample size in units: units whose rows carry the weight, not rows.

    Args:
        weight: Shape (n,), at least 0. Importance weights.
        units: Shape (n,). Unit of each row; None makes each row its own.

    Raises:
        ShapeMismatchError: If there is not one unit per row.
        RangeError: If a weight is negative or not finite.
    """
    w: FloatArray = weights(weight, np.size(weight))
    return effective_sample_size(units_of(units, len(w)).sums(w))
