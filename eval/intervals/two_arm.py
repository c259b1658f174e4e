"""The always-valid comparison of two arms: a live test that may be looked at after every unit.

Feed units, not rows, in the order of their assignment: rows of one unit are no news, and an
order of arrival favours the arm that answers sooner. Missing outcomes are not dropped silently:
`two_arm_with_missing` says what dropping would claim and what survives the worst case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaln

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators.checks import require
from eval.intervals.sequences import declared, log_inverse, side_threshold
from eval.intervals.units import units_of
from policy.arrays import BoolArray, FloatArray

Unseen = Literal["mid_range", "published"]
TwoArmStatus = Literal["ok", "refused"]

_HALVINGS: Final = 52


@dataclass(frozen=True, slots=True)
class TwoArmSequence:
    """Bounds on treatment mean minus control mean, after each unit.

    Attributes:
        estimate: Shape (n,), in outcome units. Empty where refused, as are the others.
        lower: Shape (n,). Each row's own bound; the running maximum holds too.
        upper: Shape (n,), likewise; the running minimum holds too.
        p_value: Shape (n,). One-sided: against "the effect is at most 0". Small where treatment
            is better, at whatever row one looks.
        p_harm: Shape (n,). The other side: against "the effect is at least 0".
        status: `ok` or `refused`.
        reason: Why there is nothing; None where there is.
        level: Probability with which both bounds hold at all rows.
        n: Units fed.
        n_treated: Those in the treatment arm.
    """

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    p_value: FloatArray
    p_harm: FloatArray
    status: TwoArmStatus
    reason: str | None
    level: float
    n: int
    n_treated: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval after the last unit; None where refused."""
        return None if self.status != "ok" else (float(self.lower[-1]), float(self.upper[-1]))

    @property
    def excludes_zero(self) -> bool:
        """Whether any unit's interval so far left out "no effect"."""
        return bool(((self.lower > 0) | (self.upper < 0)).any())


@dataclass(frozen=True, slots=True)
class Arms:
    """What a comparison is fed.

    Attributes:
        outcome: Shape (n,), scaled so that the declared range is [0, 1]; NaN where missing.
        treated: Shape (n,). True in the treatment arm.
    """

    outcome: FloatArray
    treated: BoolArray


def two_arm_sequence(
    outcome: ArrayLike,
    treated: ArrayLike,
    share: float,
    lo: float,
    hi: float,
    alpha: float = 0.05,
    tuned_at: float = 1_000,
    variance: float | None = None,
    *,
    unseen: Unseen = "mid_range",
    units: Sequence[Any] | np.ndarray[Any, Any] | None = None,
) -> TwoArmSequence:
    """A confidence sequence for the difference of two arms' mean outcomes.

    Args:
        outcome: Shape (n,), within [lo, hi], in the order of assignment.
        treated: Shape (n,). True (or 1) in treatment, False (or 0) in control.
        share: Probability of treatment at assignment, strictly between 0 and 1.
        lo: Least outcome that can occur, declared.
        hi: Largest outcome that can occur.
        alpha: Probability with which any bound may ever be wrong, in (0, 1).
        tuned_at: Number of units at which the bounds are to be narrowest. Only a tuning: the
            bounds hold at every row whatever it is.
        variance: Expected variance of an outcome within an arm; None takes a quarter of the
            squared range, the largest there is. Only a tuning too.
        unseen: What an arm is expected to earn before its first unit. `mid_range`: the middle of
            the range. `published`: the middle for the first row only, then the low end; published
            tables use it. Both are valid.
        units: Shape (n,). Unit of each row, whose outcomes are averaged and fed once, in order of
            first appearance. None feeds rows, which must then be one per unit.

    Returns:
        Estimate, bounds and p values after each unit; refused without rows.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows.
        RangeError: If an outcome is missing or lies outside the declared range, an arm is neither
            0 nor 1, a unit is in both arms, or a number lies outside its range; the row is named.

    Source:
        Howard, Ramdas, McAuliffe and Sekhon, Time-uniform, Nonparametric, Nonasymptotic
        Confidence Sequences, Annals of Statistics 2021: the gamma-exponential mixture, on
        inverse-propensity terms with a running control variate.
    """
    fed = arms(outcome, treated, lo, hi, units)
    require(
        "outcome",
        np.asarray(outcome, dtype=np.float64),
        np.isfinite(np.asarray(outcome, dtype=np.float64)),
        "a number (`two_arm_with_missing` takes missing ones)",
    )
    tuning = tuning_of(share, alpha, tuned_at, variance, hi - lo)
    return compare(fed, tuning, unseen, span=hi - lo)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What shapes the bounds without touching their validity, and the error allowed.

    Attributes:
        share: Probability of treatment.
        alpha: Error allowed.
        rho: Parameter of the mixture, in scaled outcomes.
        scale: Largest fall of a term below its mean, in scaled outcomes.
    """

    share: float
    alpha: float
    rho: float
    scale: float


def tuning_of(
    share: float, alpha: float, tuned_at: float, variance: float | None, span: float
) -> Tuning:
    """What the arguments of `two_arm_sequence` come to on the scale of [0, 1].

    Raises:
        RangeError: If a number lies outside its range.
    """
    if not 0 < share < 1:
        raise RangeError("share", None, share, "a probability strictly between 0 and 1")
    if not 0 < tuned_at < np.inf:
        raise RangeError("tuned_at", None, tuned_at, "a positive number of units")
    expected = 0.25 if variance is None else variance / span**2
    if not 0 < expected < np.inf:
        raise RangeError("variance", None, expected * span**2, "a positive number")
    tail = 2 * log_inverse(alpha)
    best = tuned_at * expected * (1 / share + 1 / (1 - share))
    return Tuning(share, alpha, best / (tail + np.log1p(tail)), 2 / min(share, 1 - share))


def arms(
    outcome: ArrayLike,
    treated: ArrayLike,
    lo: float,
    hi: float,
    units: Sequence[Any] | np.ndarray[Any, Any] | None = None,
) -> Arms:
    """Outcomes on the declared scale, and arms, one per unit.

    Args:
        outcome: Shape (n,), within [lo, hi]; NaN or None where missing.
        treated: Shape (n,), 0 or 1.
        lo: Least outcome.
        hi: Largest outcome.
        units: Shape (n,); None where rows are units.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows.
        RangeError: If an outcome lies outside the range, an arm is neither 0 nor 1, or a unit is
            in both arms; the row is named.
    """
    declared(lo, hi)
    y = np.asarray(outcome, dtype=np.float64)
    t = np.asarray(treated, dtype=np.float64)
    if y.ndim != 1:
        raise ShapeMismatchError("outcome", y.shape, (y.size,))
    if t.shape != y.shape:
        raise ShapeMismatchError("treated", t.shape, y.shape)
    within = np.isnan(y) | ((y >= lo) & (y <= hi))
    require("outcome", y, within, f"an outcome in the declared {lo:g} to {hi:g}")
    require("treated", t, (t == 0) | (t == 1), "0 or 1")
    scaled = (y - lo) / (hi - lo)
    if units is None:
        return Arms(scaled, t == 1)
    grouped = units_of(units, len(y))
    first = np.zeros(grouped.n_units)
    # Written backwards, so that the first row of each unit has the last word.
    first[grouped.codes[::-1]] = t[::-1]
    require("treated", t, t == first[grouped.codes], "the arm of the unit's earlier rows")
    is_seen = ~np.isnan(scaled)
    n_seen = grouped.sums(is_seen.astype(np.float64))
    total = grouped.sums(np.where(is_seen, scaled, 0.0))
    means = np.divide(total, n_seen, out=np.full(grouped.n_units, np.nan), where=n_seen > 0)
    return Arms(means, first == 1)


def compare(fed: Arms, tuning: Tuning, unseen: Unseen, *, span: float) -> TwoArmSequence:
    """The sequence of complete, scaled outcomes.

    Args:
        fed: One row per unit, none missing.
        tuning: Shares, error and mixture.
        unseen: As for `two_arm_sequence`.
        span: Width of the declared range; bounds are scaled back by it.
    """
    y, treated = fed.outcome, fed.treated
    n = len(y)
    if n == 0:
        none = np.empty(0)
        reason = "no data: not one unit."
        return TwoArmSequence(
            none, none, none, none, none, "refused", reason, 1 - tuning.alpha, 0, 0
        )
    treatment, control = _past_means(y, treated, unseen)
    gap = treatment - control
    share = tuning.share
    factor = np.where(treated, 1 / share, -1 / (1 - share))
    deviation = factor * (y - np.where(treated, treatment, control))
    total, through = np.cumsum(gap + deviation), np.cumsum(np.square(deviation))
    rows = np.arange(1, n + 1)
    radius = _radius(through, tuning)
    return TwoArmSequence(
        estimate=span * total / rows,
        # No difference exceeds the range.
        lower=span * np.maximum((total - radius) / rows, -1),
        upper=span * np.minimum((total + radius) / rows, 1),
        p_value=_p_value(total, through, tuning),
        p_harm=_p_value(-total, through, tuning),
        status="ok",
        reason=None,
        level=1 - tuning.alpha,
        n=n,
        n_treated=int(treated.sum()),
    )


def _past_means(y: FloatArray, treated: BoolArray, unseen: Unseen) -> tuple[FloatArray, FloatArray]:
    """Each arm's mean over the rows before each row, both of shape (n,)."""
    found = []
    for is_mine in (treated, ~treated):
        earned = np.cumsum(np.where(is_mine, y, 0.0))
        count = np.cumsum(is_mine)
        before = np.concatenate([[0.0], earned[:-1]])
        seen = np.concatenate([[0], count[:-1]])
        mean = before / np.maximum(seen, 1)
        if unseen == "mid_range":
            mean = np.where(seen == 0, 0.5, mean)
        mean[:1] = 0.5
        found.append(mean)
    return found[0], found[1]


def _log_mixture(total: FloatArray, through: FloatArray, tuning: Tuning) -> FloatArray:
    """Logarithm of the evidence that the sum exceeds its mean; -inf where there is none."""
    c = tuning.scale
    b = tuning.rho / c**2
    shape = through / c**2 + b
    reach = (total * c + through) / c**2 + b
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (
            b * np.log(b) - gammaln(b) - np.log(gammainc(b, b))
            + gammaln(shape) + np.log(gammainc(shape, np.maximum(reach, 0.0)))
            - shape * np.log(reach) + reach - b
        )  # fmt: skip
    return np.where(reach > 0, found, -np.inf)


def _p_value(total: FloatArray, through: FloatArray, tuning: Tuning) -> FloatArray:
    log_evidence = _log_mixture(total, through, tuning)
    return np.exp(-np.maximum(np.nan_to_num(log_evidence, nan=0.0, neginf=0.0), 0.0))


def _radius(through: FloatArray, tuning: Tuning) -> FloatArray:
    """How far the sum may lie from its mean, by bisection of the evidence; shape (n,)."""
    threshold = side_threshold(tuning.alpha)
    low = np.zeros_like(through)
    high = np.full_like(through, tuning.scale)
    while (short := _log_mixture(high, through, tuning) < threshold).any():
        high = np.where(short, 2 * high, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_below = _log_mixture(middle, through, tuning) < threshold
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    # The far end: the interval never promises more than the evidence proves.
    return high
