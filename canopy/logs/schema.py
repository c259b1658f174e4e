"""The documented schema of a decision log: one row per decision, one table for all to read.

The checks, `canopy log template --describe` and the reference page all follow `COLUMNS`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from canopy.domain.episode import EpisodeKind

DECISION_ID: Final = "decision_id"
UNIT_ID: Final = "unit_id"
TS: Final = "ts"
PLAN: Final = "plan"
PROPENSITY: Final = "propensity"
REWARD: Final = "reward"
DRAWN: Final = "drawn"
PROPENSITIES: Final = "propensities"
FEASIBLE: Final = "feasible"
KEEP_PROB: Final = "keep_prob"
TARGET_PROPENSITY: Final = "target_propensity"
TARGET_PROPENSITIES: Final = "target_propensities"
Q: Final = "q"
Q_ALL: Final = "q_all"
POLICY_VERSION: Final = "policy_version"

CONTEXT_PREFIX: Final = "x_"
"""Prefix of columns that hold what was known before choosing."""

COMPONENT_PREFIX: Final = "r_"
"""Prefix of columns that hold components of a reward, such as `r_settlement`."""

META_PLANS: Final = "canopy.plans"
META_CATALOG: Final = "canopy.catalog"
META_KIND: Final = "canopy.kind"
META_RANGE: Final = "canopy.reward_range"
META_SOURCE: Final = "canopy.source"
META_DECLARED: Final = "canopy.propensity_declared"
META_PLANS_PLAIN: Final = "plans"
"""Where other tools' files may carry the plan order; read, never written."""

SUM_TOLERANCE: Final = 1e-6
"""How far a distribution's sum may be from 1."""

AGREEMENT: Final = 1e-6
"""Relative difference up to which two statements of one probability agree (float32 logs)."""

DEFAULT_RANGE: Final = (0.0, 1.0)


class ColumnType(StrEnum):
    """What the cells of a column hold."""

    TEXT = "text"
    TIME = "time"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NUMBERS = "numbers per plan"
    BOOLEANS = "booleans per plan"


PER_PLAN: Final = (ColumnType.NUMBERS, ColumnType.BOOLEANS)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the schema.

    Attributes:
        name: Its name in the file.
        type: What its cells hold.
        mandatory: A log without it is refused.
        meaning: What a cell says.
        rule: What is refused, and what an empty cell means.
    """

    name: str
    type: ColumnType
    mandatory: bool
    meaning: str
    rule: str


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What is true of a whole log; travels as metadata of the Parquet file.

    Attributes:
        plans: Plan ids in the order of the columns per plan; None where no order is known.
        catalog_text: The plan catalog as YAML; None where the log has none.
        kind: Where the episodes came from.
        reward_range: Least and greatest reward that can occur, in reward units.
        source: Where the log was made, in words; None if unknown.
        propensity_declared: The propensities were declared by a person, not logged.
    """

    plans: tuple[str, ...] | None = None
    catalog_text: str | None = None
    kind: EpisodeKind = EpisodeKind.IMPORTED
    reward_range: tuple[float, float] = DEFAULT_RANGE
    source: str | None = None
    propensity_declared: bool = False


@dataclass(frozen=True, slots=True)
class Converted:
    """Another format's log as columns of this schema, not yet checked.

    Attributes:
        columns: Arrays or lists by column name, all of one length.
        facts: What is true of the whole log.
        notes: What a person should know about the conversion.
    """

    columns: dict[str, Any]
    facts: LogFacts
    notes: tuple[str, ...] = ()


_DISTRIBUTION = "Values in [0, 1], exactly 0 on plans that were not feasible, summing to 1 within "

COLUMNS: Final = (
    Column(
        DECISION_ID, ColumnType.TEXT, True,
        "Name of the decision.", "Never empty, never twice.",
    ),
    Column(
        UNIT_ID, ColumnType.TEXT, True,
        "Who or what the decision was about; rows of one unit are resampled together.",
        "Never empty. Where nothing better is known, one unit per row.",
    ),
    Column(
        TS, ColumnType.TIME, True,
        "When the decision was made.",
        "ISO 8601 with an offset (`2026-01-31T08:00:00Z`), or a Parquet timestamp with a time "
        "zone; a time without one is refused.",
    ),
    Column(
        PLAN, ColumnType.TEXT, True,
        "Id of the plan that was taken.",
        "One of the log's plans where they are known; feasible where it was drawn.",
    ),
    Column(
        PROPENSITY, ColumnType.NUMBER, True,
        "Probability with which the logging policy took this plan here.",
        "Greater than 0, at most 1. Empty only on rows whose `drawn` is false. Never filled in: a "
        "known uniform logger is declared with `--propensity-constant` and marked so.",
    ),
    Column(
        REWARD, ColumnType.NUMBER, True,
        "What the decision led to, in reward units.",
        "Within the declared range (0 to 1 unless told). Empty means unmeasured, which is not 0; "
        "NaN is refused.",
    ),
    Column(
        DRAWN, ColumnType.BOOLEAN, False,
        "False where the plan taken is not what the policy drew: overrides, pins, fallbacks.",
        "Such a row has no propensity and stays out of off-policy estimates. Without the column "
        "every row was drawn.",
    ),
    Column(
        PROPENSITIES, ColumnType.NUMBERS, False,
        "The logging policy's whole distribution.",
        _DISTRIBUTION + "1e-6, and equal to `propensity` at the plan taken. Empty only where "
        "`drawn` is false.",
    ),
    Column(
        FEASIBLE, ColumnType.BOOLEANS, False,
        "True where a plan could have been taken.",
        "Never empty. Without the column every plan was feasible on every row.",
    ),
    Column(
        KEEP_PROB, ColumnType.NUMBER, False,
        "Probability with which the row was kept in the log.",
        "Greater than 0, at most 1, never empty. Without the column every row was kept.",
    ),
    Column(
        TARGET_PROPENSITY, ColumnType.NUMBER, False,
        "Probability of the plan taken under the policy to evaluate.",
        "Between 0 and 1. Empty only where `drawn` is false.",
    ),
    Column(
        TARGET_PROPENSITIES, ColumnType.NUMBERS, False,
        "Whole distribution of the policy to evaluate, on the same feasible plans.",
        _DISTRIBUTION + "1e-6, and equal to `target_propensity` at the plan taken where both are "
        "given.",
    ),
    Column(
        Q, ColumnType.NUMBER, False,
        "A reward model's prediction for the plan taken.",
        "Finite. The model must not have seen the row. Empty only where `drawn` is false.",
    ),
    Column(
        Q_ALL, ColumnType.NUMBERS, False,
        "A reward model's predictions for all plans.",
        "Finite on feasible plans; anything on the others.",
    ),
    Column(
        POLICY_VERSION, ColumnType.TEXT, False,
        "Which version of the logging policy decided.", "May be empty.",
    ),
)  # fmt: skip
"""All columns but the context columns, in the order of a written log."""

BY_NAME: Final = {column.name: column for column in COLUMNS}
MANDATORY: Final = tuple(column.name for column in COLUMNS if column.mandatory)


_INTRODUCTION: Final = (
    (
        "A decision log is a Parquet or CSV file with one row per decision. Rows count from 1, "
        "the header not counted; every message about a log names row and column."
    ),
    "",
    (
        f"Columns whose name starts with `{CONTEXT_PREFIX}` hold the context: numbers, text, "
        "booleans, or lists of text. An empty cell is a missing value. In CSV a context column "
        "all of whose cells are numbers is a number, else it is text. Columns whose name starts "
        f"with `{COMPONENT_PREFIX}` hold components of a reward, as reward specifications name "
        "them. Any other name that is not listed here is refused."
    ),
    "",
    (
        "Columns per plan hold a list in the order of the log's plans (`--plans`, `--catalog`, "
        f"or Parquet metadata `{META_PLANS}`), or an object by plan id, which needs no order: an "
        "absent id is 0, false, or no prediction. CSV cells hold them as JSON. A list without "
        "an order is refused."
    ),
    "",
)

_CONTEXT_ROW: Final = (
    f"| `{CONTEXT_PREFIX}…` | number, text, boolean, list of text | no | What was known before "
    "choosing; policies read it without the prefix. | Infinite numbers are refused; NaN is read "
    "as missing. |"
)


_COMPONENT_ROW: Final = (
    f"| `{COMPONENT_PREFIX}…` | {ColumnType.NUMBER} | no | A component of a reward; training "
    "blends those that its specification names, nothing else reads them. | Infinite numbers are "
    "refused; an empty cell was not measured. |"
)


def describe() -> str:
    """The schema in words, as Markdown: the reference page and `--describe` print this."""
    lines = [
        *_INTRODUCTION,
        "| column | holds | needed | meaning | rule |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{c.name}` | {c.type} | {'yes' if c.mandatory else 'no'} | {c.meaning} | {c.rule} |"
        for c in COLUMNS
    ]
    lines += [
        _CONTEXT_ROW,
        _COMPONENT_ROW,
        "",
        "| Parquet metadata | holds |",
        "|---|---|",
        f"| `{META_PLANS}` | JSON list of plan ids: the order of the columns per plan |",
        f"| `{META_CATALOG}` | the plan catalog as YAML |",
        f"| `{META_KIND}` | {', '.join(EpisodeKind)}: where the episodes came from |",
        f"| `{META_RANGE}` | JSON list: least and greatest reward |",
        f"| `{META_SOURCE}` | where the log was made, in words |",
        f"| `{META_DECLARED}` | `true` where a person declared the propensities |",
    ]
    return "\n".join(lines)


def is_known(column: str) -> bool:
    """Whether a log may have a column of this name.

    Args:
        column: Its name in the file.
    """
    return column in BY_NAME or column.startswith((CONTEXT_PREFIX, COMPONENT_PREFIX))


def context_key(column: str) -> str:
    """The context key a column holds: its name without the prefix."""
    return column.removeprefix(CONTEXT_PREFIX)
