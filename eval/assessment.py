"""Estimates over one sample of rows, judged: value, overlap, interval, or a refusal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eval.estimator_names import ESTIMATORS, MODEL_ALONE, Named, parse_estimators
from eval.estimators import Estimate
from eval.estimators.ratios import ratio_sum
from eval.intervals.bootstrap import Bootstrap, percentile_interval, resampled_sums
from eval.intervals.unit_t import UnitInterval, unit_interval
from eval.overlap import (
    MIN_BOOTSTRAP_UNITS,
    Figures,
    Overlap,
    interval_refusal,
    overlap_of,
    refusal,
)
from eval.sample import Sample, estimate
from eval.verdicts import Difference, Interval, IntervalDetail, IntervalKind, Verdict
from policy.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Judging:
    """How to judge.

    Attributes:
        estimators: Which, in the order wanted.
        level: Nominal coverage of intervals.
        interval: Which interval a verdict carries.
        seed: Of the bootstrap.
        n_resamples: Replicates; None takes as many as stay quick.
    """

    estimators: Sequence[Named] = field(default_factory=lambda: parse_estimators(ESTIMATORS))
    level: float = 0.95
    interval: IntervalKind = IntervalKind.UNIT_T
    seed: int = 12345
    n_resamples: int | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """An estimate, or why there is none.

    Attributes:
        named: The estimator.
        estimate: As computed; None where it could not be.
        refusal: Why it may not be used; None where it may.
        overlap: The overlap under its weights.
    """

    named: Named
    estimate: Estimate | None
    refusal: str | None
    overlap: Overlap

    @property
    def usable(self) -> Estimate | None:
        """The estimate, where it may be used."""
        return self.estimate if self.refusal is None else None


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


def judged(sample: Sample, estimators: Sequence[Named]) -> dict[str, Judged]:
    """Estimates by short name, each refused or not; no intervals."""
    overlaps: dict[tuple[str, ...], Overlap] = {(): overlap_of(sample)}
    found: dict[str, Judged] = {}
    for named in estimators:
        if named.factors not in overlaps:
            overlaps[named.factors] = overlap_of(sample.seen_by(named))
        overlap = overlaps[named.factors]
        result = estimate(named, sample)
        figures = result if isinstance(result, str) else Figures.of(result)
        found[named.name] = Judged(
            named=named,
            estimate=None if isinstance(result, str) else result,
            refusal=refusal(named, figures, overlap),
            overlap=overlap,
        )
    return found


def assess(sample: Sample, judging: Judging) -> Assessment:
    """Estimate, judge, and find the intervals.

    Args:
        sample: The rows.
        judging: How.
    """
    found = judged(sample, judging.estimators)
    usable = {name: one.estimate for name, one in found.items() if one.estimate and one.usable}
    bootstraps = _bootstraps(usable, sample, judging)
    details = {
        name: detail_of(
            found[name].named,
            unit_interval(each.contributions, sample.units, level=judging.level),
            bootstraps.get(name),
            found[name].overlap,
        )
        for name, each in usable.items()
    }
    verdicts = tuple(
        verdict_of(
            one.named,
            None if one.estimate is None else Figures.of(one.estimate),
            one.refusal,
            details.get(name),
            one.overlap,
            judging,
            n_null_reward=sample.n_null_reward,
        )
        for name, one in found.items()
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
    found = []
    for name, mine in ours.items():
        spread = None
        if mine.usable is not None and (his := theirs[name].usable) is not None:
            paired = mine.usable.contributions - his.contributions
            spread = unit_interval(paired, sample.units, level=judging.level)
        found.append(
            difference_of(
                mine.named,
                against,
                spread,
                (mine.refusal, theirs[name].refusal),
                (mine.overlap, theirs[name].overlap),
                judging.level,
            )
        )
    return found


def difference_of(
    named: Named,
    against: str,
    spread: UnitInterval | None,
    refusals: tuple[str | None, str | None],
    overlaps: tuple[Overlap, Overlap],
    level: float,
) -> Difference:
    """A paired difference, or why there is none.

    Args:
        named: The estimator.
        against: The other policy's name.
        spread: The difference with its interval; None where either side is refused.
        refusals: Why either side is refused.
        overlaps: The overlap of either side.
        level: Nominal coverage.
    """
    reason = refusals[0]
    if reason is None and refusals[1] is not None:
        reason = f"{against}: {refusals[1]}"
    value, interval = None, None
    if spread is not None:
        value = spread.value
        reason = next((why for one in overlaps if (why := interval_refusal(named, one))), None)
        interval = None if reason else _ends(spread)
    return Difference(
        estimator=named.name,
        against=against,
        status="refused" if value is None else "ok",
        value=value,
        interval=interval,
        level=level,
        n=overlaps[0].n,
        n_units=overlaps[0].n_units,
        reason=reason,
    )


def detail_of(
    named: Named, spread: UnitInterval, resampled: Bootstrap | None, overlap: Overlap
) -> IntervalDetail:
    """Both intervals of an estimate that is not refused.

    Args:
        named: The estimator.
        spread: Its t interval by unit.
        resampled: Its bootstrap; None without one.
        overlap: The overlap under its weights.
    """
    is_sound = interval_refusal(named, overlap) is None
    resampled = resampled if is_sound else None
    return IntervalDetail(
        estimator=named.name,
        std_err=spread.std_err if is_sound else None,
        unit_t=_ends(spread) if is_sound else None,
        bootstrap=None if resampled is None else _ends(resampled),
        n_units=overlap.n_units,
        unit_ess=None if named.kind == MODEL_ALONE else overlap.unit_ess,
        n_resamples=None if resampled is None else resampled.n_resamples,
        n_undefined=None if resampled is None else resampled.n_undefined,
    )


def verdict_of(
    named: Named,
    figures: Figures | None,
    refused: str | None,
    detail: IntervalDetail | None,
    overlap: Overlap,
    judging: Judging,
    *,
    n_null_reward: int,
) -> Verdict:
    """What is said of one estimator.

    Args:
        named: The estimator.
        figures: What it computed; None where it could not.
        refused: Why it may not be used; None where it may.
        detail: Its intervals; None where it is refused.
        overlap: The overlap under its weights.
        judging: How to judge.
        n_null_reward: Rows left out for want of a reward.
    """
    interval, reason = None, refused
    if detail is not None:
        is_t = judging.interval is IntervalKind.UNIT_T
        interval = detail.unit_t if is_t else detail.bootstrap
        reason = interval_refusal(named, overlap)
        if reason is None and interval is None:
            reason = f"no interval: fewer than {MIN_BOOTSTRAP_UNITS} units, or no weight in some."
    is_usable = figures is not None and refused is None
    return Verdict(
        estimator=named.name,
        status="ok" if is_usable else "refused",
        value=figures.value if figures is not None and is_usable else None,
        interval=interval,
        level=judging.level,
        n=overlap.n,
        n_null_reward=n_null_reward,
        ess=None if figures is None else figures.ess,
        mean_weight=None if figures is None else figures.mean_weight,
        max_weight=None if figures is None else figures.max_weight,
        unsupported_mass=overlap.unsupported_mass,
        reason=reason,
    )


def _bootstraps(
    usable: Mapping[str, Estimate], sample: Sample, judging: Judging
) -> dict[str, Bootstrap]:
    # One set of draws serves all estimators: each brings its columns, summed by unit.
    if sample.units.n_units < MIN_BOOTSTRAP_UNITS or not usable:
        return {}
    layout: dict[str, tuple[list[int], list[int]]] = {}
    columns: list[FloatArray] = []
    for name, each in usable.items():
        halves = (each.ratios.numerators, each.ratios.denominators)
        layout[name] = (_places(halves[0], columns), _places(halves[1], columns))
    rng = np.random.Generator(np.random.SFC64(judging.seed))
    sums = resampled_sums(
        sample.units.sums(np.stack(columns, axis=1)), rng=rng, n_resamples=judging.n_resamples
    )
    found: dict[str, Bootstrap] = {}
    for name, (tops, bottoms) in layout.items():
        values = ratio_sum(sums[:, tops], sums[:, bottoms])
        found[name] = percentile_interval(values, n_units=sample.units.n_units, level=judging.level)
    return found


def _places(wanted: FloatArray, columns: list[FloatArray]) -> list[int]:
    """Where columns stand among those kept; estimators share many, and each is kept once."""
    places = []
    for column in wanted.T:
        known = (i for i, kept in enumerate(columns) if np.array_equal(kept, column))
        place = next(known, None)
        if place is None:
            place = len(columns)
            columns.append(column)
        places.append(place)
    return places


def _ends(found: UnitInterval | Bootstrap) -> Interval | None:
    return None if found.lo is None or found.hi is None else (found.lo, found.hi)
