"""The one form every accepted log takes, and the bytes that identify its content."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from canopy.logs import schema
from canopy.logs.cells import Numbers, nulls
from canopy.logs.columns import TypedLog
from canopy.logs.per_plan import list_column
from canopy.logs.schema import ColumnType

if TYPE_CHECKING:
    import pyarrow as pa


def canonical_table(log: TypedLog) -> "pa.Table":
    """The columns of a log without faults, typed and in the order of the schema."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for spec in schema.COLUMNS:
        column = _column(log, spec)
        if column is not None:
            columns[spec.name] = column
    columns |= {
        name: _numbers(found)
        for name, found in log.numbers.items()
        if name.startswith(schema.COMPONENT_PREFIX)
    }
    columns.update(log.context)
    return pa.table(columns)


def _column(log: TypedLog, spec: schema.Column) -> Any:
    import pyarrow as pa

    column: Any
    match spec.type:
        case ColumnType.TEXT:
            column = log.text.get(spec.name)
        case ColumnType.TIME:
            column = log.times
        case ColumnType.NUMBER:
            found = log.numbers.get(spec.name)
            column = None if found is None else _numbers(found)
        case ColumnType.BOOLEAN:
            # A log all of whose plans were drawn needs no column to say so.
            column = None if log.drawn.all() else pa.chunked_array([pa.array(log.drawn)])
        case ColumnType.NUMBERS:
            per_plan = log.per_plan.get(spec.name)
            column = (
                None if per_plan is None else list_column(per_plan.values, null=per_plan.is_null)
            )
        case _:
            per_plan = log.per_plan.get(spec.name)
            column = None if per_plan is None else list_column(per_plan.values > 0)
    return column


def _numbers(found: Numbers) -> "pa.ChunkedArray":
    import pyarrow as pa

    return pa.chunked_array([pa.array(found.values, pa.float64(), mask=found.is_null)])


def column_bytes(column: "pa.ChunkedArray") -> Iterator[bytes]:
    """Bytes that depend on a column's values alone, not on chunks, padding or file format."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_null = nulls(column)
    yield np.packbits(is_null).tobytes()
    kind = column.type
    if pa.types.is_list(kind):
        yield pc.fill_null(pc.list_value_length(column), fill_value=-1).to_numpy().tobytes()
        yield from column_bytes(pc.list_flatten(column))
    elif pa.types.is_string(kind):
        yield pc.fill_null(pc.binary_length(column), fill_value=-1).to_numpy().tobytes()
        yield "".join(column.drop_null().to_pylist()).encode()
    elif pa.types.is_timestamp(kind):
        yield pc.fill_null(pc.cast(column, pa.int64()), fill_value=0).to_numpy().tobytes()
    elif pa.types.is_boolean(kind):
        yield np.packbits(pc.fill_null(column, fill_value=False).to_numpy()).tobytes()
    else:
        # Adding 0 makes -0.0 equal to 0.0, and one NaN stands for all.
        values = pc.fill_null(column, fill_value=0.0).to_numpy() + 0.0
        yield np.where(np.isnan(values), np.nan, values).tobytes()
