"""Columns with one number per plan: lists, or objects by plan id, to matrices and back."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from canopy.logs.cells import FloatArray, is_list, is_numeric, nulls, text_column
from canopy.logs.faults import BoolArray, FaultCollector

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PerPlan:
    """A column with one number per plan and row.

    Attributes:
        values: Shape (n, n_plans). NaN where null, absent or at fault.
        is_null: Shape (n,). True where the whole cell is empty.
    """

    values: FloatArray
    is_null: BoolArray


def per_plan_column(
    name: str,
    cells: "pa.ChunkedArray | list[Any]",
    plans: Sequence[str],
    faults: FaultCollector,
    *,
    absent: float,
) -> PerPlan:
    """A column per plan as a matrix in the order of the plans.

    Args:
        name: Column, for messages.
        cells: Arrow lists of numbers or booleans, or what `decoded` made of JSON cells.
        plans: Ids in order, n_plans of them.
        faults: Gathers rows of another length, with unknown ids, or with words for numbers.
        absent: What an object means by leaving a plan out.
    """
    if not isinstance(cells, list):
        found = _matrix_of_lists(cells, len(plans))
        if found is not None:
            return found
        cells = cells.to_pylist()
    index = {plan: position for position, plan in enumerate(plans)}
    values = np.full((len(cells), len(plans)), np.nan)
    is_null = np.array([cell is None for cell in cells], bool)
    problems: dict[int, str] = {}
    for row, cell in enumerate(cells):
        problem = None if cell is None else _fill(values[row], cell, index, absent)
        if problem is not None:
            problems[row] = problem
            values[row], is_null[row] = np.nan, True
    bad = np.zeros(len(cells), bool)
    bad[list(problems)] = True
    faults.rows(
        name, bad, lambda row: problems[row],
        f"Give {len(plans)} numbers in the order of the plans, or an object by plan id.",
    )  # fmt: skip
    return PerPlan(values, is_null)


def decoded(name: str, column: "pa.ChunkedArray", faults: FaultCollector) -> list[Any]:
    """JSON cells as lists, objects and None; a cell that is no JSON is a fault and None."""
    words = text_column(column).to_pylist()
    try:
        # One call of the decoder for all rows; the slow way only finds the broken one.
        cells: list[Any] = json.loads("[" + ",".join(word or "null" for word in words) + "]")
    except json.JSONDecodeError:
        cells = []
    if len(cells) == len(words) and all(cell is None or isinstance(cell, list | dict)
                                        for cell in cells):  # fmt: skip
        return cells
    cells = [_decode(word) for word in words]
    bad = np.array([isinstance(cell, str) for cell in cells], bool)
    faults.rows(
        name, bad, lambda i: f"expected a JSON list or object, got {words[i]!r}.",
        "Write [0.2, 0.8] in the order of the plans, or an object by plan id.",
    )  # fmt: skip
    return [None if isinstance(cell, str) else cell for cell in cells]


def list_column(matrix: npt.NDArray[Any], *, null: npt.NDArray[np.bool_] | None = None) -> Any:
    """A matrix as an Arrow column of lists, in chunks so that offsets never overflow.

    Args:
        matrix: Shape (n, n_plans), float64 or bool.
        null: Shape (n,). True where the list itself is missing; None for nowhere.
    """
    import pyarrow as pa

    n_rows, n_plans = matrix.shape
    step = max(1, 2**26 // max(n_plans, 1))
    chunks = []
    for start in range(0, n_rows, step):
        block = np.ascontiguousarray(matrix[start : start + step])
        offsets = np.arange(len(block) + 1, dtype=np.int32) * np.int32(n_plans)
        absent = None if null is None else pa.array(null[start : start + step])
        chunks.append(
            pa.ListArray.from_arrays(pa.array(offsets), pa.array(block.ravel()), mask=absent)
        )
    inner = pa.bool_() if matrix.dtype == np.bool_ else pa.float64()
    return pa.chunked_array(chunks, type=pa.list_(inner))


def _decode(word: str | None) -> Any:
    if word is None:
        return None
    try:
        cell = json.loads(word)
    except json.JSONDecodeError:
        return word
    return cell if cell is None or isinstance(cell, list | dict) else word


def _matrix_of_lists(column: "pa.ChunkedArray", n_plans: int) -> PerPlan | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_list(column) or not is_numeric(column.type.value_type):
        return None
    is_null = nulls(column)
    lengths = pc.fill_null(pc.list_value_length(column), n_plans).to_numpy()
    if (lengths != n_plans).any():
        return None
    flat = pc.list_flatten(column)
    if pa.types.is_boolean(column.type.value_type):
        flat = pc.cast(flat, pa.uint8())
    known = pc.cast(flat, pa.float64(), safe=False).to_numpy().reshape(-1, n_plans)
    if not is_null.any():
        return PerPlan(known, is_null)
    values = np.full((len(is_null), n_plans), np.nan)
    values[~is_null] = known
    return PerPlan(values, is_null)


def _fill(target: FloatArray, cell: Any, index: dict[str, int], absent: float) -> str | None:
    # Writes one row; returns what is wrong with it.
    if isinstance(cell, dict):
        unknown = [key for key in cell if key not in index]
        if unknown:
            return f"{unknown[0]!r} is none of the log's plans."
        given, places = list(cell.values()), [index[key] for key in cell]
        target[:] = absent
    else:
        given, places = cell, list(range(len(index)))
        if len(given) != len(index):
            return f"{len(given)} entries, the log has {len(index)} plans."
    if not all(value is None or isinstance(value, int | float) for value in given):
        return f"expected numbers, got {cell!r:.80}."
    target[places] = [absent if value is None else value for value in given]
    return None
