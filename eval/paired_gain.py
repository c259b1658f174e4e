"""Gain of a policy over the one that logged, paired row by row, with a one-sided bound.

X = (w - 1)(r - least reward) is judged by a t bound over units. The bound is approximate: it
holds for gains skewed to the right, which weights give, and is refused for gains skewed to the
left, where it is known to promise too much.

Source:
    Thomas, Theocharous, Ghavamzadeh, High-Confidence Policy Improvement, ICML 2015; Cameron and
    Miller, A Practitioner's Guide to Cluster-Robust Inference, JHR 2015.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from eval.estimators.inverse_propensity import ips
from eval.intervals.unit_t import unit_interval
from eval.intervals.units import units_of
from policy.arrays import FloatArray

MIN_UNITS: Final = 30
"""Fewer units, or units' worth of weight, give no bound."""

_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Gain:
    """The paired gain over the logging policy.

    Attributes:
        estimate: In reward units per decision.
        lower: One-sided lower bound; None where none is honest.
        n_units: Units it rests on.
        skew: Skewness of the units' gains; None where they do not vary.
        refusal: Why there is no bound; None where there is one.
    """

    estimate: float
    lower: float | None
    n_units: int
    skew: float | None
    refusal: str | None


def paired_gain(
    reward: FloatArray,
    weight: FloatArray,
    units: npt.NDArray[Any],
    *,
    level: float,
    reward_min: float = 0.0,
    keep_prob: FloatArray | None = None,
) -> Gain:
    """Gain of a target policy over the logging policy, with a one-sided lower bound.

    Args:
        reward: Shape (n,), at least `reward_min`.
        weight: Shape (n,). Importance weights, keep probability divided in.
        units: Shape (n,). Unit of each row.
        level: Probability with which the bound must hold, from 0.5.
        reward_min: Least reward that can occur; counted from there, gains are skewed to the
            right.
        keep_prob: Shape (n,). Probability with which each row was kept; None where every was.

    Returns:
        The gain; its bound is approximate.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is not finite or a weight negative.
    """
    above = reward - reward_min
    kept = np.ones(len(above)) if keep_prob is None else keep_prob
    gains = (
        ips(above, weight, keep_prob=keep_prob).contributions
        - ips(above, 1 / kept, keep_prob=keep_prob).contributions
    )
    # A one-sided bound at level L is the lower end of the two-sided interval at 2 L - 1.
    found = unit_interval(gains, units, level=2 * level - 1)
    deviations = units_of(units, len(gains)).sums(gains - found.value)
    spread = float(np.sqrt(np.square(deviations).mean()))
    varies = spread > _ROUNDING * max(1.0, abs(found.value))
    skew = float((deviations**3).mean() / spread**3) if varies else None
    refusal = None
    if found.n_units < MIN_UNITS:
        refusal = f"{found.n_units} units are too few for a bound."
    elif skew is not None and skew < 0:
        refusal = (
            f"the gains are skewed to the left ({skew:.2f}), where the bound promises too much."
        )
    lower = None if refusal else found.lo
    return Gain(found.value, lower, found.n_units, skew, refusal)
