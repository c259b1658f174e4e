"""Estimates of a log that is read in passing: columns in, sums by unit kept, verdicts out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from eval.assessment import Judging, detail_of, difference_of, verdict_of
from eval.estimator_names import MODEL_ALONE, Named
from eval.estimators import Estimate
from eval.estimators.estimate import self_refusal
from eval.estimators.ratios import ratio_sum
from eval.intervals.bootstrap import Bootstrap, percentile_interval, resampled_sums
from eval.intervals.poisson import Keys
from eval.intervals.unit_t import UnitInterval, effects_interval
from eval.overlap import MIN_BOOTSTRAP_UNITS, Figures, Overlap, refusal
from eval.sample import LevelWeights, Sample, estimate
from eval.unit_ledger import Limits, UnitLedger
from eval.verdicts import Difference, IntervalDetail, Verdict
from policy.arrays import BoolArray, FloatArray

_WIDTHS: Final = {"sndr": 2}
"""Ratios of the estimators that are sums of more than one."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each estimator's columns stand.

    Attributes:
        sides: Policies that are evaluated on the same rows, by name.
        estimators: Which, for every side.
    """

    sides: tuple[str, ...]
    estimators: tuple[Named, ...]

    @property
    def factors(self) -> tuple[tuple[str, ...], ...]:
        """Sets of factors that are weighed by; the empty one stands for plans."""
        return tuple(dict.fromkeys([(), *(named.factors for named in self.estimators)]))

    @property
    def width(self) -> int:
        """Columns of all sides."""
        return len(self.sides) * self._side_width

    @property
    def _side_width(self) -> int:
        return 2 * sum(map(width_of, self.estimators)) + 2 * len(self.factors)

    def ratios(self, side: str, named: Named) -> tuple[slice, slice]:
        """Columns of an estimator's numerators and denominators."""
        start = self.sides.index(side) * self._side_width
        before = self.estimators[: self.estimators.index(named)]
        start += 2 * sum(map(width_of, before))
        width = width_of(named)
        return slice(start, start + width), slice(start + width, start + 2 * width)

    def weights(self, side: str, factors: tuple[str, ...]) -> tuple[int, int]:
        """Columns of a side's weights, and of the decisions they stand for."""
        start = (self.sides.index(side) + 1) * self._side_width - 2 * len(self.factors)
        place = start + 2 * self.factors.index(factors)
        return place, place + 1


def width_of(named: Named) -> int:
    """Ratios that an estimator is the sum of."""
    return _WIDTHS.get(named.kind, 1)


@dataclass(slots=True)
class WeightTotals:
    """What sums by unit do not tell of weights.

    Attributes:
        squares: Sum of squared weights over rows.
        largest: Largest weight; None without rows.
        uncovered: Sum over decisions of the target's probability on what is never logged; None
            once it is unknown for some.
    """

    squares: float = 0.0
    largest: float | None = None
    uncovered: float | None = 0.0

    def add(self, weight: FloatArray, uncovered: FloatArray | None, decisions: FloatArray) -> None:
        """Add rows."""
        if not len(weight):
            return
        self.squares += float(weight @ weight)
        most = float(weight.max())
        self.largest = most if self.largest is None else max(self.largest, most)
        if uncovered is None or self.uncovered is None:
            self.uncovered = None
        else:
            self.uncovered += float(uncovered @ decisions)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of some rows, and what else is counted of them.

    Attributes:
        values: Shape (n, width).
        weights: By side and factors: weights, uncovered mass or None, decisions.
        missing: By side and estimator: why it cannot be computed.
    """

    values: FloatArray
    weights: Mapping[tuple[str, tuple[str, ...]], tuple[FloatArray, FloatArray | None, FloatArray]]
    missing: Mapping[tuple[str, str], str]

    def take(self, rows: BoolArray) -> "Columns":
        """Some of the rows."""
        return Columns(
            self.values[rows],
            {
                key: (w[rows], None if u is None else u[rows], d[rows])
                for key, (w, u, d) in self.weights.items()
            },
            self.missing,
        )


def columns_of(layout: Layout, samples: Mapping[str, Sample]) -> Columns:
    """The columns of rows in memory.

    Args:
        layout: Where they stand.
        samples: The rows under each side.
    """
    n = next(iter(samples.values())).n
    values = np.zeros((n, layout.width))
    weights: dict[tuple[str, tuple[str, ...]], tuple[FloatArray, FloatArray | None, FloatArray]]
    weights, missing = {}, {}
    for side, sample in samples.items():
        for named in layout.estimators:
            found = estimate(named, sample)
            if isinstance(found, Estimate):
                tops, bottoms = layout.ratios(side, named)
                values[:, tops] = found.ratios.numerators
                values[:, bottoms] = found.ratios.denominators
            else:
                missing[side, named.name] = found
        for factors in layout.factors:
            seen = sample.by_levels.get(factors)
            weight, uncovered = sample.weight, sample.uncovered
            if isinstance(seen, LevelWeights):
                weight, uncovered = seen.weight, seen.uncovered
            weights[side, factors] = (weight, uncovered, sample.decisions)
            place, decisions = layout.weights(side, factors)
            values[:, place], values[:, decisions] = weight, sample.decisions
    return Columns(values, weights, missing)


@dataclass(slots=True)
class Tally:
    """Everything kept of the rows seen so far.

    Attributes:
        layout: Where columns stand.
        limits: How many units are kept apart.
        n: Rows used.
        n_null_reward: Rows left out because their reward is unmeasured.
        missing: By side and estimator: why it cannot be computed.
    """

    layout: Layout
    limits: Limits
    n: int = 0
    n_null_reward: int = 0
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    _ledger: UnitLedger = field(init=False)
    _totals: dict[tuple[str, tuple[str, ...]], WeightTotals] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ledger = UnitLedger(self.layout.width, self.limits)

    @property
    def is_merged(self) -> bool:
        """Whether units were too many to be kept apart."""
        return self._ledger.is_merged

    @property
    def n_units(self) -> int:
        """Units seen; where they were merged, groups that they were merged into."""
        known = self._ledger.n_units
        return known if known is not None else int(self._ledger.sums.any(axis=1).sum())

    def add(self, keys: Keys, columns: Columns) -> None:
        """Add rows.

        Args:
            keys: Shape (n,). Hash of each row's unit.
            columns: Their columns.
        """
        self.n += len(keys)
        self.missing |= columns.missing
        self._ledger.add(keys, columns.values)
        for key, (weight, uncovered, decisions) in columns.weights.items():
            self._totals.setdefault(key, WeightTotals()).add(weight, uncovered, decisions)

    def assess(
        self, side: str, judging: Judging, n_units: int | None = None
    ) -> tuple[tuple[Verdict, ...], tuple[IntervalDetail, ...]]:
        """Verdicts and both intervals of one side.

        Args:
            side: Which policy.
            judging: How.
            n_units: Units by a count of one's own; None takes the tally's.
        """
        judged = {n.name: self._judged(side, n, n_units) for n in judging.estimators}
        usable = [n for n in judging.estimators if judged[n.name][1] is None]
        bootstraps = self._bootstraps(side, usable, judging)
        verdicts, details = [], []
        for named in judging.estimators:
            figures, refused, overlap = judged[named.name]
            detail = None
            if refused is None:
                spread = effects_interval(*self._effects(side, named), level=judging.level)
                detail = detail_of(named, spread, bootstraps.get(named.name), overlap)
                details.append(detail)
            verdicts.append(
                verdict_of(
                    named,
                    None if isinstance(figures, str) else figures,
                    refused,
                    detail,
                    overlap,
                    judging,
                    n_null_reward=self.n_null_reward,
                )
            )
        return tuple(verdicts), tuple(details)

    def compare(
        self, side: str, other: str, judging: Judging, name: str, n_units: int | None = None
    ) -> list[Difference]:
        """Paired differences of two sides.

        Args:
            side: Which policy.
            other: The side it is compared with.
            judging: How.
            name: What the other policy is called.
            n_units: As for `assess`.
        """
        found = []
        for named in judging.estimators:
            mine, his = (self._judged(s, named, n_units) for s in (side, other))
            spread: UnitInterval | None = None
            if mine[1] is None and his[1] is None:
                (value, effects), (less, taken) = (self._effects(s, named) for s in (side, other))
                spread = effects_interval(value - less, effects - taken, level=judging.level)
            found.append(
                difference_of(
                    named, name, spread, (mine[1], his[1]), (mine[2], his[2]), judging.level
                )
            )
        return found

    def _judged(
        self, side: str, named: Named, n_units: int | None
    ) -> tuple[Figures | str, str | None, Overlap]:
        overlap = self._overlap(side, named.factors, n_units)
        figures: Figures | str = self.missing.get((side, named.name), "")
        if not figures:
            tops, bottoms = self.layout.ratios(side, named)
            total = self._ledger.sums.sum(axis=0)
            value = float(ratio_sum(total[tops], total[bottoms]))
            has_weights = named.kind != MODEL_ALONE and self.n > 0
            why = self_refusal(self.n, value, overlap.ess if named.kind != MODEL_ALONE else None)
            totals = self._totals.get((side, named.factors), WeightTotals())
            figures = Figures(
                value=value if why is None else None,
                reason=why,
                ess=overlap.ess if has_weights else None,
                mean_weight=self._mean_weight(side, named.factors) if has_weights else None,
                max_weight=totals.largest if has_weights else None,
            )
        return figures, refusal(named, figures, overlap), overlap

    def _mean_weight(self, side: str, factors: tuple[str, ...]) -> float | None:
        weight, decisions = self._ledger.sums[:, self.layout.weights(side, factors)].sum(axis=0)
        mean = float(weight / decisions) if decisions > 0 else np.nan
        return mean if np.isfinite(mean) else None

    def _overlap(self, side: str, factors: tuple[str, ...], n_units: int | None) -> Overlap:
        place, decisions = self.layout.weights(side, factors)
        by_unit = self._ledger.sums[:, place]
        totals = self._totals.get((side, factors), WeightTotals())
        total = float(by_unit.sum())
        n_decisions = float(self._ledger.sums[:, decisions].sum())
        mean, error = None, None
        if self.n and np.isfinite(total):
            value, effects = _effects(self._ledger.sums, slice(place, place + 1),
                                      slice(decisions, decisions + 1))  # fmt: skip
            spread = effects_interval(value, effects)
            mean, error = spread.value, spread.std_err
        uncovered = totals.uncovered
        squares = float(by_unit @ by_unit)
        return Overlap(
            n=self.n,
            n_units=self.n_units if n_units is None else n_units,
            ess=total**2 / totals.squares if totals.squares > 0 else 0.0,
            unit_ess=total**2 / squares if squares > 0 else 0.0,
            mean_weight=mean,
            mean_error=error,
            unsupported_mass=(None if uncovered is None or not self.n else uncovered / n_decisions),
        )

    def _effects(self, side: str, named: Named) -> tuple[float, FloatArray]:
        return _effects(self._ledger.sums, *self.layout.ratios(side, named))

    def _bootstraps(
        self, side: str, usable: Sequence[Named], judging: Judging
    ) -> dict[str, Bootstrap]:
        n_units = self.n_units
        if n_units < MIN_BOOTSTRAP_UNITS or not usable:
            return {}
        sums = self._ledger.replicates
        if sums is None:
            rng = np.random.Generator(np.random.SFC64(judging.seed))
            sums = resampled_sums(self._ledger.sums, rng=rng, n_resamples=judging.n_resamples)
        found = {}
        for named in usable:
            tops, bottoms = self.layout.ratios(side, named)
            values = ratio_sum(sums[:, tops], sums[:, bottoms])
            found[named.name] = percentile_interval(values, n_units=n_units, level=judging.level)
        return found


def _effects(sums: FloatArray, tops: slice, bottoms: slice) -> tuple[float, FloatArray]:
    """A sum of ratios, and each unit's linearised effect on it, shape (n_units,)."""
    numerators, denominators = sums[:, tops], sums[:, bottoms]
    totals = denominators.sum(axis=0)
    levels = numerators.sum(axis=0) / totals
    effects = ((numerators - levels * denominators) / totals).sum(axis=1)
    return float(levels.sum()), np.asarray(effects)
