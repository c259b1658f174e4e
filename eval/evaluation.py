"""The result of an evaluation: verdicts first, then everything they rest on."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from canopy.domain.episode import EpisodeKind
from eval.coverage import LevelShare, WeightHistogram
from eval.reward_models import Predictions
from eval.verdicts import Difference, IntervalDetail, Segment, Verdict
from policy.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd


def _no_numbers() -> FloatArray:
    return np.empty(0)


def _no_rows() -> IntArray:
    return np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class LogSummary:
    """Which log was evaluated, and how much of it.

    Attributes:
        kind: Where its episodes came from: real, synthetic or imported.
        source: Where it was made, in words; None if unknown.
        split: Which units were looked at.
        n_rows: Rows looked at.
        n_used: Of these, with propensity and reward.
        n_null_propensity: Of these, left out because nothing was drawn.
        n_null_reward: Of these, drawn but left out because the reward is unmeasured.
        n_units: Units among the rows used.
        reward_range: Least and greatest reward that can occur.
        propensity_declared: The propensities were declared, not logged.
    """

    kind: str
    source: str | None
    split: str
    n_rows: int
    n_used: int
    n_null_propensity: int
    n_null_reward: int
    n_units: int
    reward_range: tuple[float, float]
    propensity_declared: bool


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a log says of a target policy.

    Attributes:
        target: Name of the target policy.
        log: The log, and how much of it was used.
        verdicts: One per estimator, in the order asked for.
        intervals: Both intervals of every estimator that is not refused.
        logging: The logging policy's own value on the same rows, as a verdict.
        differences: Paired differences to another policy; empty where none was named.
        segments: Verdicts by a column's values; empty where no column was named.
        model: What the reward model predicted, and how well; None where none was needed or
            possible.
        notes: What a reader should know.
        level: Nominal coverage of every interval.
        seed: Of the bootstrap.
        histogram: How many rows have which weight.
        levels: Where both policies' probability lies, by factor level; empty where the plans are
            not known.
        contributions: Shape (n,) by estimator that is not refused: the mean is the value, and
            two of them over the same rows are paired. Empty, as are the next three, for a log
            that was read in passing.
        weight: Shape (n,). Importance weights.
        positions: Shape (n,). Where each row used stood in the log, from 0.
        unit_codes: Shape (n,). Number of each row's unit.
    """

    target: str
    log: LogSummary
    verdicts: tuple[Verdict, ...]
    intervals: tuple[IntervalDetail, ...]
    logging: Verdict
    differences: tuple[Difference, ...]
    segments: tuple[Segment, ...]
    model: Predictions | None = field(repr=False)
    notes: tuple[str, ...]
    level: float
    seed: int
    histogram: WeightHistogram = field(repr=False)
    levels: tuple[LevelShare, ...] = field(repr=False)
    contributions: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)
    weight: FloatArray = field(default_factory=_no_numbers, repr=False)
    positions: IntArray = field(default_factory=_no_rows, repr=False)
    unit_codes: IntArray = field(default_factory=_no_rows, repr=False)

    @property
    def is_refused(self) -> bool:
        """True if not one estimator gave a value."""
        return all(verdict.status == "refused" for verdict in self.verdicts)

    def verdict(self, estimator: str) -> Verdict:
        """One estimator's verdict.

        Raises:
            LookupError: If that estimator was not asked for.
        """
        for verdict in self.verdicts:
            if verdict.estimator == estimator:
                return verdict
        known = ", ".join(verdict.estimator for verdict in self.verdicts)
        raise LookupError(f"no verdict of {estimator!r} was asked for; there are: {known}.")

    def to_frame(self) -> "pd.DataFrame":
        """The verdicts as a data frame, one row per estimator."""
        import pandas as pd

        return pd.DataFrame([verdict.document() for verdict in self.verdicts])

    def document(self) -> dict[str, Any]:
        """Everything but the arrays, as plain values."""
        return {
            "target": self.target,
            "log": asdict(self.log) | {"reward_range": list(self.log.reward_range)},
            "verdicts": [verdict.document() for verdict in self.verdicts],
            "intervals": [detail.document() for detail in self.intervals],
            "logging": self.logging.document(),
            "differences": [difference.document() for difference in self.differences],
            "segments": [segment.document() for segment in self.segments],
            "reward_model": _model_document(self.model),
            "levels": [asdict(level) for level in self.levels],
            "notes": list(self.notes),
            "level": self.level,
            "seed": self.seed,
        }

    def _repr_html_(self) -> str:
        """The verdicts as a table, for notebooks."""
        used = f"{self.log.n_used:,} of {self.log.n_rows:,} rows, {self.log.n_units:,} units"
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return (
            f"<p>Target <b>{html.escape(self.target)}</b>: {used}.</p>"
            + verdict_table(self.verdicts)
            + (f"<ul>{notes}</ul>" if notes else "")
        )


def notes_of(
    log: LogSummary, *, unsupported_mass: float | None, model: Predictions | None
) -> tuple[str, ...]:
    """What a reader should know of an evaluation.

    Args:
        log: How much of the log was used.
        unsupported_mass: Share of the target on plans that are never logged; None if unknown.
        model: The reward model; None without one.
    """
    notes = []
    if log.n_null_propensity:
        notes.append(f"{log.n_null_propensity:,} rows left out: their plan was not drawn.")
    if log.n_null_reward:
        notes.append(
            f"{log.n_null_reward:,} rows left out: their reward is unmeasured. The values hold if "
            "it is missing at random given context and plan."
        )
    if log.propensity_declared:
        notes.append("The propensities were declared, not logged.")
    if log.kind == EpisodeKind.SYNTHETIC:
        notes.append("The log is synthetic.")
    if unsupported_mass is None:
        notes.append(
            "Unsupported target mass is unknown: it takes the whole distribution of both the "
            "logging and the target policy."
        )
    if model is not None and model.n_unconverged:
        notes.append(f"{model.n_unconverged} fits of the reward model ran out of iterations.")
    return tuple(notes)


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as an HTML table."""
    heads = ("estimator", "status", "value", "interval", "n", "ESS", "mean w", "max w", "reason")
    lines = ["<table><thead><tr>"]
    lines += [f"<th>{head}</th>" for head in heads]
    lines.append("</tr></thead><tbody>")
    for v in verdicts:
        cells = (
            v.estimator, v.status, number(v.value), interval_text(v.interval), f"{v.n:,}",
            number(v.ess), number(v.mean_weight), number(v.max_weight), v.reason or "",
        )  # fmt: skip
        row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr class="{v.status}">{row}</tr>')
    lines.append("</tbody></table>")
    return "".join(lines)


def number(value: float | None) -> str:
    """A number as reports show it."""
    return "–" if value is None else f"{value:.6g}"  # noqa: RUF001 - a dash for "none"


def interval_text(interval: Sequence[float] | None) -> str:
    """An interval as reports show it."""
    return number(None) if interval is None else f"[{interval[0]:.6g}, {interval[1]:.6g}]"


def _model_document(model: Predictions | None) -> dict[str, Any] | None:
    if model is None:
        return None
    return {
        "source": model.source,
        "n_constant": model.n_constant,
        "n_unconverged": model.n_unconverged,
        "calibration": asdict(model.calibration),
    }
