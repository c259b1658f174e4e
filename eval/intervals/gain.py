"""Gain of a target policy over the one that logged, row by row paired, without approximations.

`X = (w - 1)(r - c(taken)) + sum_b (target(b) - logging(b)) c(b)` has the gain as its mean and a
floor that does not depend on the weights, so a bet on it is valid for any weights. c is a constant
near the rewards' mean, taken from earlier data and capped where the weights exceed 1; it takes
most of the variance away. `gain_sequence` may be looked at all the time, `improvement_bound` once.

Source:
    Karampatziakis, Mineiro and Ramdas, Off-Policy Confidence Sequences, ICML 2021 (gated
    deployment); Thomas, Theocharous and Ghavamzadeh, High-Confidence Policy Improvement, ICML 2015.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError
from eval.estimators.checks import weights
from eval.intervals.off_policy import scaled_rewards
from eval.intervals.plan_rows import PlanRows, plan_rows
from eval.intervals.sequences import ConfidenceSequence, crossed, log_inverse, refused
from eval.intervals.units import unit_means
from eval.intervals.wagers import Bets, Wager, fixed_length, wager
from policy.arrays import FloatArray

DEFAULT_CAP: Final = 2.0

_NO_ROWS: Final = "no data: not one row."
_NEEDS_ROWS: Final = (
    "a control variate needs target, logging and taken, all plans of each row; without them use "
    "control = 0."
)


@dataclass(frozen=True, slots=True)
class GainRows:
    """Terms whose means are the gain and its opposite, in units of the rewards' range.

    Attributes:
        gains: Shape (n,), at least -gain_floor; mean at most the gain.
        losses: Shape (n,), at least -loss_floor; mean at most the gain's opposite.
        gain_floor: How far below 0 a gain can lie.
        loss_floor: How far below 0 a loss can lie.
    """

    gains: FloatArray
    losses: FloatArray
    gain_floor: float
    loss_floor: float


@dataclass(frozen=True, slots=True)
class Improvement:
    """Whether a safety set, looked at once, proves a gain over the logging policy.

    Attributes:
        improves: Whether the gain exceeds 0 at the error allowed; False where refused.
        lower: Lower bound of the gain in reward units; None where refused.
        estimate: Mean of the paired terms in reward units; None without rows.
        log_wealth: Logarithm of the largest wealth against "no gain"; -log(delta) suffices.
        delta: Error allowed to this look.
        n_units: Units fed; rows where none were named.
        reason: Why there is no bound; None where there is one.
    """

    improves: bool
    lower: float | None
    estimate: float | None
    log_wealth: float | None
    delta: float
    n_units: int
    reason: str | None


def gain_rows(
    reward: ArrayLike,
    weight: ArrayLike,
    *,
    control: float = 0.0,
    cap: float = DEFAULT_CAP,
    target: ArrayLike | None = None,
    logging: ArrayLike | None = None,
    taken: ArrayLike | None = None,
    lo: float = 0.0,
    hi: float = 1.0,
) -> GainRows | None:
    """The paired terms that the bounds below are made of.

    Args:
        reward: Shape (n,), within [lo, hi]; NaN where none is known, which counts as the worst of
            each side.
        weight: Shape (n,), at least 0. Target over logging probability of the plan taken.
        control: Reward within [lo, hi] that the control variate is set to: the mean of EARLIER
            data, never of these rows. At `lo` it does nothing.
        cap: Largest loss that a row's control variate may cause, at least 0, fixed in advance.
        target: Shape (n, K). Target policy's probabilities; needed where `control` exceeds `lo`.
        logging: Shape (n, K). Logging policy's probabilities, likewise.
        taken: Shape (n,). Plan taken, from 0.
        lo: Least reward that can occur, declared.
        hi: Largest reward that can occur.

    Returns:
        The terms; None where a control variate is asked for without full rows.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows.
        RangeError: If a number lies outside its range; the row is named, from 1.
    """
    r, is_null = scaled_rewards(reward, lo, hi)
    w = weights(weight, len(r))
    if not lo <= control <= hi:
        raise RangeError("control", None, control, f"a reward in the declared {lo:g} to {hi:g}")
    if not 0 <= cap < np.inf:
        raise RangeError("cap", None, cap, "a finite number of at least 0")
    level = (control - lo) / (hi - lo)
    full = None
    if target is not None and logging is not None and taken is not None:
        full = plan_rows(target, logging, taken, w)
    if level > 0 and full is None:
        return None
    # (w - 1) r is least where a reward counts most: at 0 for weights above 1, else at 1.
    against = np.where(w >= 1, 0.0, 1.0)
    # Without full rows the losses have no control variate either, whatever 1 - control is.
    level_of_losses = 1 - level if full is not None and level > 0 else 0.0
    return GainRows(
        gains=_terms(np.where(is_null, against, r), w, full, level, cap),
        losses=_terms(np.where(is_null, against, 1 - r), w, full, level_of_losses, cap),
        gain_floor=_floor(level, cap),
        loss_floor=_floor(level_of_losses, cap),
    )


def gain_sequence(
    reward: ArrayLike,
    weight: ArrayLike,
    alpha: float = 0.05,
    *,
    control: float = 0.0,
    cap: float = DEFAULT_CAP,
    target: ArrayLike | None = None,
    logging: ArrayLike | None = None,
    taken: ArrayLike | None = None,
    lo: float = 0.0,
    hi: float = 1.0,
    bets: Bets = "mixture",
    units: Sequence[Any] | np.ndarray[Any, Any] | None = None,
) -> ConfidenceSequence:
    """Bounds on the gain over the logging policy that hold at every row.

    Args:
        reward: As for `gain_rows`, in the order of the decisions.
        weight: As for `gain_rows`.
        alpha: Probability with which EACH bound may ever be wrong: "better" and "worse" are
            one-sided claims. Both hold with 1 - 2 alpha.
        control: As for `gain_rows`.
        cap: As for `gain_rows`.
        target: As for `gain_rows`.
        logging: As for `gain_rows`.
        taken: As for `gain_rows`.
        lo: As for `gain_rows`.
        hi: As for `gain_rows`.
        bets: `mixture` or `schedule`.
        units: Shape (n,). Unit of each row, whose terms are averaged and fed once; the gain is
            then the mean over units. None feeds rows, which must then be independent.

    Returns:
        Bounds in reward units, within plus and minus the range; refused without rows, and with a
        control variate without full rows.

    Raises:
        ShapeMismatchError: As for `gain_rows`.
        RangeError: As for `gain_rows`, or if alpha lies outside (0, 1).
    """
    threshold = log_inverse(alpha)
    found = gain_rows(
        reward, weight, control=control, cap=cap, target=target, logging=logging, taken=taken,
        lo=lo, hi=hi,
    )  # fmt: skip
    if found is None or not len(found.gains):
        return refused(_NEEDS_ROWS if found is None else _NO_ROWS, 1 - 2 * alpha)
    ends = []
    for each, floor in ((found.gains, found.gain_floor), (found.losses, found.loss_floor)):
        fed = each if units is None else unit_means(each, units)
        backed = wager(bets, (fed + floor) / (1 + floor), threshold)
        ends.append(_gain_at(backed.running_lower(threshold), floor))
    span = hi - lo
    return crossed(span * ends[0], -span * ends[1], 1 - 2 * alpha)


def improvement_bound(
    reward: ArrayLike,
    weight: ArrayLike,
    delta: float = 0.05,
    *,
    look: int | None = None,
    control: float = 0.0,
    cap: float = DEFAULT_CAP,
    target: ArrayLike | None = None,
    logging: ArrayLike | None = None,
    taken: ArrayLike | None = None,
    lo: float = 0.0,
    hi: float = 1.0,
    units: Sequence[Any] | np.ndarray[Any, Any] | None = None,
) -> Improvement:
    """High-confidence improvement over the logging policy, from one look at a safety set.

    A policy without a gain passes with probability at most delta, for any weights and any shape
    of the gains, where the policy, `control` and `cap` were settled on other units. A second look
    at the same set spends error again: number the looks.

    Args:
        reward: As for `gain_rows`.
        weight: As for `gain_rows`.
        delta: Error allowed over all looks together, in (0, 1).
        look: Which look at this safety set this is, from 1, when there may be more: `error_of_look`
            is then allowed to it. None where it is the only one there will ever be.
        control: As for `gain_rows`.
        cap: As for `gain_rows`.
        target: As for `gain_rows`.
        logging: As for `gain_rows`.
        taken: As for `gain_rows`.
        lo: As for `gain_rows`.
        hi: As for `gain_rows`.
        units: As for `gain_sequence`; how many there are must not depend on their rewards.

    Returns:
        The verdict with its bound; no improvement found is a normal answer.

    Raises:
        ShapeMismatchError: As for `gain_rows`.
        RangeError: As for `gain_rows`, or if delta lies outside (0, 1).
    """
    if not 0 < delta < 1:
        raise RangeError("delta", None, delta, "an error rate between 0 and 1")
    delta = delta if look is None else error_of_look(delta, look)
    threshold = log_inverse(delta)
    found = gain_rows(
        reward, weight, control=control, cap=cap, target=target, logging=logging, taken=taken,
        lo=lo, hi=hi,
    )  # fmt: skip
    if found is None or not len(found.gains):
        reason = _NEEDS_ROWS if found is None else _NO_ROWS
        return Improvement(False, None, None, None, delta, 0, reason)
    fed = found.gains if units is None else unit_means(found.gains, units)
    floor = found.gain_floor
    backed: Wager = fixed_length((fed + floor) / (1 + floor), threshold, len(fed))
    wealth = float(backed.log_wealth(floor / (1 + floor)).max())
    lower = max((1 + floor) * backed.final_lower(threshold) - floor, -1.0)
    return Improvement(
        improves=wealth >= threshold,
        lower=(hi - lo) * lower,
        estimate=(hi - lo) * float(fed.mean()),
        log_wealth=wealth,
        delta=delta,
        n_units=len(fed),
        reason=None,
    )


def error_of_look(delta: float, look: int) -> float:
    """The error that the k-th look at one safety set may spend: delta / (k (k + 1)).

    These sum to no more than delta however many looks follow.

    Args:
        delta: Error allowed over all looks together.
        look: Number of the look, from 1.

    Raises:
        RangeError: If there is no such look.
    """
    if look < 1:
        raise RangeError("look", None, look, "a number from 1")
    return delta / (look * (look + 1))


def _gain_at(mean: FloatArray, floor: float) -> FloatArray:
    return np.maximum((1 + floor) * mean - floor, -1)


def _floor(level: float, cap: float) -> float:
    return 1.0 if level == 0 else max(cap, 1 - level) + level


def _terms(
    reward: FloatArray, weight: FloatArray, rows: PlanRows | None, level: float, cap: float
) -> FloatArray:
    if rows is None or level == 0:
        return (weight - 1) * reward
    excess = rows.ratio - 1
    most = np.divide(cap, excess, out=np.full(excess.shape, np.inf), where=excess > 0)
    control = np.where(rows.is_logged, np.minimum(level, most), 0)
    paired = (weight - 1) * (reward - rows.of_taken(control))
    return np.asarray(
        paired + ((rows.target - rows.logging) * control).sum(axis=1), dtype=np.float64
    )
