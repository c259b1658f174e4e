"""The result of an estimator, and the rules under which it says nothing."""

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from canopy.logs.weights import effective_sample_size
from eval.estimators.checks import Rows
from eval.estimators.ratios import Ratios
from policy.arrays import FloatArray

Status = Literal["ok", "refused"]

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
        bias_bound: Largest possible loss of value to clipping, in reward units; None where
            nothing was clipped.
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


def settle(
    ratios: Ratios,
    rows: Rows,
    weight: FloatArray | None,
    *,
    bias_bound: float | None = None,
) -> Estimate:
    """The estimate, or its refusal.

    Args:
        ratios: The estimator.
        rows: How the rows stand for decisions.
        weight: Shape (n,). Raw importance weights; None for an estimator that uses none.
        bias_bound: Largest possible loss to clipping, in reward units.
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
    reason = _refusal(n, value, ess)
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
    )


def _refusal(n: int, value: float, ess: float | None) -> str | None:
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
