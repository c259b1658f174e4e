"""Sample ratio: whether units arrive in arms as often as they were to be assigned there.

A wrong ratio means that assignment or logging is broken, and every comparison of the arms with
it. Count assigned units, not events, and not only those whose outcomes were seen.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, gammaln

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators.checks import numbers, require
from eval.intervals.sequences import log_inverse
from policy.arrays import BoolArray, FloatArray

RatioStatus = Literal["ok", "alarm", "leak", "too_few"]

ALPHA: Final = 0.001
"""Error allowed unless told: a false alarm stops a sound test, and a true one is gross."""

LEAST_EXPECTED: Final = 5.0
"""Units expected in the smallest arm before the chi-square test says anything."""

_PRIOR: Final = 100.0
_LEAST_ARMS: Final = 2
_SUM: Final = 1e-6


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """Whether the ratio of arms is the one assigned, at a number of units fixed in advance.

    Attributes:
        status: `ok`; `alarm`: the counts do not fit the shares; `leak`: an arm that was to get
            nobody has somebody; `too_few`: too few units to say.
        p_value: Of the chi-square test; None on a leak and with too few units.
        statistic: Its statistic, likewise.
        reason: What is wrong or missing; None where it is `ok`.
        n: Units counted.
    """

    status: RatioStatus
    p_value: float | None
    statistic: float | None
    reason: str | None
    n: int


@dataclass(frozen=True, slots=True)
class SampleRatioSequence:
    """The same, looked at after every unit.

    Attributes:
        status: `ok`, `alarm`, `leak`, or `too_few` without any unit.
        p_value: Shape (n,). Always valid: the smallest so far.
        log_evidence: Shape (n,). Logarithm of the evidence against the shares; +inf from a leak
            on.
        alarm_row: Unit after which alarm or leak first stood, from 1; None where neither did.
        reason: What is wrong or missing; None where it is `ok`.
        n: Units counted.
    """

    status: RatioStatus
    p_value: FloatArray
    log_evidence: FloatArray
    alarm_row: int | None
    reason: str | None
    n: int


def srm(counts: ArrayLike, shares: ArrayLike, alpha: float = ALPHA) -> SampleRatio:
    """Sample ratio mismatch, by the chi-square test of counts against shares.

    Args:
        counts: Shape (n_arms,). Units assigned to each arm, whole numbers of at least 0.
        shares: Shape (n_arms,). Probability of each arm; they sum to 1.
        alpha: Error allowed, in (0, 1).

    Returns:
        The verdict. A leak is told apart from an alarm: it needs no test.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a count is no whole number of at least 0, the shares are no distribution,
            or alpha lies outside (0, 1).

    Source:
        Fabijan et al., Diagnosing Sample Ratio Mismatch in Online Controlled Experiments,
        KDD 2019.
    """
    log_inverse(alpha)
    expected_share = _shares(shares)
    count = numbers("counts", counts, len(expected_share))
    require("counts", count, (count >= 0) & (count == np.floor(count)), "a whole number from 0")
    n = int(count.sum())
    open_arms = expected_share > 0
    leaked = np.flatnonzero(~open_arms & (count > 0))
    if leaked.size:
        arm = int(leaked[0])
        reason = f"arm {arm + 1} was to get nobody and has {int(count[arm])} units."
        return SampleRatio("leak", None, None, reason, n)
    expected = n * expected_share[open_arms]
    if len(expected) < _LEAST_ARMS:
        return SampleRatio("too_few", None, None, "one arm has no ratio.", n)
    if expected.min() < LEAST_EXPECTED:
        reason = f"{n} units: an arm expects {expected.min():.3g}, fewer than {LEAST_EXPECTED:g}."
        return SampleRatio("too_few", None, None, reason, n)
    statistic = float((np.square(count[open_arms] - expected) / expected).sum())
    p_value = float(chdtrc(len(expected) - 1, statistic))
    if p_value < alpha:
        told = " : ".join(f"{int(c)}" for c in count)
        reason = f"counts {told} do not fit the shares (p {p_value:.2g}, below {alpha:g})."
        return SampleRatio("alarm", p_value, statistic, reason, n)
    return SampleRatio("ok", p_value, statistic, None, n)


def srm_sequence(
    assigned: ArrayLike, shares: ArrayLike, alpha: float = ALPHA
) -> SampleRatioSequence:
    """Sample ratio mismatch, looked at after every unit without spending its error on looks.

    Args:
        assigned: Shape (n,). Arm of each unit, from 0, in the order of assignment.
        shares: Shape (n_arms,). Probability of each arm; they sum to 1.
        alpha: Probability with which it ever alarms without cause, in (0, 1).

    Returns:
        Evidence and p value after each unit, and the verdict over all of them: an alarm once
        raised stands.

    Raises:
        ShapeMismatchError: If `assigned` is no vector.
        RangeError: If an arm does not exist, the shares are no distribution, or alpha lies
            outside (0, 1); the row is named.

    Source:
        Lindon and Malek, Anytime-Valid Inference for Multinomial Count Data, NeurIPS 2022, with
        a Dirichlet prior worth 100 units around the shares.
    """
    threshold = log_inverse(alpha)
    share = _shares(shares)
    arm = numbers("assigned", assigned)
    is_arm = (arm >= 0) & (arm < len(share)) & (arm == np.floor(arm))
    require("assigned", arm, is_arm, f"an arm from 0 to {len(share) - 1}")
    n = len(arm)
    if n == 0:
        return SampleRatioSequence("too_few", np.empty(0), np.empty(0), None, "not one unit.", 0)
    took = arm[:, None] == np.arange(len(share))
    evidence = _log_evidence(np.cumsum(took, axis=0), share)
    evidence[np.cumsum((took & (share == 0)).any(axis=1)) > 0] = np.inf
    p_value = np.exp(-np.maximum(np.maximum.accumulate(evidence), 0.0))
    is_alarm = evidence >= threshold
    row = int(np.argmax(is_alarm)) + 1 if is_alarm.any() else None
    leaked = np.flatnonzero((took & (share == 0)).any(axis=0))
    if leaked.size:
        reason = f"arm {int(leaked[0])} was to get nobody and has somebody."
        return SampleRatioSequence("leak", p_value, evidence, row, reason, n)
    if row is not None:
        reason = f"after unit {row} the counts no longer fit the shares."
        return SampleRatioSequence("alarm", p_value, evidence, row, reason, n)
    return SampleRatioSequence("ok", p_value, evidence, None, None, n)


def _log_evidence(counts: FloatArray, share: FloatArray) -> FloatArray:
    """Logarithm of the Bayes factor of free shares against the ones assigned.

    Args:
        counts: Shape (n, n_arms). Units so far.
        share: Shape (n_arms,).

    Returns:
        Shape (n,).
    """
    is_open: BoolArray = share > 0
    seen, prior = counts[:, is_open], _PRIOR * share[is_open]
    by_arm = gammaln(prior + seen) - gammaln(prior) - seen * np.log(share[is_open])
    total = gammaln(prior.sum()) - gammaln(prior.sum() + seen.sum(axis=1))
    return np.asarray(total + by_arm.sum(axis=1), dtype=np.float64)


def _shares(shares: ArrayLike) -> FloatArray:
    array: np.ndarray[Any, np.dtype[np.float64]] = np.asarray(shares, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        raise ShapeMismatchError("shares", array.shape, (max(array.size, 1),))
    require("shares", array, (array >= 0) & (array <= 1), "a probability from 0 to 1")
    if abs(array.sum() - 1) > _SUM:
        raise RangeError("shares", None, float(array.sum()), "shares that sum to 1")
    return array
