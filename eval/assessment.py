"""Estimates over one sample of rows, judged: value, overlap, interval, or a refusal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from eval.estimators import Estimate, Ratios
from eval.estimators.ratios import columns, ratio_sum
from eval.intervals.bootstrap import Bootstrap, percentile_interval, resampled_sums
from eval.intervals.unit_t import UnitInterval, unit_ess, unit_interval
from eval.sample import ESTIMATORS, MODEL_ALONE, Sample, estimate
from eval.verdicts import Difference, Interval, IntervalDetail, IntervalKind, Verdict

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
class Judging:
    """How to judge.

    Attributes:
        estimators: Short names, in the order wanted.
        level: Nominal coverage of intervals.
        interval: Which interval a verdict carries.
        seed: Of the bootstrap.
        n_resamples: Replicates; None takes as many as stay quick.
    """

    estimators: Sequence[str] = ESTIMATORS
    level: float = 0.95
    interval: IntervalKind = IntervalKind.UNIT_T
    seed: int = 12345
    n_resamples: int | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """An estimate, or why there is none.

    Attributes:
        estimate: As computed; None where it could not be.
        refusal: Why it may not be used; None where it may.
    """

    estimate: Estimate | None
    refusal: str | None


@dataclass(frozen=True, slots=True)
class Assessment:
    """Verdicts over one sample.

    Attributes:
        verdicts: One per estimator.
        details: Both intervals of each estimator that is not refused.
        estimates: The estimates that are not refused, by short name.
    """

    verdicts: tuple[Verdict, ...]
    details: tuple[IntervalDetail, ...]
    estimates: Mapping[str, Estimate]


def judged(sample: Sample, estimators: Sequence[str]) -> dict[str, Judged]:
    """Estimates by short name, each refused or not; no intervals."""
    uncovered, overlap = _coverage_refusal(sample), _mean_weight_refusal(sample)
    found: dict[str, Judged] = {}
    for name in estimators:
        result = estimate(name, sample)
        if isinstance(result, str):
            found[name] = Judged(None, result)
        else:
            is_weighted = name != MODEL_ALONE
            # First what names its remedy: where no plan of the target was ever logged, that every
            # weight is 0 says less.
            weighted = (uncovered or result.reason or overlap) if is_weighted else result.reason
            found[name] = Judged(result, weighted)
    return found


def assess(sample: Sample, judging: Judging) -> Assessment:
    """Estimate, judge, and find the intervals.

    Args:
        sample: The rows.
        judging: How.
    """
    found = judged(sample, judging.estimators)
    usable = {
        name: each.estimate
        for name, each in found.items()
        if each.estimate is not None and each.refusal is None
    }
    details = _details(usable, sample, judging)
    verdicts = tuple(
        _verdict(name, found[name], details.get(name), sample, judging)
        for name in judging.estimators
    )
    return Assessment(verdicts, tuple(details.values()), usable)


def compare(sample: Sample, other: Sample, against: str, judging: Judging) -> list[Difference]:
    """Paired differences of two target policies over the same rows.

    Args:
        sample: The rows under the target.
        other: The same rows under the other policy.
        against: The other policy's name.
        judging: How.
    """
    ours, theirs = judged(sample, judging.estimators), judged(other, judging.estimators)
    return [
        _difference(name, ours[name], theirs[name], (sample, other), against, judging)
        for name in judging.estimators
    ]


def _difference(
    name: str,
    ours: Judged,
    theirs: Judged,
    samples: tuple[Sample, Sample],
    against: str,
    judging: Judging,
) -> Difference:
    units = samples[0].units
    refusal = ours.refusal
    if refusal is None and theirs.refusal is not None:
        refusal = f"{against}: {theirs.refusal}"
    value, interval, reason = None, None, refusal
    if refusal is None and ours.estimate is not None and theirs.estimate is not None:
        paired = ours.estimate.contributions - theirs.estimate.contributions
        spread = unit_interval(paired, units.codes, level=judging.level)
        value = spread.value
        reason = next((why for s in samples if (why := _interval_refusal(name, s))), None)
        interval = None if reason else _ends(spread)
    return Difference(
        estimator=name,
        against=against,
        status="refused" if value is None else "ok",
        value=value,
        interval=interval,
        level=judging.level,
        n=samples[0].n,
        n_units=units.n_units,
        reason=reason,
    )


def _coverage_refusal(sample: Sample) -> str | None:
    mass = sample.unsupported_mass
    if mass is None or mass <= MAX_UNSUPPORTED:
        return None
    return (
        f"{mass:.1%} of the target's probability lies on plans that are never logged. Log with "
        "overlap: give the catalog's levels doctrine weights, or serve a policy with a floor."
    )


def _mean_weight_refusal(sample: Sample) -> str | None:
    if not sample.n:
        return None
    mass = sample.unsupported_mass
    decisions = np.ones(sample.n) if sample.keep_prob is None else 1 / sample.keep_prob
    mean = Ratios(columns(sample.weight), columns(decisions))
    with np.errstate(over="ignore", invalid="ignore"):
        parts = mean.contributions()
    if np.isfinite(parts).all():
        spread = unit_interval(parts, sample.units.codes)
        error = spread.std_err
        # Mass on plans that are never logged is missing from the weights too; it has a limit of
        # its own below.
        off = abs(spread.value - (1 - (mass or 0.0)))
        if error is not None and off > MAX_WEIGHT_ERRORS * error + _ROUNDING:
            return (
                f"the weights average {spread.value:.4g}, not 1 (standard error {error:.2g}): "
                "propensities or target probabilities are not what they claim to be, or rows "
                "are missing."
            )
    return None


def _interval_refusal(name: str, sample: Sample) -> str | None:
    if name == MODEL_ALONE:
        return MODEL_BASED
    if sample.units.n_units < MIN_INTERVAL:
        return f"no interval: {sample.units.n_units} units, fewer than {MIN_INTERVAL}."
    ess = min(unit_ess(sample.weight), unit_ess(sample.weight, sample.units.codes))
    if ess < MIN_INTERVAL:
        return f"no interval: the weights are worth {ess:.1f}, fewer than {MIN_INTERVAL}."
    return None


def _details(
    usable: Mapping[str, Estimate], sample: Sample, judging: Judging
) -> dict[str, IntervalDetail]:
    bootstraps = _bootstraps(usable, sample, judging)
    found: dict[str, IntervalDetail] = {}
    for name, each in usable.items():
        spread = unit_interval(each.contributions, sample.units.codes, level=judging.level)
        is_sound = _interval_refusal(name, sample) is None
        resampled = bootstraps.get(name) if is_sound else None
        found[name] = IntervalDetail(
            estimator=name,
            std_err=spread.std_err if is_sound else None,
            unit_t=_ends(spread) if is_sound else None,
            bootstrap=None if resampled is None else _ends(resampled),
            n_units=sample.units.n_units,
            unit_ess=(None if name == MODEL_ALONE else unit_ess(sample.weight, sample.units.codes)),
            n_resamples=None if resampled is None else resampled.n_resamples,
            n_undefined=None if resampled is None else resampled.n_undefined,
        )
    return found


def _bootstraps(
    usable: Mapping[str, Estimate], sample: Sample, judging: Judging
) -> dict[str, Bootstrap]:
    # One set of draws serves all estimators: each brings its columns, summed by unit.
    if sample.units.n_units < MIN_BOOTSTRAP_UNITS or not usable:
        return {}
    parts = [(e.ratios.numerators, e.ratios.denominators) for e in usable.values()]
    blocks = [np.hstack(pair) for pair in parts]
    rng = np.random.Generator(np.random.SFC64(judging.seed))
    sums = resampled_sums(
        sample.units.sums(np.hstack(blocks)), rng=rng, n_resamples=judging.n_resamples
    )
    found: dict[str, Bootstrap] = {}
    start = 0
    for name, block in zip(usable, blocks, strict=True):
        half = block.shape[1] // 2
        middle, end = start + half, start + 2 * half
        values = ratio_sum(sums[:, start:middle], sums[:, middle:end])
        found[name] = percentile_interval(values, n_units=sample.units.n_units, level=judging.level)
        start = end
    return found


def _verdict(
    name: str, found: Judged, detail: IntervalDetail | None, sample: Sample, judging: Judging
) -> Verdict:
    each = found.estimate
    interval, reason = None, found.refusal
    if detail is not None:
        chosen = judging.interval
        interval = detail.unit_t if chosen is IntervalKind.UNIT_T else detail.bootstrap
        reason = _interval_refusal(name, sample)
        if reason is None and interval is None:
            reason = f"no interval: fewer than {MIN_BOOTSTRAP_UNITS} units, or no weight in some."
    is_usable = each is not None and found.refusal is None
    return Verdict(
        estimator=name,
        status="ok" if is_usable else "refused",
        value=each.value if each is not None and is_usable else None,
        interval=interval,
        level=judging.level,
        n=sample.n,
        n_null_reward=sample.n_null_reward,
        ess=None if each is None else each.ess,
        mean_weight=None if each is None else each.mean_weight,
        max_weight=None if each is None else each.max_weight,
        unsupported_mass=sample.unsupported_mass,
        reason=reason,
    )


def _ends(found: UnitInterval | Bootstrap) -> Interval | None:
    return None if found.lo is None or found.hi is None else (found.lo, found.hi)
