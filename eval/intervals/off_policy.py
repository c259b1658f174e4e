"""The off-policy confidence sequence: a target policy's value, valid at every row.

It needs no bound on the weights and no overlap: mass that was never logged widens it and never
misleads it. The logging policy may change from row to row and learn from earlier ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators.checks import numbers, require, weights
from eval.intervals.plan_rows import PlanRows, model_rows, plan_rows
from eval.intervals.sequences import (
    ConfidenceSequence,
    crossed,
    declared,
    prpl_eb_lower,
    refused,
    side_threshold,
)
from eval.intervals.units import unit_means
from eval.intervals.wagers import Bets, wager
from policy.arrays import BoolArray, FloatArray, IntArray

Method = Literal["mixture", "schedule", "prpl_eb"]

DEFAULT_CAP: Final = 2.0

CLAIM: Final = (
    "the lower bound is one on the largest value so far and the upper bound one on the least; "
    "they bound the value itself where it stayed the same"
)


@dataclass(frozen=True, slots=True)
class OffPolicySequence(ConfidenceSequence):
    """Running bounds on a target policy's value per decision, in reward units.

    Attributes:
        claim: What the bounds are bounds on, should values change over time.
        cap: Cap of the control variate; 0 where none was used.
        n_null_reward: Rows without a reward, counted as the worst on either side.
        unsupported_mass: Mean share of the target on plans that were never logged; None where
            full rows were not given.
    """

    claim: str = CLAIM
    cap: float = 0.0
    n_null_reward: int = 0
    unsupported_mass: float | None = None


def off_policy_sequence(
    reward: ArrayLike,
    weight: ArrayLike,
    alpha: float = 0.05,
    *,
    target: ArrayLike | None = None,
    logging: ArrayLike | None = None,
    taken: ArrayLike | None = None,
    q: ArrayLike | None = None,
    cap: float | None = None,
    lo: float = 0.0,
    hi: float = 1.0,
    method: Method = "mixture",
    units: Sequence[Any] | np.ndarray[Any, Any] | None = None,
    keep_prob: ArrayLike | None = None,
    decision: ArrayLike | None = None,
    n_decisions: int | None = None,
) -> OffPolicySequence:
    """A confidence sequence for the value of a policy that did not log the rows.

    Args:
        reward: Shape (n,), within [lo, hi], in the order of the decisions. NaN where none is
            known: it counts as the worst of each side, which is always valid.
        weight: Shape (n,), at least 0. Target over logging probability of the plan taken; over
            its keep probability too where rows were dropped.
        alpha: Probability with which any bound may ever be wrong, in (0, 1).
        target: Shape (n, K). Target policy's probabilities of all plans, 0 where masked.
        logging: Shape (n, K). Logging policy's, likewise.
        taken: Shape (n,). Plan taken, from 0.
        q: Shape (n, K), within [lo, hi]. Reward model fitted on earlier rows or other data.
        cap: Cap k of the control variate, at least 0 and fixed before looking; None takes 2
            where `target`, `logging`, `taken` and `q` are given and 0 (plain weighting) else.
        lo: Least reward that can occur, declared.
        hi: Largest reward that can occur.
        method: `mixture` of bets (narrowest on most streams), betting `schedule`, or closed form
            `prpl_eb` (wide).
        units: Shape (n,). Unit of each row, whose terms are averaged and fed once; the value is
            then the mean over units. None feeds rows, which must then be independent.
        keep_prob: Shape (n,), in (0, 1]. Probability with which each row was kept.
        decision: Shape (n,). Number of each row among all decisions, from 1 and rising; needed
            where rows were dropped, so that those count where they happened.
        n_decisions: Decisions made; None ends at the last row.

    Returns:
        Bounds after each row fed (each decision where rows were dropped, each unit where units
        are named), the drift alarm, or a refusal.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows.
        RangeError: If a number lies outside its range; the row is named, from 1.

    Source:
        Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, Anytime-Valid Off-Policy Inference
        for Contextual Bandits, 2022; Karampatziakis, Mineiro and Ramdas, Off-Policy Confidence
        Sequences, ICML 2021.
    """
    r, is_null = scaled_rewards(reward, lo, hi)
    w = weights(weight, len(r))
    threshold = side_threshold(alpha)
    if cap is not None and not 0 <= cap < np.inf:
        raise RangeError("cap", None, cap, "a finite number of at least 0")
    full = None
    has_dropped = _has_dropped(keep_prob, len(r))
    if target is not None and logging is not None and taken is not None:
        full = plan_rows(target, logging, taken, w * _kept(keep_prob, len(r)))
    modelled = full is not None and q is not None
    capped = (DEFAULT_CAP if modelled and not has_dropped else 0.0) if cap is None else cap
    place = None if decision is None else _places(decision, len(r), n_decisions)
    reason = _refusal(
        len(r),
        capped,
        modelled=modelled,
        has_dropped=has_dropped,
        placed=place is not None,
        by_unit=units is not None,
    )
    if reason is not None:
        return _described(refused(reason, 1 - alpha), capped, is_null, full)
    # At cap 0 the control variate is 0 whatever the model says.
    model = model_rows(q, full, lo, hi) if capped and full is not None and q is not None else None
    lower_terms = terms(np.where(is_null, 0, r), w, full, model, capped)
    mirrored = None if model is None else 1 - model
    upper_terms = terms(np.where(is_null, 0, 1 - r), w, full, mirrored, capped)
    bounds = []
    for each in (lower_terms, upper_terms):
        fed = _fed(each, units, place, n_decisions)
        bound = _lower((fed + capped) / (1 + capped), threshold, method)
        bounds.append(np.maximum((1 + capped) * bound - capped, 0))
    found = crossed(lo + (hi - lo) * bounds[0], hi - (hi - lo) * bounds[1], 1 - alpha)
    return _described(found, capped, is_null, full)


def terms(
    reward: FloatArray,
    weight: FloatArray,
    rows: PlanRows | None,
    model: FloatArray | None,
    cap: float,
) -> FloatArray:
    """Terms of at least -cap whose mean is at most the target's value.

    Args:
        reward: Shape (n,), in [0, 1].
        weight: Shape (n,). Importance weights.
        rows: Both policies' probabilities; None for plain weighting.
        model: Shape (n, K), in [0, 1]; None for plain weighting.
        cap: Cap of the control variate.

    Returns:
        Shape (n,): `w (r - c(taken)) + sum_b target(b) c(b)` with `c = min(q, cap / ratio)`, and
        c = 0 where nothing was logged.
    """
    if rows is None or model is None or cap == 0:
        return weight * reward
    # Where the target never goes the ratio is 0 and nothing is capped.
    most = np.divide(cap, rows.ratio, out=np.full(rows.ratio.shape, np.inf), where=rows.ratio > 0)
    control = np.where(rows.is_logged, np.minimum(model, most), 0)
    correction = weight * (reward - rows.of_taken(control))
    return np.asarray(correction + (rows.target * control).sum(axis=1), dtype=np.float64)


def scaled_rewards(reward: ArrayLike, lo: float, hi: float) -> tuple[FloatArray, BoolArray]:
    """Rewards on the scale where the declared range is [0, 1], and which of them are missing.

    Args:
        reward: Shape (n,), within [lo, hi]; NaN or None where missing.
        lo: Least reward.
        hi: Largest reward.

    Returns:
        Two arrays of shape (n,); a missing reward stands as 0 in the first.

    Raises:
        ShapeMismatchError: If `reward` is no vector.
        RangeError: If a reward lies outside the range, or the range is none.
    """
    raw = np.asarray(reward, dtype=np.float64)
    declared(lo, hi)
    if raw.ndim != 1:
        raise ShapeMismatchError("reward", raw.shape, (raw.size,))
    is_null = np.isnan(raw)
    within = is_null | ((raw >= lo) & (raw <= hi))
    require("reward", raw, within, f"a reward in the declared {lo:g} to {hi:g}")
    return np.where(is_null, 0.0, np.clip((raw - lo) / (hi - lo), 0, 1)), is_null


def _lower(values: FloatArray, threshold: float, method: Method) -> FloatArray:
    if method == "prpl_eb":
        return prpl_eb_lower(values, threshold)
    bets: Bets = method
    return wager(bets, values, threshold).running_lower(threshold)


def _fed(
    each: FloatArray,
    units: Sequence[Any] | np.ndarray[Any, Any] | None,
    place: IntArray | None,
    n_decisions: int | None,
) -> FloatArray:
    if units is not None:
        return unit_means(each, units)
    if place is None:
        return each
    # A dropped decision has weight 0: the kept ones carry its share.
    last = int(place[-1]) + 1 if len(place) else 0
    fed = np.zeros(last if n_decisions is None else n_decisions)
    fed[place] = each
    return fed


def _refusal(
    n: int, cap: float, *, modelled: bool, has_dropped: bool, placed: bool, by_unit: bool
) -> str | None:
    if n == 0:
        return "no data: not one row."
    if cap > 0 and not modelled:
        return (
            "a cap above 0 needs target, logging, taken and q, all plans of each row; with the "
            "served plan's propensity alone use cap = 0."
        )
    if has_dropped and not placed:
        return (
            "rows were dropped and it is not known where: give decision, the number of each row "
            "among all decisions, or keep every row."
        )
    if placed and cap > 0:
        return "with dropped rows the model's part of each of them is unknown: use cap = 0."
    if placed and by_unit:
        return "with dropped rows the units of those are unknown: feed rows, or keep every row."
    return None


def _described(
    found: ConfidenceSequence, cap: float, is_null: BoolArray, rows: PlanRows | None
) -> OffPolicySequence:
    return OffPolicySequence(
        lower=found.lower,
        upper=found.upper,
        status=found.status,
        reason=found.reason,
        drift=found.drift,
        drift_row=found.drift_row,
        level=found.level,
        n=found.n,
        cap=cap,
        n_null_reward=int(is_null.sum()),
        unsupported_mass=None if rows is None else rows.unsupported_mass(),
    )


def _kept(keep_prob: ArrayLike | None, n_rows: int) -> FloatArray:
    if keep_prob is None:
        return np.ones(n_rows)
    kept = numbers("keep_prob", keep_prob, n_rows)
    require("keep_prob", kept, (kept > 0) & (kept <= 1), "a probability in (0, 1]")
    return kept


def _has_dropped(keep_prob: ArrayLike | None, n_rows: int) -> bool:
    return bool((_kept(keep_prob, n_rows) < 1).any())


def _places(decision: ArrayLike, n_rows: int, n_decisions: int | None) -> IntArray:
    numbered = numbers("decision", decision, n_rows)
    rises = np.diff(numbered, prepend=0) >= 1
    require("decision", numbered, rises & (numbered == np.floor(numbered)), "rising, from 1")
    if n_decisions is not None and n_rows and numbered[-1] > n_decisions:
        raise RangeError("n_decisions", None, n_decisions, f"at least {numbered[-1]:g}")
    return np.asarray(numbered - 1, dtype=np.intp)
