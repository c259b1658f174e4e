"""Decision logs as files: checked by row and column, read, and written without a trace of failure.

log = read_log("log.parquet")
log.column("reward"), log.matrix("propensities"), log.context()
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from canopy.domain.episode import EpisodeKind
from canopy.domain.errors import LogError
from canopy.logs import schema
from canopy.logs.canonical import canonical_table
from canopy.logs.columns import TypedLog, typed_log
from canopy.logs.faults import FaultCollector, LogCheck
from canopy.logs.identity import LogIdentity
from canopy.logs.per_plan import per_plan_column
from canopy.logs.rules import check_rules
from canopy.logs.schema import LogFacts
from canopy.logs.source import (
    CSV_SUFFIXES,
    RawLog,
    metadata_of,
    open_log,
    raw_from_columns,
    raw_from_table,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """A log that passed every check.

    Attributes:
        table: The canonical table: times in UTC, numbers as doubles, columns per plan as lists
            in the order of `plans`, text elsewhere; columns in the order of the schema.
        facts: What is true of the whole log.
    """

    table: "pa.Table"
    facts: LogFacts

    @property
    def n_rows(self) -> int:
        """Number of decisions."""
        return int(self.table.num_rows)

    @property
    def plans(self) -> tuple[str, ...] | None:
        """Plan ids in the order of the columns per plan; None where no order is known."""
        return self.facts.plans

    @property
    def catalog_text(self) -> str | None:
        """The plan catalog as YAML; None where the log has none."""
        return self.facts.catalog_text

    @property
    def kind(self) -> EpisodeKind:
        """Where the episodes came from."""
        return self.facts.kind

    @property
    def reward_range(self) -> tuple[float, float]:
        """Least and greatest reward that can occur."""
        return self.facts.reward_range

    @property
    def content_hash(self) -> str:
        """Identity of the log's content, whatever file it came from; read once, keep it."""
        identity = LogIdentity(self.facts)
        identity.add(self.table)
        return identity.content_hash()

    def has(self, name: str) -> bool:
        """True if the log has the column."""
        return name in self.table.column_names

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column as an array of its own.

        Args:
            name: Any column but those per plan.

        Returns:
            Shape (n,). Numbers as float64 with NaN for null, times as datetime64 in UTC, booleans
            as bool where none is null, everything else as objects with None for null.

        Raises:
            LogError: If the log has no such column.
        """
        import pyarrow as pa

        if not self.has(name):
            known = ", ".join(self.table.column_names)
            raise LogError(f"column {name}", "the log has none.", f"It has: {known}.")
        column = self.table.column(name)
        if pa.types.is_floating(column.type):
            return np.array(column.to_numpy(), np.float64)
        if pa.types.is_timestamp(column.type):
            return np.array(column.to_numpy(), "datetime64[us]")
        if pa.types.is_boolean(column.type) and column.null_count == 0:
            return np.array(column.to_numpy(), bool)
        cells = np.empty(len(column), object)
        cells[:] = column.to_pylist()
        return cells

    def matrix(self, name: str) -> npt.NDArray[np.float64] | None:
        """A column per plan as a matrix; booleans become 0 and 1.

        Returns:
            Shape (n, n_plans), read-only, NaN where the cell is empty; None where the log lacks
            the column.
        """
        if not self.has(name) or self.facts.plans is None:
            return None
        found = per_plan_column(
            name, self.table.column(name), self.facts.plans, FaultCollector(), absent=np.nan
        )
        found.values.flags.writeable = False
        return found.values

    def context(self) -> dict[str, npt.NDArray[Any]]:
        """Context columns by key, the prefix removed, each as `column` gives it."""
        return {
            schema.context_key(name): self.column(name)
            for name in self.table.column_names
            if name.startswith(schema.CONTEXT_PREFIX)
        }

    def take(self, rows: npt.NDArray[Any]) -> "DecisionLog":
        """Some of the rows.

        Args:
            rows: Shape (n,) bool: True keeps the row; or row indices in the wanted order.
        """
        import pyarrow as pa

        rows = np.asarray(rows)
        table = (
            self.table.filter(pa.array(rows)) if rows.dtype == np.bool_ else self.table.take(rows)
        )
        return replace(self, table=table)


def check_log(
    path: Path | str,
    *,
    reward_range: tuple[float, float] | None = None,
    plans: Sequence[str] | None = None,
    propensity_constant: float | None = None,
) -> LogCheck:
    """Judge a log file without keeping it.

    Args:
        path: A `.parquet`, `.csv` or `.csv.gz` file.
        reward_range: Least and greatest reward; None takes the file's own, else 0 to 1.
        plans: Plan ids in the order of lists; None takes the file's own.
        propensity_constant: Propensity of every row of a logger known to be uniform.

    Returns:
        Every fault, named by row and column; none where the log may be used.

    Raises:
        LogError: If the file cannot be read as a table at all, or an argument is impossible.
    """
    faults = FaultCollector()
    raw = _with_range(open_log(Path(path), faults), reward_range)
    log = judged_log(raw, faults, plans, propensity_constant)
    return faults.check(log.n_rows)


def read_log(
    path: Path | str,
    *,
    reward_range: tuple[float, float] | None = None,
    plans: Sequence[str] | None = None,
    propensity_constant: float | None = None,
    catalog_text: str | None = None,
) -> DecisionLog:
    """Read a log file that holds no fault.

    Args:
        path: A `.parquet`, `.csv` or `.csv.gz` file.
        reward_range: As for `check_log`.
        plans: As for `check_log`.
        propensity_constant: As for `check_log`; the log is then marked as declared.
        catalog_text: The plan catalog as YAML; None takes the file's own.

    Raises:
        LogError: Naming file, row and column of the first faults, or why it cannot be read.
    """
    faults = FaultCollector()
    raw = _with_range(open_log(Path(path), faults), reward_range)
    if catalog_text is not None:
        raw = replace(raw, facts=replace(raw.facts, catalog_text=catalog_text))
    log = judged_log(raw, faults, plans, propensity_constant)
    return accepted_log(log, faults, str(path))


def read_table(
    table: "pa.Table",
    *,
    reward_range: tuple[float, float] | None = None,
    plans: Sequence[str] | None = None,
    propensity_constant: float | None = None,
) -> DecisionLog:
    """Accept an Arrow table that holds no fault, as `read_log` accepts a file.

    Raises:
        LogError: Naming row and column of the first faults.
    """
    faults = FaultCollector()
    raw = _with_range(raw_from_table(table, "table"), reward_range)
    return accepted_log(judged_log(raw, faults, plans, propensity_constant), faults, "table")


def log_of(columns: Mapping[str, Any], facts: LogFacts) -> DecisionLog:
    """Accept arrays and lists as a log.

    Args:
        columns: By column name; shape (n,) arrays or lists, shape (n, n_plans) arrays for columns
            per plan. In a numpy array of floats NaN stands for an empty cell.
        facts: What is true of the whole log.

    Raises:
        LogError: Naming row and column of the first faults.
    """
    faults = FaultCollector()
    raw = _with_range(raw_from_columns(columns, facts), None)
    log = judged_log(raw, faults, None, None)
    return accepted_log(log, faults, facts.source or "columns")


def write_log(
    path: Path | str,
    columns: Mapping[str, Any],
    *,
    plans: Sequence[str] | None = None,
    catalog_text: str | None = None,
    kind: EpisodeKind = EpisodeKind.IMPORTED,
    reward_range: tuple[float, float] = schema.DEFAULT_RANGE,
    source: str | None = None,
    propensity_declared: bool = False,
) -> DecisionLog:
    """Check columns and write them as a canonical log; a refused log leaves no file.

    Args:
        path: Where to; `.csv` writes CSV, whose columns per plan are objects by plan id and
            which cannot carry the other facts; anything else is Parquet.
        columns: As for `log_of`.
        plans: Plan ids in the order of columns per plan.
        catalog_text: The plan catalog as YAML.
        kind: Where the episodes came from.
        reward_range: Least and greatest reward that can occur.
        source: Where the log was made, in words.
        propensity_declared: The propensities were declared, not logged.

    Returns:
        The log as it was written.

    Raises:
        LogError: Naming row and column of the first faults.
    """
    facts = LogFacts(
        plans=None if plans is None else tuple(plans),
        catalog_text=catalog_text,
        kind=kind,
        reward_range=reward_range,
        source=source,
        propensity_declared=propensity_declared,
    )
    log = log_of(columns, facts)
    save_log(log, path)
    return log


def save_log(log: DecisionLog, path: Path | str) -> None:
    """Write an accepted log; the file appears whole or not at all."""
    import pyarrow.parquet as pq
    from pyarrow import csv as arrow_csv

    target = Path(path)
    with replaced_file(target) as unfinished:
        if target.name.endswith(CSV_SUFFIXES):
            arrow_csv.write_csv(_for_csv(log), unfinished)
        else:
            table = log.table.replace_schema_metadata(metadata_of(log.facts))
            pq.write_table(table, unfinished, compression="zstd")


@contextmanager
def replaced_file(target: Path) -> Iterator[Path]:
    """A path to write to that becomes `target` on success and vanishes on failure."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(0o644)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _with_range(raw: RawLog, reward_range: tuple[float, float] | None) -> RawLog:
    lo, hi = reward_range or raw.facts.reward_range
    if not -np.inf < lo < hi < np.inf:
        raise LogError(
            "--range", f"expected two finite numbers, the least first, got {lo:g} {hi:g}.",
            "Name the least and the greatest reward that can occur.",
        )  # fmt: skip
    return replace(raw, facts=replace(raw.facts, reward_range=(float(lo), float(hi))))


def judged_log(
    raw: RawLog,
    faults: FaultCollector,
    plans: Sequence[str] | None,
    propensity_constant: float | None,
) -> TypedLog:
    """Columns with their types, every fault gathered.

    Raises:
        LogError: If the constant is no probability.
    """
    if propensity_constant is not None and not 0 < propensity_constant <= 1:
        raise LogError(
            "--propensity-constant", f"expected a probability, got {propensity_constant:g}.",
            "Name the probability with which every plan was drawn, such as 0.25 for four plans.",
        )  # fmt: skip
    log = typed_log(raw, faults, plans=plans, propensity_constant=propensity_constant)
    check_rules(log, faults)
    return log


def accepted_log(log: TypedLog, faults: FaultCollector, source: str) -> DecisionLog:
    """The log, if nothing is wrong with it.

    Raises:
        LogError: Naming source, row and column of the first fault.
    """
    found = faults.check(log.n_rows)
    if found.is_clean:
        return DecisionLog(canonical_table(log), log.facts)
    first = found.faults[0]
    rest = found.n_faults - 1
    more = f" And {rest} more: `canopy log check` lists them." if rest else ""
    raise LogError(f"{source}: {first.place}", first.problem, first.remedy + more)


def _for_csv(log: DecisionLog) -> "pa.Table":
    import pyarrow as pa

    table = log.table
    for position, name in enumerate(table.column_names):
        column = table.column(name)
        if not pa.types.is_list(column.type):
            continue
        cells = column.to_pylist()
        if name in schema.BY_NAME:
            cells = [_by_plan(cell, log.facts.plans or ()) for cell in cells]
        words = [None if cell is None else json.dumps(cell, allow_nan=False) for cell in cells]
        table = table.set_column(position, name, pa.array(words, pa.string()))
    return table


def _by_plan(cell: list[Any] | None, plans: Sequence[str]) -> dict[str, Any] | None:
    if cell is None:
        return None
    return {plan: v for plan, v in zip(plans, cell, strict=True) if v is not None and v == v}  # noqa: PLR0124 - only NaN differs from itself
