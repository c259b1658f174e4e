"""The result of an estimator, and the rules under which it says nothing."""

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from canopy.logs.weights import effective_sample_size
from eval.estimators.checks import Rows
from eval.estimators.ratios import Ratios
from policy.arrays import FloatArray

Status = Literal["ok", "refused"]

Basis = Literal["logged", "model", "estimated"]
"""What an estimate rests on: logged propensities, a reward model alone, or estimated weights."""

MIN_ESS: Final = 10.0
"""Least effective sample size of the raw weights; small logs need half their rows only."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The value of a policy per decision, or why there is none.

    Attributes:
        value: In reward units; None where the estimate is refused.
        status: `ok` or `refused`.
        reason: Why it is refused; None where it is not.
        contributions: Shape (n,). Each row's part: the mean is the value, and differences of two
            estimates over the same rows are paired. NaN where the estimator is undefined.
        n: Rows used.
        ess: Effective sample size of the raw weights, in rows; None without weights.
        mean_weight: Sum of the weights per decision, near 1 for a sound log; None without weights.
        max_weight: The largest weight; None without weights.
        ratios: The estimator as sums of columns, for resampling.
        bias_bound: Estimate of the largest bias that cut or shrunk weights can cause, in reward
            units; None where weights are as they came, or no range of rewards was declared.
        basis: `logged`, `model` or `estimated`. Only what rests on logged propensities promotes.
    """

    value: float | None
    status: Status
    reason: str | None
    contributions: FloatArray
    n: int
    ess: float | None
    mean_weight: float | None
    max_weight: float | None
    ratios: Ratios = field(repr=False)
    bias_bound: float | None = None
    basis: Basis = "logged"


def settle(
    ratios: Ratios,
    rows: Rows,
    weight: FloatArray | None,
    *,
    bias_bound: float | None = None,
    basis: Basis = "logged",
) -> Estimate:
    """The estimate, or its refusal.

    Args:
        ratios: The estimator.
        rows: How the rows stand for decisions.
        weight: Shape (n,). Raw importance weights; None for an estimator that uses none.
        bias_bound: Largest bias of cut or shrunk weights, in reward units.
        basis: What the weights rest on.
    """
    n = len(ratios.numerators)
    with np.errstate(over="ignore", invalid="ignore"):
        value = ratios.value()
        contributions = ratios.contributions()
        ess = mean_weight = max_weight = None
        if weight is not None and n:
            ess = effective_sample_size(weight)
            mean_weight = _finite(float(weight.sum() / rows.n_decisions))
            max_weight = float(weight.max())
    reason = self_refusal(n, value, ess)
    if not np.isfinite(contributions).all():
        contributions = np.full(n, np.nan)
    return Estimate(
        value=value if reason is None else None,
        status="ok" if reason is None else "refused",
        reason=reason,
        contributions=contributions,
        n=n,
        ess=ess,
        mean_weight=mean_weight,
        max_weight=max_weight,
        ratios=ratios,
        bias_bound=bias_bound if bias_bound is None else _finite(bias_bound),
        basis=basis,
    )


def most_bias(
    weight: FloatArray, used: FloatArray, reach: FloatArray | float, rows: Rows
) -> float | None:
    """The most that using other weights can change an estimate, as the log shows it.

    Args:
        weight: Shape (n,). Importance weights.
        used: Shape (n,). What was used in their place.
        reach: Largest size of what is weighted, shape (n,) or the same for all, in reward units.
        rows: How the rows stand for decisions.

    Returns:
        An unbiased estimate of a bound on the bias, in reward units; None without rows.
    """
    if not len(weight):
        return None
    return float((np.abs(weight - used) * reach).sum() / rows.n_decisions)


def self_refusal(n: int, value: float, ess: float | None) -> str | None:
    """Why an estimator refuses its own result; None where it stands by it.

    Args:
        n: Rows used.
        value: What it computed.
        ess: Effective sample size of the raw weights, in rows; None without weights.
    """
    if n == 0:
        return "no data: not one row with a propensity and a reward."
    if ess == 0:
        return "no overlap: every weight is 0, the target never takes a plan that was logged."
    least = min(n / 2, MIN_ESS)
    if ess is not None and ess < least:
        return f"too little overlap: {n} rows are worth {ess:.1f}, fewer than {least:g}."
    if not np.isfinite(value):
        return "the result is not a finite number."
    return None


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None
