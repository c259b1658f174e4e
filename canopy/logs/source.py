"""Opening a log file: raw columns and the facts in its metadata, nothing judged yet."""

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from canopy.domain.episode import EpisodeKind
from canopy.domain.errors import LogError
from canopy.logs import schema
from canopy.logs.faults import FaultCollector
from canopy.logs.per_plan import list_column
from canopy.logs.schema import LogFacts

if TYPE_CHECKING:
    import pyarrow as pa

CSV_SUFFIXES: Final = (".csv", ".csv.gz")


@dataclass(frozen=True, slots=True)
class RawLog:
    """A log as it was found.

    Attributes:
        columns: Arrow columns by name; text throughout where the file was CSV.
        n_rows: Rows read.
        facts: What the file says of itself; defaults where it says nothing.
        is_text: True for CSV, whose numbers are still text.
    """

    columns: "Mapping[str, pa.ChunkedArray]"
    n_rows: int
    facts: LogFacts
    is_text: bool


def open_log(path: Path, faults: FaultCollector) -> RawLog:
    """Read a file's columns without judging their cells.

    Args:
        path: A `.parquet`, `.csv` or `.csv.gz` file.
        faults: Gathers rows with too few or too many cells.

    Raises:
        LogError: If there is no such file, it is empty, or it cannot be read at all.
    """
    if not path.is_file():
        raise LogError(str(path), "there is no such file.", "Name an existing log.")
    if path.name.endswith(CSV_SUFFIXES):
        return _open_csv(path, faults)
    return _open_parquet(path)


def raw_from_table(table: "pa.Table", source: str) -> RawLog:
    """The columns and facts of an Arrow table.

    Raises:
        LogError: If a column name stands twice, or the metadata is malformed.
    """
    names = table.column_names
    _refuse_twins(source, names)
    metadata = {
        key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()
    }
    columns = dict(zip(names, table.columns, strict=True))
    return RawLog(columns, table.num_rows, facts_of(metadata, source), is_text=False)


def raw_from_columns(columns: Mapping[str, Any], facts: LogFacts) -> RawLog:
    """Arrays and lists as raw columns; NaN in a numpy array of floats stands for null.

    Raises:
        LogError: If the columns differ in length.
    """
    arrays = {name: _as_arrow(values) for name, values in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    n_rows = max(lengths.values(), default=0)
    for name, length in lengths.items():
        if length != n_rows:
            raise LogError(
                f"column {name}", f"{length} cells, other columns have {n_rows}.",
                "Give every column one cell per decision.",
            )  # fmt: skip
    return RawLog(arrays, n_rows, facts, is_text=False)


def facts_of(metadata: Mapping[str, str], source: str) -> LogFacts:
    """The facts that a Parquet file's metadata carries.

    Raises:
        LogError: If a value is malformed.
    """
    plans = metadata.get(schema.META_PLANS, metadata.get(schema.META_PLANS_PLAIN))
    interval = metadata.get(schema.META_RANGE)
    kind = metadata.get(schema.META_KIND, EpisodeKind.IMPORTED)
    try:
        lo, hi = schema.DEFAULT_RANGE if interval is None else json.loads(interval)
        ordered = None if plans is None else tuple(str(plan) for plan in json.loads(plans))
        return LogFacts(
            plans=ordered,
            catalog_text=metadata.get(schema.META_CATALOG),
            kind=EpisodeKind(kind),
            reward_range=(float(lo), float(hi)),
            source=metadata.get(schema.META_SOURCE),
            propensity_declared=metadata.get(schema.META_DECLARED) == "true",
        )
    except (ValueError, TypeError) as error:
        raise LogError(
            f"{source}: metadata", f"malformed: {error}.",
            "Write it with `canopy log import`, or correct the keys that start with canopy.",
        ) from error  # fmt: skip


def metadata_of(facts: LogFacts) -> dict[str, str]:
    """The metadata a Parquet file carries for these facts."""
    found: dict[str, str | None] = {
        schema.META_PLANS: None if facts.plans is None else json.dumps(facts.plans),
        schema.META_CATALOG: facts.catalog_text,
        schema.META_KIND: facts.kind.value,
        schema.META_RANGE: json.dumps(facts.reward_range),
        schema.META_SOURCE: facts.source,
        schema.META_DECLARED: "true" if facts.propensity_declared else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _open_parquet(path: Path) -> RawLog:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise LogError(
            str(path), f"not a Parquet file: {error}.",
            "Name a .parquet, .csv or .csv.gz file.",
        ) from error  # fmt: skip
    return raw_from_table(table, str(path))


def _open_csv(path: Path, faults: FaultCollector) -> RawLog:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = csv_header(path)
    _refuse_twins(str(path), names)
    ragged: list[tuple[int, int]] = []

    def keep_note(row: Any) -> str:
        ragged.append((row.number - 1, row.actual_columns))
        return "skip"

    try:
        table = arrow_csv.read_csv(
            path,
            # One thread: only then does Arrow know the number of a broken row.
            read_options=arrow_csv.ReadOptions(
                use_threads=False, column_names=names, skip_rows=1, block_size=2**24
            ),
            parse_options=arrow_csv.ParseOptions(
                newlines_in_values=True, invalid_row_handler=keep_note
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except (pa.ArrowException, OSError) as error:
        raise LogError(str(path), f"not CSV in UTF-8: {error}.", "Save it again.") from error
    for row, found in ragged:
        faults.row(
            row, "(whole row)", f"{found} cells, the header has {len(names)}.",
            "Quote cells that hold a comma, and give each row one cell per column.",
        )  # fmt: skip
    if ragged:
        numbers = np.arange(1, table.num_rows + len(ragged) + 1)
        faults.numbers = np.setdiff1d(numbers, [row for row, _ in ragged])
    columns = dict(zip(names, table.columns, strict=True))
    return RawLog(columns, table.num_rows, LogFacts(), is_text=True)


def csv_header(path: Path) -> list[str]:
    """Column names of a CSV file, plain or gzipped.

    Raises:
        LogError: If it is empty or not text in UTF-8.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as lines:
            names = next(csv.reader(lines), [])
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(str(path), f"not CSV in UTF-8: {error}.", "Save it again.") from error
    if not names:
        raise LogError(str(path), "the file is empty.", "The first line names the columns.")
    return [name.strip() for name in names]


def _refuse_twins(source: str, names: Sequence[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise LogError(
            f"{source}: column {twins[0]}", "the name stands twice.", "Rename or drop one of them."
        )


def _as_arrow(values: Any) -> "pa.ChunkedArray":
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, np.ndarray) and values.ndim > 1:
        matrix = values if values.dtype == np.bool_ else values.astype(np.float64)
        absent = np.isnan(values.astype(np.float64)).all(axis=1)
        return list_column(matrix, null=np.asarray(absent, bool))
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        # numpy knows no zones; here its instants are UTC, as `DecisionLog.column` gives them.
        return pa.chunked_array([pa.array(values.astype("M8[us]"), pa.timestamp("us", "UTC"))])
    array = pa.array(values, from_pandas=True if isinstance(values, np.ndarray) else None)
    return pa.chunked_array([array])
