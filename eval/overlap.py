"""How well the logged rows cover a target policy, and what an estimate may not be believed for.

One set of rules for logs in memory and for logs read in passing: both come to these few numbers.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from canopy.logs.weights import effective_sample_size
from eval.estimator_names import MODEL_ALONE, Named
from eval.estimators import Estimate, Ratios
from eval.estimators.ratios import columns
from eval.intervals.unit_t import unit_ess, unit_interval
from eval.sample import Sample

MIN_INTERVAL: Final = 30
"""Least number of units, and of units' and rows' worth of weight, for any interval."""

MIN_BOOTSTRAP_UNITS: Final = 100
"""With fewer units the percentile interval covers too little."""

MAX_WEIGHT_ERRORS: Final = 4.0
"""Standard errors by which the mean weight may miss 1."""

MAX_UNSUPPORTED: Final = 0.01
"""Largest share of the target's probability on plans that are never logged."""

MODEL_BASED: Final = (
    "model-based: it never promotes, and has no interval, since the spread of its predictions "
    "says nothing of their error."
)

_ROUNDING: Final = 1e-6
"""Relative error of a weight made of two single-precision probabilities."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """What the weights of some rows come to.

    Attributes:
        n: Rows used.
        n_units: Units among them.
        ess: Rows' worth of weight.
        unit_ess: Units' worth of weight.
        mean_weight: Weight per decision; None without rows, or where it is not finite.
        mean_error: Its standard error by unit; None with fewer than two units.
        unsupported_mass: Share of the target's probability on what is never logged; None if
            unknown.
    """

    n: int
    n_units: int
    ess: float
    unit_ess: float
    mean_weight: float | None
    mean_error: float | None
    unsupported_mass: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """What an estimator computed, before it is judged.

    Attributes:
        value: In reward units; None where it refuses itself.
        reason: Why it refuses itself; None where it does not.
        ess: Rows' worth of weight; None without weights.
        mean_weight: Weight per decision; None without weights.
        max_weight: Largest weight; None without weights.
    """

    value: float | None
    reason: str | None
    ess: float | None
    mean_weight: float | None
    max_weight: float | None

    @classmethod
    def of(cls, found: Estimate) -> "Figures":
        """The figures of an estimate."""
        return cls(found.value, found.reason, found.ess, found.mean_weight, found.max_weight)


def overlap_of(sample: Sample) -> Overlap:
    """The overlap of rows in memory."""
    mean, error = None, None
    if sample.n:
        ratio = Ratios(columns(sample.weight), columns(sample.decisions))
        with np.errstate(over="ignore", invalid="ignore"):
            parts = ratio.contributions()
        if np.isfinite(parts).all():
            spread = unit_interval(parts, sample.units)
            mean, error = spread.value, spread.std_err
    return Overlap(
        n=sample.n,
        n_units=sample.units.n_units,
        ess=effective_sample_size(sample.weight),
        unit_ess=unit_ess(sample.weight, sample.units),
        mean_weight=mean,
        mean_error=error,
        unsupported_mass=sample.unsupported_mass,
    )


def refusal(named: Named, figures: Figures | str, overlap: Overlap) -> str | None:
    """Why an estimate may not be believed; None where it may.

    Args:
        named: The estimator.
        figures: What it computed; or, in words, why it could not.
        overlap: The overlap under its weights.
    """
    if isinstance(figures, str):
        return figures
    if named.kind == MODEL_ALONE:
        return figures.reason
    # First what names its remedy: where no plan of the target was ever logged, that every weight
    # is 0 says less.
    return _coverage_refusal(overlap) or figures.reason or _mean_weight_refusal(overlap)


def interval_refusal(named: Named, overlap: Overlap) -> str | None:
    """Why an estimate has no honest interval; None where it has one."""
    if named.kind == MODEL_ALONE:
        return MODEL_BASED
    if overlap.n_units < MIN_INTERVAL:
        return f"no interval: {overlap.n_units} units, fewer than {MIN_INTERVAL}."
    ess = min(overlap.ess, overlap.unit_ess)
    if ess < MIN_INTERVAL:
        return f"no interval: the weights are worth {ess:.1f}, fewer than {MIN_INTERVAL}."
    return None


def _coverage_refusal(overlap: Overlap) -> str | None:
    mass = overlap.unsupported_mass
    if mass is None or mass <= MAX_UNSUPPORTED:
        return None
    return (
        f"{mass:.1%} of the target's probability lies on plans that are never logged. Log with "
        "overlap: give the catalog's levels doctrine weights, or serve a policy with a floor."
    )


def _mean_weight_refusal(overlap: Overlap) -> str | None:
    mean, error = overlap.mean_weight, overlap.mean_error
    if mean is None or error is None:
        return None
    # Mass on plans that are never logged is missing from the weights too; it has a limit of its
    # own above.
    off = abs(mean - (1 - (overlap.unsupported_mass or 0.0)))
    if off <= MAX_WEIGHT_ERRORS * error + _ROUNDING:
        return None
    return (
        f"the weights average {mean:.4g}, not 1 (standard error {error:.2g}): propensities or "
        "target probabilities are not what they claim to be, or rows are missing."
    )
