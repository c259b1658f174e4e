"""Off-policy evaluation of logs larger than memory: one pass, and memory that does not grow."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from canopy.domain.errors import ConfigError, LogError
from canopy.logs import schema
from canopy.logs.batches import LogBatches
from canopy.logs.tabular import DecisionLog
from eval.assessment import Judging
from eval.calibration import CalibrationSums
from eval.coverage import PlanMass, WeightHistogram, level_shares
from eval.estimator_names import parse_estimators
from eval.evaluation import Evaluation, LogSummary, notes_of
from eval.opened_log import OpenedLog
from eval.predictions import predictions_of, sample_of
from eval.reward_models import Predictions
from eval.tally import Columns, Layout, Tally, columns_of
from eval.targets import COLUMNS, LOGGING, NAMED, Target, TargetPolicy, target_policy
from eval.unit_ledger import Limits, unit_keys
from eval.usable_rows import Split, UsableRows, column_of, usable_rows
from eval.verdicts import Segment, Verdict
from policy.artifact import Artifact, load_artifact
from policy.catalog import Catalog

STREAMED_ROWS: Final = 2_000_000
"""Rows from which a log is read in passing unless told."""

STREAMED_BYTES: Final = 2**30
"""The same of CSV, whose rows nobody counted."""

MAX_SEGMENTS: Final = 100
"""More values than this are no segments but an identifier or a measurement."""

NO_MODEL: Final = (
    "a log read in passing needs predictions of its own, since no model is fitted on it: log "
    "q_all, or evaluate a sample of units with --no-stream."
)

_SEGMENT_UNITS: Final = 2**13
_SEGMENT_GROUPS: Final = 2**12
_TARGET, _AGAINST = "target", "against"


@dataclass(frozen=True, slots=True)
class Streaming:
    """What to evaluate of a log that is read in passing.

    Attributes:
        target: The policy; None takes the log's own target columns.
        catalog: The plans' catalog; None without one.
        split: Which units to look at.
        units: Column of what is independent; None takes `unit_id`.
        against: Another policy, for paired differences; None without.
        by: A column whose values are evaluated apart as well; None without.
        propensity_constant: Propensity of every row of a logger known to be uniform.
        on_rows: Told how many rows were read, batch by batch.
        limits: How many units are kept apart; None takes the usual.
    """

    target: Target | None
    catalog: Catalog | None
    split: Split
    units: str | None
    against: Target | None
    by: str | None
    propensity_constant: float | None
    on_rows: Callable[[int], None] = lambda _: None
    limits: Limits | None = None


def evaluate_stream(batches: LogBatches, judging: Judging, how: Streaming) -> Evaluation:
    """Evaluate a log in one pass.

    Up to 131,072 units every figure is what it would be with all rows in memory. Beyond, standard
    errors come from 65,536 groups of whole units and bootstraps from Poisson counts by unit.

    Args:
        batches: The log.
        judging: How to judge.
        how: What to evaluate.

    Raises:
        LogError: If the log holds a fault or lacks what was asked of it; row and column are named.
        ConfigError: If an argument cannot be read in passing.
    """
    seen = _Seen.of(judging, how)
    wanted = _wanted(batches, how)
    for log in batches.read(wanted, propensity_constant=how.propensity_constant):
        seen.add(log)
        how.on_rows(log.n_rows)
    return seen.evaluation(batches)


def _fixed(target: Target | None) -> Target | None:
    """A target that can be applied batch by batch; artifacts are loaded once.

    Raises:
        ConfigError: If it is given row by row.
    """
    if isinstance(target, np.ndarray):
        raise ConfigError(
            "target", "probabilities per row do not come with a log that is read in passing.",
            "Write them into the column target_propensities, or use stream=False.",
        )  # fmt: skip
    if target is None or isinstance(target, Artifact) or target in NAMED:
        return target
    return load_artifact(Path(target))


def _wanted(batches: LogBatches, how: Streaming) -> list[str]:
    """Columns that will be looked at: reading no others saves most of the time."""
    asks_context = any(
        not (target is None or (isinstance(target, str) and target in NAMED))
        for target in (how.target, how.against or COLUMNS)
    )
    named = {how.units, how.by} - {None}
    return [
        name
        for name in batches.names
        if name in schema.BY_NAME
        or name in named
        or (name.startswith(schema.CONTEXT_PREFIX)
            and (asks_context or schema.context_key(name) in named))
    ]  # fmt: skip


@dataclass(slots=True)
class _Seen:
    """What was seen of the log so far."""

    judging: Judging
    how: Streaming
    target: Target | None
    against: Target | None
    layout: Layout
    whole: Tally
    segments: dict[str | None, Tally] = field(default_factory=dict)
    logging: Tally | None = None
    names: dict[str, str] = field(default_factory=dict)
    n_rows: int = 0
    n_null_propensity: int = 0
    histogram: WeightHistogram = field(default_factory=lambda: WeightHistogram.of(np.empty(0)))
    mass: PlanMass | None = None
    calibration: CalibrationSums | None = None
    source: str = ""
    plans: tuple[str, ...] | None = None

    @classmethod
    def of(cls, judging: Judging, how: Streaming) -> "_Seen":
        sides = (_TARGET,) if how.against is None else (_TARGET, _AGAINST)
        layout = Layout(sides, tuple(judging.estimators))
        limits = _limits(judging, how.limits)
        return cls(
            judging=judging,
            how=how,
            target=_fixed(how.target),
            against=None if how.against is None else _fixed(how.against),
            layout=layout,
            whole=Tally(layout, limits),
            logging=Tally(Layout((LOGGING,), parse_estimators(["ips"])), limits),
        )

    def add(self, log: DecisionLog) -> None:
        rows = usable_rows(log, split=self.how.split, units=self.how.units)
        self.n_rows += rows.n_rows
        self.n_null_propensity += rows.n_null_propensity
        self.whole.n_null_reward += rows.n_null_reward
        if rows.n:
            self._add_used(OpenedLog(log, self.how.catalog), rows)
        if self.how.by is not None:
            self._count_unmeasured(log, rows)

    def _add_used(self, opened: OpenedLog, rows: UsableRows) -> None:
        target = target_policy(self.target, rows)
        predictions = self._predictions(opened, rows)
        factors = [chosen for chosen in self.layout.factors if chosen]
        samples = {
            side: sample_of(rows, each, predictions, factors=factors, catalog=self.how.catalog)
            for side, each in self._sides(target, rows).items()
        }
        keys = unit_keys(self._labels(rows))
        found = columns_of(self.layout, samples)
        self.whole.add(keys, found)
        self._add_logging(keys, rows)
        self.histogram += WeightHistogram.of(samples[_TARGET].weight)
        mass = PlanMass.of(rows, target)
        if mass is not None:
            self.mass = mass if self.mass is None else self.mass + mass
            self.plans = rows.plans
        if self.how.by is not None:
            self._add_segments(self.how.by, keys, found, rows)

    def _sides(self, target: TargetPolicy, rows: UsableRows) -> dict[str, TargetPolicy]:
        sides = {_TARGET: target}
        if self.against is not None:
            sides[_AGAINST] = target_policy(self.against, rows)
        self.names |= {side: policy.name for side, policy in sides.items()}
        return sides

    def _predictions(self, opened: OpenedLog, rows: UsableRows) -> Predictions | str:
        if not any(named.needs_model for named in self.judging.estimators):
            return "no reward model was asked for."
        if not rows.log.has(schema.Q_ALL):
            return NO_MODEL
        found = predictions_of(opened, rows, None)
        if isinstance(found, Predictions):
            self.source = found.source
            if self.calibration is None:
                self.calibration = CalibrationSums(*rows.log.reward_range)
            self.calibration.add(rows.reward, found.q_taken)
        return found

    def _labels(self, rows: UsableRows) -> np.ndarray:
        return column_of(rows.log, self.how.units or schema.UNIT_ID, "--units")

    def _add_logging(self, keys: np.ndarray, rows: UsableRows) -> None:
        if self.logging is not None:
            sample = sample_of(rows, target_policy(LOGGING, rows), "the logging policy needs none.")
            self.logging.add(keys, columns_of(self.logging.layout, {LOGGING: sample}))

    def _add_segments(self, by: str, keys: np.ndarray, columns: Columns, rows: UsableRows) -> None:
        labels = text_labels(column_of(rows.log, by, "--by"))
        for value in dict.fromkeys(labels.tolist()):
            mine = labels == value
            self._segment(by, value).add(keys[mine], columns.take(mine))

    def _count_unmeasured(self, log: DecisionLog, rows: UsableRows) -> None:
        by = self.how.by or ""
        for value in text_labels(column_of(log, by, "--by"))[rows.unmeasured].tolist():
            self._segment(by, value).n_null_reward += 1

    def _segment(self, by: str, value: str | None) -> Tally:
        if value not in self.segments:
            if len(self.segments) == MAX_SEGMENTS:
                raise too_many_segments(by, f"more than {MAX_SEGMENTS} values")
            # Each segment has a ledger of its own, so that all of them together need this little.
            limits = replace(self.whole.limits, most_units=_SEGMENT_UNITS, groups=_SEGMENT_GROUPS)
            self.segments[value] = Tally(self.layout, limits)
        return self.segments[value]

    def evaluation(self, batches: LogBatches) -> Evaluation:
        n_units = self.whole.n_units if not self.whole.is_merged else None
        shown = n_units
        if shown is None:
            shown = batches.count_distinct(self.how.units or schema.UNIT_ID)
        verdicts, details = self.whole.assess(_TARGET, self.judging, shown)
        summary = self._summary(batches, shown)
        differences = []
        if self.against is not None:
            differences = self.whole.compare(
                _TARGET, _AGAINST, self.judging, self.names.get(_AGAINST, _AGAINST), shown
            )
        model = None
        if self.calibration is not None and self.calibration.n:
            none = np.empty(0)
            model = Predictions(none, none, self.calibration.calibration(), self.source)
        notes = notes_of(
            summary, unsupported_mass=verdicts[0].unsupported_mass if verdicts else None,
            model=model,
        )  # fmt: skip
        return Evaluation(
            target=self.names.get(_TARGET, COLUMNS),
            log=summary,
            verdicts=verdicts,
            intervals=details,
            logging=self._logging_verdict(shown),
            differences=tuple(differences),
            segments=tuple(self._segments()),
            model=model,
            notes=(*notes, *self._merging(shown)),
            level=self.judging.level,
            seed=self.judging.seed,
            histogram=self.histogram,
            levels=level_shares(self.mass, self.plans, self.how.catalog),
        )

    def _logging_verdict(self, n_units: int) -> Verdict:
        assert self.logging is not None  # noqa: S101 - made in `of`
        judging = replace(self.judging, estimators=self.logging.layout.estimators)
        self.logging.n_null_reward = self.whole.n_null_reward
        verdicts, _ = self.logging.assess(LOGGING, judging, n_units)
        return replace(verdicts[0], estimator=LOGGING)

    def _segments(self) -> Iterable[Segment]:
        for value in sorted(self.segments, key=lambda label: (label is None, label or "")):
            verdicts, _ = self.segments[value].assess(_TARGET, self.judging)
            yield Segment(self.how.by or "", value, verdicts)

    def _summary(self, batches: LogBatches, n_units: int) -> LogSummary:
        facts = batches.facts
        return LogSummary(
            kind=facts.kind.value,
            source=facts.source,
            split=self.how.split.value,
            n_rows=self.n_rows,
            n_used=self.whole.n,
            n_null_propensity=self.n_null_propensity,
            n_null_reward=self.whole.n_null_reward,
            n_units=n_units,
            reward_range=facts.reward_range,
            propensity_declared=(
                facts.propensity_declared or self.how.propensity_constant is not None
            ),
        )

    def _merging(self, n_units: int) -> Sequence[str]:
        if not self.whole.is_merged:
            return ()
        limits = self.whole.limits
        note = (
            f"About {n_units:,} units, too many to be kept apart: standard errors come from "
            f"{limits.groups:,} groups of whole units, bootstraps from {limits.n_resamples} "
            "Poisson replicates by unit."
        )
        return (note,)


def text_labels(values: np.ndarray) -> np.ndarray:
    """Cells of a column as the names of segments: texts, None where empty.

    Args:
        values: Shape (n,).
    """
    found = np.empty(len(values), dtype=object)
    found[:] = [
        None if cell is None or cell != cell else str(cell)  # noqa: PLR0124 - NaN is missing
        for cell in values.tolist()
    ]
    return found


def too_many_segments(by: str, n_values: str) -> LogError:
    """The error for a column that is no segmentation."""
    return LogError(f"--by {by}", f"the column has {n_values}.", "Name a column with few values.")


def _limits(judging: Judging, limits: Limits | None) -> Limits:
    base = limits or Limits()
    return replace(base, seed=judging.seed, n_resamples=judging.n_resamples or base.n_resamples)
