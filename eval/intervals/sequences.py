"""Confidence sequences for one mean: intervals that hold at every row at once.

They may be looked at after each row and stopped at will. Rows must be independent: rows of one
unit are averaged first (`units`), or false alarms become the rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError
from eval.estimators.checks import numbers, require
from eval.intervals.units import unit_means
from eval.intervals.wagers import Bets, past_mean, stakes, wager
from policy.arrays import FloatArray

Centring = Literal["pseudo_row", "running_mean"]
SequenceStatus = Literal["ok", "drift", "refused"]

_MOST_STAKE: Final = 0.5


@dataclass(frozen=True, slots=True)
class ConfidenceSequence:
    """Running bounds on a mean, one pair per row fed.

    Attributes:
        lower: Shape (n,), in the values' units; it never falls. Empty where refused.
        upper: Shape (n,); it never rises. Empty where refused.
        status: `ok`; `drift` where no common mean is left, so that there is no interval; or
            `refused`.
        reason: Why there is no interval; None where there is one.
        drift: Whether the bounds crossed. From then on `lower` exceeds `upper`: that is the
            finding, and no interval.
        drift_row: Row after which they first had, from 1; None where they never did.
        level: Probability with which both bounds hold at all rows.
        n: Rows fed: units where units were named.
    """

    lower: FloatArray
    upper: FloatArray
    status: SequenceStatus
    reason: str | None
    drift: bool
    drift_row: int | None
    level: float
    n: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval after the last row; None on drift or refusal."""
        if self.status != "ok":
            return None
        return float(self.lower[-1]), float(self.upper[-1])


def betting_sequence(
    x: ArrayLike,
    alpha: float = 0.05,
    *,
    lo: float = 0.0,
    hi: float = 1.0,
    bets: Bets = "schedule",
    units: Sequence[Any] | np.ndarray[Any, Any] | None = None,
) -> ConfidenceSequence:
    """Hedged betting: the narrowest kind of sequence for one bounded mean.

    Args:
        x: Shape (n,), within [lo, hi]. Values in the order in which they came.
        alpha: Probability with which any bound may ever be wrong, in (0, 1).
        lo: Least value that can occur, declared and not read off the values.
        hi: Largest value that can occur.
        bets: `schedule`: stakes by predictable plug-in, as published. `mixture`: an average of
            constant shares of the wealth, narrower on long streams (at 1,000 rows about 1.5 times
            the fixed-n interval, where the schedule has up to 2.1 times).
        units: Shape (n,). Unit of each row: its mean is fed, once, in order of first appearance.
            None feeds rows, which must then be independent.

    Returns:
        Bounds after each row, or the alarm that the mean has drifted; refused without rows.

    Raises:
        ShapeMismatchError: If `x` is no vector or there is not one unit per row.
        RangeError: If a value lies outside the declared range or alpha outside (0, 1).

    Source:
        Waudby-Smith and Ramdas, Estimating Means of Bounded Random Variables by Betting,
        JRSS-B 2024: stakes by predictable plug-in, at most half the wealth lost in one row.
    """
    scaled = scaled_values(x, lo, hi, units)
    threshold = side_threshold(alpha)
    lower = wager(bets, scaled, threshold).running_lower(threshold)
    below = wager(bets, 1 - scaled, threshold).running_lower(threshold)
    return crossed(lo + (hi - lo) * lower, hi - (hi - lo) * below, 1 - alpha)


def prpl_eb_sequence(
    x: ArrayLike,
    alpha: float = 0.05,
    *,
    lo: float = 0.0,
    hi: float = 1.0,
    centring: Centring = "pseudo_row",
    units: Sequence[Any] | np.ndarray[Any, Any] | None = None,
) -> ConfidenceSequence:
    """Predictable plug-in empirical Bernstein: a closed form, wider than betting.

    Args:
        x: As for `betting_sequence`.
        alpha: As for `betting_sequence`.
        lo: As for `betting_sequence`.
        hi: As for `betting_sequence`.
        centring: What deviations are counted from. `pseudo_row`: the past mean with one more row
            in the middle of the range. `running_mean`: the plain past mean, the low end before
            the first row, each side of the interval mirrored; published tables use it.
        units: As for `betting_sequence`.

    Returns:
        Bounds after each row, or the alarm that the mean has drifted; refused without rows.

    Raises:
        ShapeMismatchError: As for `betting_sequence`.
        RangeError: As for `betting_sequence`.

    Source:
        Waudby-Smith and Ramdas, as for `betting_sequence`, theorem 2.
    """
    scaled = scaled_values(x, lo, hi, units)
    threshold = side_threshold(alpha)
    lower = prpl_eb_lower(scaled, threshold, centring)
    below = prpl_eb_lower(1 - scaled, threshold, centring)
    return crossed(lo + (hi - lo) * lower, hi - (hi - lo) * below, 1 - alpha)


def prpl_eb_lower(
    values: FloatArray, log_threshold: float, centring: Centring = "pseudo_row"
) -> FloatArray:
    """Running lower bound on a mean in [0, 1] of values of at least 0.

    Args:
        values: Shape (n,), at least 0; they may exceed 1, their mean may not.
        log_threshold: -log of the error allowed.
        centring: As for `prpl_eb_sequence`.

    Returns:
        Shape (n,), at least 0 and never falling.
    """
    if centring == "pseudo_row":
        centre = past_mean(values)
    else:
        before = np.arange(len(values))
        centre = (np.cumsum(values) - values) / np.maximum(before, 1)
    # The proof asks that no value lie more than 1 below its centre.
    deviations = np.square(values - np.minimum(centre, 1))
    stake = np.minimum(stakes(values, log_threshold), _MOST_STAKE)
    spent = np.cumsum(deviations * (-np.log1p(-stake) - stake))
    bound = (np.cumsum(stake * values) - log_threshold - spent) / np.cumsum(stake)
    return np.maximum.accumulate(np.maximum(bound, 0))


def scaled_values(
    x: ArrayLike,
    lo: float,
    hi: float,
    units: Sequence[Any] | np.ndarray[Any, Any] | None,
) -> FloatArray:
    """Values, or their means by unit, on the scale where the declared range is [0, 1].

    Args:
        x: Shape (n,), within [lo, hi].
        lo: Least value that can occur.
        hi: Largest value that can occur.
        units: Shape (n,). Unit of each row; None feeds rows.

    Raises:
        ShapeMismatchError: If `x` is no vector or there is not one unit per row.
        RangeError: If a value lies outside the range, or the range is none.
    """
    values = numbers("x", x)
    declared(lo, hi)
    within = (values >= lo) & (values <= hi)
    require("x", values, within, f"a value in the declared {lo:g} to {hi:g}")
    means = values if units is None else unit_means(values, units)
    return np.clip((means - lo) / (hi - lo), 0, 1)


def declared(lo: float, hi: float) -> None:
    """Refuse what is no range.

    Raises:
        RangeError: If `hi` does not exceed `lo`, or one is not finite.
    """
    if not -np.inf < lo < hi < np.inf:
        raise RangeError("hi", None, hi, f"a finite number above lo = {lo:g}")


def log_inverse(alpha: float) -> float:
    """-log(alpha): the logarithm of the wealth, or of the evidence, that an error rate asks for.

    Raises:
        RangeError: If alpha lies outside (0, 1).
    """
    if not 0 < alpha < 1:
        raise RangeError("alpha", None, alpha, "an error rate between 0 and 1")
    return float(-np.log(alpha))


def side_threshold(alpha: float) -> float:
    """-log(alpha / 2): what each of two sides is held to, so that both hold at error alpha.

    Raises:
        RangeError: If alpha lies outside (0, 1).
    """
    return log_inverse(alpha) + float(np.log(2))


def crossed(lower: FloatArray, upper: FloatArray, level: float) -> ConfidenceSequence:
    """A sequence from its bounds, with the alarm where no common mean is left.

    Args:
        lower: Shape (n,), never falling.
        upper: Shape (n,), never rising.
        level: Probability with which both hold at all rows.
    """
    n = len(lower)
    if n == 0:
        return refused("no data: not one row.", level)
    empty = lower > upper
    row = int(np.argmax(empty)) + 1 if empty.any() else None
    reason = None
    if row is not None:
        reason = (
            f"drift: after row {row} no single mean fits all rows (the lower bound exceeds the "
            "upper one); the values changed over time."
        )
    return ConfidenceSequence(
        lower=lower,
        upper=upper,
        status="ok" if row is None else "drift",
        reason=reason,
        drift=row is not None,
        drift_row=row,
        level=level,
        n=n,
    )


def refused(reason: str, level: float) -> ConfidenceSequence:
    """A sequence that says nothing, and why."""
    none = np.empty(0)
    return ConfidenceSequence(none, none, "refused", reason, False, None, level, 0)
