"""Any source the importer understands as one accepted log."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from canopy.domain.errors import LogError
from canopy.logs import schema
from canopy.logs.catalog_text import catalog_of_plans, outline
from canopy.logs.dsjson import is_dsjson, read_dsjson
from canopy.logs.obd import is_obd, read_obd
from canopy.logs.schema import Converted
from canopy.logs.tabular import DecisionLog, log_of, read_log


class LogFormat(StrEnum):
    """What a source holds."""

    AUTO = "auto"
    """Find out: a folder is Open Bandit, text that starts with JSON is decision-service."""
    TABULAR = "tabular"
    """Parquet or CSV in the documented schema."""
    OBD = "obd"
    """A folder of the Open Bandit Dataset."""
    DSJSON = "dsjson"
    """Vowpal Wabbit's decision-service JSON."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the caller states about a log.

    Attributes:
        reward_range: Least and greatest reward; None takes the file's own, else 0 to 1.
        plans: Plan ids in the order of lists; None takes the file's own.
        catalog_text: The catalog as YAML; None takes the file's own.
        propensity_constant: Propensity of a logger known to be uniform.
        target_prior: Beta parameters of an Open Bandit target policy.
        target: Name of an Open Bandit target policy: `uniform`.
        timestamp: Time of decision-service lines that carry none.
    """

    reward_range: tuple[float, float] | None = None
    plans: Sequence[str] | None = None
    catalog_text: str | None = None
    propensity_constant: float | None = None
    target_prior: Path | None = None
    target: str | None = None
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """An accepted log and what a person should know about it."""

    log: DecisionLog
    notes: tuple[str, ...]


def read_any(source: Path, form: LogFormat, options: ReadOptions) -> Read:
    """Read a source in any format.

    Args:
        source: A file or folder.
        form: Its format.
        options: What the caller states about it.

    Raises:
        LogError: If the source is wrong, or an option does not fit its format.
        CatalogError: If the catalog handed in is none.
    """
    if not source.exists():
        raise LogError(str(source), "there is no such file or folder.", "Name an existing log.")
    found = _detected(source) if form is LogFormat.AUTO else form
    _refuse_misplaced(found, options)
    if found is LogFormat.OBD:
        converted = read_obd(source, prior=options.target_prior, target=options.target)
        return _accepted(converted, options)
    if found is LogFormat.DSJSON:
        return _accepted(read_dsjson(source, timestamp=options.timestamp), options)
    plans = options.plans
    if plans is None and options.catalog_text is not None:
        plans = outline(options.catalog_text, "--catalog").plans
    log = read_log(
        source,
        reward_range=options.reward_range,
        plans=plans,
        propensity_constant=options.propensity_constant,
        catalog_text=options.catalog_text,
    )
    return Read(log, ())


def with_catalog(log: DecisionLog, discipline: str) -> Read:
    """The log with a catalog that lists its plans, where it has none but knows its plans."""
    if log.catalog_text is not None or log.plans is None:
        return Read(log, ())
    text = catalog_of_plans(log.plans, discipline)
    note = f"The log came without a catalog; one that lists its {len(log.plans)} plans was added."
    return Read(replace(log, facts=replace(log.facts, catalog_text=text)), (note,))


def _detected(source: Path) -> LogFormat:
    if source.is_dir():
        if is_obd(source):
            return LogFormat.OBD
        raise LogError(
            str(source), "a folder, but none of the Open Bandit Dataset.",
            "Name a file, or a folder like random/women with its CSV and item_context.csv.",
        )  # fmt: skip
    if source.name.endswith((".parquet", ".csv", ".csv.gz")):
        return LogFormat.TABULAR
    return LogFormat.DSJSON if is_dsjson(source) else LogFormat.TABULAR


def _refuse_misplaced(form: LogFormat, options: ReadOptions) -> None:
    belongs = {
        "--target-prior": (options.target_prior, LogFormat.OBD),
        "--target": (options.target, LogFormat.OBD),
        "--timestamp": (options.timestamp, LogFormat.DSJSON),
        "--propensity-constant": (options.propensity_constant, LogFormat.TABULAR),
        "--plans": (options.plans, LogFormat.TABULAR),
    }
    for name, (value, only) in belongs.items():
        if value is not None and form is not only:
            raise LogError(
                name, f"means nothing for a log in {form} format.", f"It belongs to {only}."
            )


def _accepted(converted: Converted, options: ReadOptions) -> Read:
    facts, columns = converted.facts, dict(converted.columns)
    if options.reward_range is not None:
        facts = replace(facts, reward_range=options.reward_range)
    if options.catalog_text is not None and facts.plans is not None:
        given = outline(options.catalog_text, "--catalog").plans
        if set(given) != set(facts.plans):
            raise LogError(
                "--catalog", "its plans are not those of the log.", "Leave it away, or correct it."
            )
        position = {plan: i for i, plan in enumerate(facts.plans)}
        order = [position[plan] for plan in given]
        for name in columns:
            if name in schema.BY_NAME and schema.BY_NAME[name].type in schema.PER_PLAN:
                columns[name] = columns[name][:, order]
        facts = replace(facts, catalog_text=options.catalog_text, plans=given)
    return Read(log_of(columns, facts), converted.notes)
