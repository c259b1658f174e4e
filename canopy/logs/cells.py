"""Cells to typed arrays, whole columns at a time; a cell that will not convert is a fault."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from canopy.logs.faults import BoolArray, FaultCollector

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers.

    Attributes:
        values: Shape (n,). NaN where null or at fault.
        is_null: Shape (n,). True where the cell is empty.
    """

    values: FloatArray
    is_null: BoolArray


def nulls(column: "pa.ChunkedArray") -> BoolArray:
    """Where a column is null, shape (n,)."""
    found: BoolArray = column.is_null().to_numpy()
    return found


def text_column(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """A column as text: numbers and identifiers of any scalar type become their words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if column.type == pa.string():
        return column
    return pc.cast(column, pa.string())


def number_column(name: str, column: "pa.ChunkedArray", faults: FaultCollector) -> Numbers | None:
    """A column of numbers; None, with a fault, where the type can hold none.

    NaN in a cell is a fault: it may mean unmeasured, zero or broken, and nothing here guesses.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(column.type):
        n_rows = len(column)
        return Numbers(np.full(n_rows, np.nan), np.ones(n_rows, bool))
    if is_text(column):
        column = _trimmed(text_column(column))
        is_null = nulls(column)
        values, malformed = _parsed_numbers(column)
        faults.rows(
            name, malformed, lambda i: f"expected a number, got {column[i].as_py()!r}.",
            "Write a plain decimal number, or leave the cell empty where there is none.",
        )  # fmt: skip
    elif pa.types.is_decimal(column.type) or (
        is_numeric(column.type) and not pa.types.is_boolean(column.type)
    ):
        is_null = nulls(column)
        values = _writable(pc.cast(column, pa.float64(), safe=False))
        malformed = np.zeros(len(values), bool)
    else:
        faults.whole(name, f"expected numbers, got {column.type}.", "Store it as double.")
        return None
    faults.rows(
        name, np.isnan(values) & ~is_null & ~malformed, "NaN is not a value.",
        "Leave the cell empty (null) where there is no number, or write the number.",
    )  # fmt: skip
    return Numbers(values, is_null)


def boolean_column(
    name: str, column: "pa.ChunkedArray", faults: FaultCollector
) -> BoolArray | None:
    """A column of booleans without nulls; None, with a fault, where the type can hold none.

    A cell at fault counts as true, so that it brings no second fault of its own about.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    is_null = nulls(column)
    if pa.types.is_boolean(column.type):
        values: BoolArray = pc.fill_null(column, fill_value=False).to_numpy()
        malformed = np.zeros(len(values), bool)
    elif is_text(column) or pa.types.is_integer(column.type):
        words = pc.utf8_lower(_trimmed(text_column(column)))
        is_true, is_false = (
            pc.fill_null(pc.is_in(words, value_set=pa.array(spelt)), fill_value=False).to_numpy()
            for spelt in (["true", "1"], ["false", "0"])
        )
        values, malformed = is_true, ~is_true & ~is_false & ~is_null
    else:
        faults.whole(name, f"expected booleans, got {column.type}.", "Store it as bool.")
        return None
    faults.rows(
        name, malformed | is_null, lambda i: f"expected true or false, got {_shown(column, i)}.",
        "Write true or false in every row.",
    )  # fmt: skip
    return values | malformed | is_null


def time_column(
    name: str, column: "pa.ChunkedArray", faults: FaultCollector
) -> "pa.ChunkedArray | None":
    """A column of instants in UTC, microseconds; None, with a fault, where it can hold none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    utc = pa.timestamp("us", "UTC")
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            faults.whole(
                name, "the timestamps have no time zone.",
                "Attach the zone they were written in; nothing here guesses UTC.",
            )  # fmt: skip
            return None
        times = pc.cast(column, utc, safe=False)
    elif is_text(column):
        times = _parsed_times(name, _trimmed(text_column(column)), faults)
    else:
        faults.whole(
            name, f"expected timestamps, got {column.type}.",
            "Store a timestamp with a time zone, or ISO 8601 text with an offset.",
        )  # fmt: skip
        return None
    return times


def context_column(
    name: str, column: "pa.ChunkedArray", faults: FaultCollector, *, infer: bool
) -> "pa.ChunkedArray | None":
    """A context column as numbers, text, booleans or lists of text.

    Args:
        name: Column, for messages.
        column: As found.
        faults: Gathers infinite numbers and types that cannot be context.
        infer: True for CSV: a column all of whose cells are numbers becomes numbers.
    """
    import pyarrow as pa

    if infer:
        column = _inferred(column)
    if is_text(column) or pa.types.is_null(column.type):
        found = text_column(column)
    elif pa.types.is_boolean(column.type):
        found = column
    elif is_list(column):
        found = column.cast(pa.list_(pa.string()))
    elif is_numeric(column.type):
        values = column.cast(pa.float64(), safe=False).to_numpy()
        faults.rows(
            name, np.isinf(values), "an infinite number.",
            "Write a finite number, or leave the cell empty.",
        )  # fmt: skip
        found = pa.chunked_array([pa.array(values, from_pandas=True)], type=pa.float64())
    else:
        faults.whole(name, f"{column.type} cannot be context.", "Store number, text or boolean.")
        return None
    return found


def _inferred(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    words = _trimmed(column)
    values, malformed = _parsed_numbers(words)
    is_null = nulls(words)
    if malformed.any() or is_null.all():
        return column
    return pa.chunked_array([pa.array(values, mask=is_null | np.isnan(values))])


def is_list(column: "pa.ChunkedArray") -> bool:
    """True if the cells are Arrow lists."""
    import pyarrow as pa

    kind = column.type
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def is_numeric(kind: "pa.DataType") -> bool:
    """True for numbers and booleans."""
    import pyarrow as pa

    return bool(
        pa.types.is_boolean(kind) or pa.types.is_floating(kind) or pa.types.is_integer(kind)
    )


def is_text(column: "pa.ChunkedArray") -> bool:
    """True if the cells are text."""
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _trimmed(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    # An empty or blank cell and the word null all say the same: there is nothing here.
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.utf8_trim_whitespace(column.cast(pa.string()))
    blank = pc.is_in(words, value_set=pa.array(["", "null"]))
    return pc.if_else(blank, pa.scalar(None, pa.string()), words)


def _writable(column: "pa.ChunkedArray") -> FloatArray:
    return np.array(column.to_numpy(), dtype=np.float64)


def _parsed_numbers(column: "pa.ChunkedArray") -> tuple[FloatArray, BoolArray]:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        values = _writable(pc.cast(column, pa.float64()))
    except pa.ArrowInvalid:
        words = column.to_pylist()
        values = np.array([_number(word) for word in words], np.float64)
        malformed = np.array(
            [word is not None and _number(word) != _number(word) and word.lower() != "nan"
             for word in words], bool,
        )  # fmt: skip
        return values, malformed
    return values, np.zeros(len(values), bool)


def _number(word: str | None) -> float:
    # Python reads 1_000 as a number; a log that says so was not written by a machine.
    if word is None or "_" in word:
        return float("nan")
    try:
        return float(word)
    except ValueError:
        return float("nan")


def _parsed_times(
    name: str, column: "pa.ChunkedArray", faults: FaultCollector
) -> "pa.ChunkedArray":
    import pyarrow as pa
    import pyarrow.compute as pc

    utc = pa.timestamp("us", "UTC")
    try:
        # Through nanoseconds, which allow seven digits of a second, as .NET writes them.
        return pc.cast(pc.cast(column, pa.timestamp("ns", "UTC")), utc, safe=False)
    except pa.ArrowInvalid:
        words = column.to_pylist()
    times = [None if word is None else _instant(word) for word in words]
    naive = np.array([isinstance(t, datetime) and t.tzinfo is None for t in times], bool)
    broken = np.array([isinstance(time, str) for time in times], bool)
    faults.rows(
        name, broken, lambda i: f"expected a time in ISO 8601, got {words[i]!r}.",
        "Write it like 2026-01-31T08:00:00Z.",
    )  # fmt: skip
    faults.rows(
        name, naive, lambda i: f"{words[i]!r} has no offset from UTC.",
        "Append Z for UTC, or the offset it was written in; nothing here guesses.",
    )  # fmt: skip
    kept = [
        time if isinstance(time, datetime) and time.tzinfo is not None else None for time in times
    ]
    return pa.chunked_array([pa.array(kept, utc)])


def _instant(word: str) -> datetime | str:
    try:
        return datetime.fromisoformat(word)
    except ValueError:
        return word


def _shown(column: "pa.ChunkedArray", index: int) -> str:
    value = column[index].as_py()
    return "nothing" if value is None else repr(value)
