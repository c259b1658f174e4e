"""Logs larger than memory: Parquet files, folders of them, or CSV, read a batch at a time.

batches = open_batches("log/")
for log in batches.read():
    ...  # a `DecisionLog` of at most `BATCH_ROWS` rows, checked as `read_log` checks
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from canopy.domain.errors import LogError
from canopy.logs import schema
from canopy.logs.faults import FaultCollector
from canopy.logs.schema import LogFacts
from canopy.logs.source import CSV_SUFFIXES, RawLog, csv_header, facts_of
from canopy.logs.tabular import DecisionLog, accepted_log, judged_log, read_log

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BATCH_ROWS: Final = 2**17
PART_ROWS: Final = 2**15
"""Rows of a part where memory counts for more than speed."""

MEMORY_LIMIT: Final = "512MB"
"""What the reader may hold besides a batch; it spills to disk beyond."""

_PARQUET: Final = ".parquet"


@dataclass(frozen=True, slots=True)
class LogBatches:
    """A log that is read in passing.

    Attributes:
        files: Its files, in the order of their names.
        names: Its columns; those of partitioned folders (`tenant=acme/`) as context columns
            (`x_tenant`), where the schema has none of that name.
        facts: What is true of the whole log.
        n_rows: Rows by the files' own count; None where only reading tells.
        is_text: Whether cells are text, as in CSV.
    """

    files: tuple[Path, ...]
    names: tuple[str, ...]
    facts: LogFacts
    n_rows: int | None
    is_text: bool
    _partitions: tuple[str, ...] = ()

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        propensity_constant: float | None = None,
        batch_rows: int = BATCH_ROWS,
        threads: int | None = None,
    ) -> Iterator[DecisionLog]:
        """The log's rows, checked, in the order of the files.

        Args:
            columns: Columns to read; None reads all.
            propensity_constant: Propensity of every row of a logger known to be uniform.
            batch_rows: Most rows at once.
            threads: How many read files; each holds buffers. None for one per core.

        Yields:
            Logs of at most so many rows. Decision ids are checked for repeats within each.

        Raises:
            LogError: Naming row (of the whole log, from 1) and column of the first fault, or why
                a file cannot be read.
        """
        import duckdb

        wanted = [name for name in self.names if columns is None or name in columns]
        first_row = 1
        with closing(_connection(threads)) as connection:
            try:
                reader = self._scan(connection, wanted)
                for batch in reader.to_arrow_reader(batch_rows):
                    import pyarrow as pa

                    yield read_rows(
                        pa.Table.from_batches([batch]), self.facts,
                        source=self.files[0].name if len(self.files) == 1 else "log",
                        first_row=first_row, is_text=self.is_text,
                        propensity_constant=propensity_constant,
                    )  # fmt: skip
                    first_row += batch.num_rows
            except duckdb.Error as error:
                raise LogError(
                    str(self.files[0]), f"cannot be read: {error}.", "Write the files again."
                ) from error

    def count_distinct(self, column: str) -> int:
        """About how many different values a column has, in memory that does not grow.

        Raises:
            LogError: If there is no such column.
        """
        found = column if column in self.names else schema.CONTEXT_PREFIX + column
        if found not in self.names:
            raise LogError(f"column {column}", "the log has none.", f"It has: {self.names}.")
        with closing(_connection()) as connection:
            scanned = self._scan(connection, [found])
            counted = scanned.aggregate(f"approx_count_distinct({_quoted(found)})").fetchall()
        return int(counted[0][0])

    def _scan(
        self, connection: "duckdb.DuckDBPyConnection", columns: Sequence[str]
    ) -> "duckdb.DuckDBPyRelation":
        folders = {_partition_name(name): name for name in self._partitions}
        return _scan(connection, self.files, is_text=self.is_text).project(
            ", ".join(
                f"{_quoted(folders[name])}::varchar as {_quoted(name)}"
                if name in folders
                else _quoted(name)
                for name in columns
            )
        )


def open_batches(
    path: Path | str,
    *,
    reward_range: tuple[float, float] | None = None,
    plans: Sequence[str] | None = None,
    catalog_text: str | None = None,
) -> LogBatches:
    """Find out what a log is, without reading its rows.

    Args:
        path: A `.parquet`, `.csv` or `.csv.gz` file, or a folder of Parquet files at any depth.
        reward_range: Least and greatest reward; None takes the log's own, else 0 to 1.
        plans: Plan ids in the order of lists; None takes the log's own.
        catalog_text: The plan catalog as YAML; None takes the log's own.

    Raises:
        LogError: If there is nothing there, a file is none of these, or files of one folder say
            different things of the log.
    """
    files, is_text = _files(Path(path))
    partitions: tuple[str, ...] = ()
    if is_text:
        facts, n_rows, names = LogFacts(), None, tuple(csv_header(files[0]))
    else:
        facts, n_rows, own = _parquet_facts(files)
        partitions = tuple(name for name in _names(files) if name not in own)
        names = (*own, *map(_partition_name, partitions))
    if plans is not None:
        facts = replace(facts, plans=tuple(plans))
    if catalog_text is not None:
        facts = replace(facts, catalog_text=catalog_text)
    if reward_range is not None:
        facts = replace(facts, reward_range=reward_range)
    return LogBatches(files, names, facts, n_rows, is_text, partitions)


@dataclass(frozen=True, slots=True)
class LogParts:
    """A log in parts that fit into memory: a short one whole, a long one in passing.

    Attributes:
        n_rows: Rows by the files' own count; None where only reading tells, and there is one part.
        is_whole: Whether it is one part.
    """

    n_rows: int | None
    is_whole: bool
    _path: Path
    _batches: LogBatches | None

    def read(self) -> Iterator[tuple[int, DecisionLog]]:
        """Its parts in their order, each with the number of its first row, from 1.

        Raises:
            LogError: As for `read_log`.
        """
        if self._batches is None:
            yield 1, read_log(self._path)
            return
        first_row = 1
        for part in self._batches.read(batch_rows=PART_ROWS, threads=1):
            yield first_row, part
            first_row += part.n_rows


def open_parts(path: Path | str) -> LogParts:
    """Find out whether a log has to be read in passing.

    Args:
        path: As for `open_batches`; a CSV file is always read whole.

    Raises:
        LogError: As for `open_batches`.
    """
    place = Path(path)
    n_rows = None
    if place.is_file() and not place.name.endswith(CSV_SUFFIXES):
        n_rows = rows_in_file(place)
    if not place.is_dir() and (n_rows is None or n_rows <= BATCH_ROWS):
        return LogParts(n_rows, is_whole=True, _path=place, _batches=None)
    batches = open_batches(place)
    return LogParts(batches.n_rows, is_whole=False, _path=place, _batches=batches)


def rows_in_file(path: Path) -> int | None:
    """Rows of a Parquet file by its own count; None where it is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return None


def read_rows(
    table: "pa.Table",
    facts: LogFacts,
    *,
    source: str,
    first_row: int = 1,
    is_text: bool = False,
    propensity_constant: float | None = None,
) -> DecisionLog:
    """Accept some rows of a larger log, as `read_log` accepts a file.

    Args:
        table: The rows.
        facts: What is true of the whole log.
        source: What errors call the log.
        first_row: Number of the first row in the whole log, from 1.
        is_text: Whether cells are text, as in CSV.
        propensity_constant: Propensity of every row of a logger known to be uniform.

    Raises:
        LogError: Naming row (of the whole log) and column of the first faults.
    """
    faults = FaultCollector()
    faults.numbers = np.arange(first_row, first_row + table.num_rows)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    raw = RawLog(columns, table.num_rows, facts, is_text)
    return accepted_log(judged_log(raw, faults, None, propensity_constant), faults, source)


def _files(path: Path) -> tuple[tuple[Path, ...], bool]:
    if path.is_dir():
        found = tuple(sorted(path.rglob(f"*{_PARQUET}")))
        if not found:
            raise LogError(str(path), "holds no .parquet file.", "Name a folder of Parquet files.")
        return found, False
    if not path.is_file():
        raise LogError(str(path), "there is no such file.", "Name an existing log.")
    return (path,), path.name.endswith(CSV_SUFFIXES)


def _partition_name(name: str) -> str:
    return name if schema.is_known(name) else schema.CONTEXT_PREFIX + name


def _parquet_facts(files: Sequence[Path]) -> tuple[LogFacts, int, tuple[str, ...]]:
    """The facts that the files share, how many rows they hold, and the first one's columns.

    Raises:
        LogError: If a file is none, or they do not share their facts.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    shared: LogFacts | None = None
    n_rows = 0
    names: tuple[str, ...] = ()
    for file in files:
        try:
            footer = pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise LogError(
                str(file), f"not a Parquet file: {error}.", "Name .parquet files."
            ) from error
        metadata = {k.decode(): v.decode() for k, v in (footer.metadata or {}).items()
                    if not k.startswith(b"ARROW:")}  # fmt: skip
        facts = facts_of(metadata, str(file))
        if shared is not None and facts != shared:
            raise LogError(
                str(file), f"says other things of the log than {files[0].name}: plans, catalog, "
                "range or source differ.",
                "Evaluate them apart, or write them with the same facts.",
            )  # fmt: skip
        names = names or tuple(footer.schema.to_arrow_schema().names)
        shared = facts
        n_rows += footer.num_rows
    return shared or LogFacts(), n_rows, names


def _names(files: Sequence[Path]) -> tuple[str, ...]:
    import duckdb

    with closing(_connection()) as connection:
        try:
            return tuple(_scan(connection, files, is_text=False).columns)
        except duckdb.Error as error:
            raise LogError(
                str(files[0]), f"the files do not fit together: {error}.",
                "Give all files the same columns.",
            ) from error  # fmt: skip


def _connection(threads: int | None = None) -> "duckdb.DuckDBPyConnection":
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {"memory_limit": MEMORY_LIMIT}
    return duckdb.connect(config=config if threads is None else config | {"threads": threads})


def _scan(
    connection: "duckdb.DuckDBPyConnection", files: Sequence[Path], *, is_text: bool
) -> "duckdb.DuckDBPyRelation":
    listed = [str(file) for file in files]
    if is_text:
        return connection.read_csv(
            listed[0], header=True, all_varchar=True, na_values=[""], strict_mode=True
        )
    return connection.read_parquet(listed, hive_partitioning=True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
