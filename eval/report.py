"""Off-policy evaluation of a log: `evaluate(log, target)`, from a notebook or the command line.

evaluation = evaluate("log.parquet", policy="artifacts/candidate")
evaluation.to_frame()
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from canopy.domain.errors import ConfigError
from canopy.logs.batches import open_batches, rows_in_file
from canopy.logs.source import CSV_SUFFIXES
from eval.assessment import Judging, assess, compare
from eval.coverage import PlanMass, WeightHistogram, level_shares
from eval.estimator_names import ESTIMATORS, parse_estimators
from eval.evaluation import Evaluation, LogSummary, notes_of
from eval.opened_log import LogSource, OpenedLog, open_log
from eval.predictions import predictions_of, sample_of
from eval.reward_models import Predictions, RewardModelSpec
from eval.sample import Sample
from eval.stream import (
    MAX_SEGMENTS,
    NO_MODEL,
    STREAMED_BYTES,
    STREAMED_ROWS,
    Streaming,
    evaluate_stream,
    text_labels,
    too_many_segments,
)
from eval.targets import LOGGING, Target, target_policy
from eval.usable_rows import Split, UsableRows, column_of, usable_rows
from eval.verdicts import Difference, IntervalKind, Segment, Verdict
from policy.artifact import Artifact
from policy.catalog import Catalog, load_catalog, parse_catalog

__all__ = ["Evaluation", "evaluate"]


def evaluate(
    log: LogSource,
    target: Target | None = None,
    catalog: Catalog | Path | str | None = None,
    *,
    policy: Artifact | Path | str | None = None,
    estimators: Sequence[str] = ESTIMATORS,
    reward_range: tuple[float, float] | None = None,
    plans: Sequence[str] | None = None,
    propensity_constant: float | None = None,
    split: Split | str = Split.ALL,
    units: str | Sequence[Any] | npt.NDArray[Any] | None = None,
    against: Target | None = None,
    by: str | None = None,
    reward_model: RewardModelSpec | None = None,
    level: float = 0.95,
    interval: IntervalKind | str = IntervalKind.UNIT_T,
    seed: int = 12345,
    n_resamples: int | None = None,
    stream: bool | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> Evaluation:
    """Estimate what a target policy would have earned on a log, or say why that cannot be known.

    Args:
        log: A data frame, a Parquet or CSV file, or a log read before.
        target: `uniform`, `logging`, `columns` (the log's target columns), or probabilities of
            shape (n_rows,) at the plans taken or (n_rows, n_plans); None takes `policy`, else
            the log's target columns.
        catalog: The plans' catalog or its file; None takes the log's own.
        policy: A policy artifact or its folder, as the target.
        estimators: Short names, as `eval.estimator_names` has them.
        reward_range: Least and greatest reward; None takes the log's own, else 0 to 1.
        plans: Plan ids in the order of columns per plan.
        propensity_constant: Propensity of every row of a logger known to be uniform.
        split: `all` units, the `reserve`, or `train`.
        units: What is independent: a column, or one label per row; None takes `unit_id`.
        against: Another target, for paired differences on the same rows.
        by: A column whose values are evaluated apart as well.
        reward_model: Which model to cross-fit where the log brings no predictions of its own, and
            also where it does; None fits one only where the log brings none.
        level: Coverage of intervals, between 0 and 1.
        interval: Which interval verdicts carry: `unit-t` or `bootstrap`.
        seed: Of the bootstrap.
        n_resamples: Replicates of the bootstrap; None takes as many as stay quick.
        stream: Read the log in passing, in memory that does not grow with its rows; None does so
            for folders, and for files of more than two million rows (CSV: a gigabyte).
        on_rows: Told how many rows were read, for logs that are read in passing.

    Returns:
        The evaluation; estimators that must not be believed are refused in it, not raised.

    Raises:
        LogError: If the log holds a fault or lacks what was asked of it; row and column are named.
        ConfigError: If an argument contradicts another or is unknown.
        ArtifactError: If the policy artifact is incomplete or altered.
        CatalogError: If the catalog is wrong.
    """
    judging = _judging(estimators, level, interval, seed, n_resamples)
    if isinstance(log, str | Path) and _is_streamed(Path(log), stream=stream):
        return _streamed(
            Path(log), judging, catalog=catalog, plans=plans, reward_range=reward_range,
            reward_model=reward_model,
            how=Streaming(
                target=_one_target(target, policy), catalog=None, split=_split(split),
                units=_units_column(units), against=against, by=by,
                propensity_constant=propensity_constant, on_rows=on_rows or (lambda _: None),
            ),
        )  # fmt: skip
    opened = open_log(
        log,
        catalog=catalog,
        plans=plans,
        reward_range=reward_range,
        propensity_constant=propensity_constant,
    )
    rows = usable_rows(opened.log, split=_split(split), units=units)
    chosen = target_policy(_one_target(target, policy), rows)
    predictions = _predictions(opened, rows, reward_model, judging)
    factors = {named.factors for named in judging.estimators if named.factors}
    sample = sample_of(rows, chosen, predictions, factors=factors, catalog=opened.catalog)
    found = assess(sample, judging)
    summary = _summary(opened, rows, _split(split))
    model = predictions if isinstance(predictions, Predictions) else None
    return Evaluation(
        target=chosen.name,
        log=summary,
        verdicts=found.verdicts,
        intervals=found.details,
        logging=_logging_value(rows, judging),
        differences=tuple(_differences(against, opened, rows, sample, predictions, judging)),
        segments=tuple(_segments(by, opened, rows, sample, judging)),
        model=model,
        notes=notes_of(summary, unsupported_mass=sample.unsupported_mass, model=model),
        level=level,
        seed=seed,
        histogram=WeightHistogram.of(sample.weight),
        levels=level_shares(PlanMass.of(rows, chosen), rows.plans, opened.catalog),
        contributions={name: each.contributions for name, each in found.estimates.items()},
        weight=sample.weight,
        positions=rows.positions,
        unit_codes=rows.units.codes,
    )


def _is_streamed(path: Path, *, stream: bool | None) -> bool:
    if stream is not None:
        return stream
    if path.is_dir():
        return True
    if not path.is_file():
        return False
    if path.name.endswith(CSV_SUFFIXES):
        return path.stat().st_size > STREAMED_BYTES
    return (rows_in_file(path) or 0) > STREAMED_ROWS


def _streamed(
    path: Path,
    judging: Judging,
    *,
    catalog: Catalog | Path | str | None,
    plans: Sequence[str] | None,
    reward_range: tuple[float, float] | None,
    reward_model: RewardModelSpec | None,
    how: Streaming,
) -> Evaluation:
    if reward_model is not None:
        raise ConfigError("reward model", "none is fitted on a log read in passing.", NO_MODEL)
    stated = load_catalog(catalog) if isinstance(catalog, str | Path) else catalog
    order = plans if plans is not None or stated is None else stated.plan_ids
    batches = open_batches(path, reward_range=reward_range, plans=order)
    if stated is None and batches.facts.catalog_text is not None:
        stated = parse_catalog(batches.facts.catalog_text, "the log's catalog")
    return evaluate_stream(batches, judging, replace(how, catalog=stated))


def _units_column(units: str | Sequence[Any] | npt.NDArray[Any] | None) -> str | None:
    if units is None or isinstance(units, str):
        return units
    raise ConfigError(
        "units", "labels per row do not come with a log that is read in passing.",
        "Name a column, or use stream=False.",
    )  # fmt: skip


def _judging(
    estimators: Sequence[str],
    level: float,
    interval: IntervalKind | str,
    seed: int,
    n_resamples: int | None,
) -> Judging:
    named = parse_estimators(estimators)
    if not 0 < level < 1:
        raise ConfigError("--level", f"expected between 0 and 1, got {level:g}.", "Such as 0.95.")
    if interval not in set(IntervalKind):
        kinds = ", ".join(IntervalKind)
        raise ConfigError("--interval", f"knows no {interval!r}.", f"There are: {kinds}.")
    return Judging(named, level, IntervalKind(interval), seed, n_resamples)


def _split(split: Split | str) -> Split:
    if split not in set(Split):
        raise ConfigError("--split", f"knows no {split!r}.", f"There are: {', '.join(Split)}.")
    return Split(split)


def _one_target(target: Target | None, policy: Artifact | Path | str | None) -> Target | None:
    if policy is None:
        return target
    if target is not None:
        raise ConfigError("--policy", "two targets.", "Leave --target away, or --policy.")
    return policy if isinstance(policy, Artifact) else Path(policy)


def _predictions(
    opened: OpenedLog,
    rows: UsableRows,
    spec: RewardModelSpec | None,
    judging: Judging,
) -> Predictions | str:
    if not any(named.needs_model for named in judging.estimators):
        return "no reward model was asked for."
    return predictions_of(opened, rows, spec)


def _logging_value(rows: UsableRows, judging: Judging) -> Verdict:
    sample = sample_of(rows, target_policy(LOGGING, rows), "the logging policy needs no model.")
    return replace(
        assess(sample, replace(judging, estimators=parse_estimators(["ips"]))).verdicts[0],
        estimator=LOGGING,
    )


def _differences(
    against: Target | None,
    opened: OpenedLog,
    rows: UsableRows,
    sample: Sample,
    predictions: Predictions | str,
    judging: Judging,
) -> list[Difference]:
    if against is None:
        return []
    other = target_policy(against, rows)
    theirs = sample_of(rows, other, predictions, factors=sample.by_levels, catalog=opened.catalog)
    return compare(sample, theirs, other.name, judging)


def _segments(
    by: str | None, opened: OpenedLog, rows: UsableRows, sample: Sample, judging: Judging
) -> list[Segment]:
    if by is None:
        return []
    labels = text_labels(column_of(opened.log, by, "--by"))
    used, unmeasured = labels[rows.positions], labels[rows.unmeasured]
    values = sorted(set(used.tolist()), key=lambda label: (label is None, label or ""))
    if len(values) > MAX_SEGMENTS:
        raise too_many_segments(by, f"{len(values)} values, more than {MAX_SEGMENTS}")
    return [
        Segment(
            by,
            value,
            assess(
                sample.take(used == value, n_null_reward=int((unmeasured == value).sum())), judging
            ).verdicts,
        )
        for value in values
    ]


def _summary(opened: OpenedLog, rows: UsableRows, split: Split) -> LogSummary:
    facts = opened.log.facts
    return LogSummary(
        kind=facts.kind.value,
        source=facts.source,
        split=split.value,
        n_rows=rows.n_rows,
        n_used=rows.n,
        n_null_propensity=rows.n_null_propensity,
        n_null_reward=rows.n_null_reward,
        n_units=rows.units.n_units,
        reward_range=facts.reward_range,
        propensity_declared=facts.propensity_declared,
    )
