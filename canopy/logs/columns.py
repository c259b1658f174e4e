"""Raw columns to a typed log: names judged, cells converted, the plan order settled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from canopy.logs import schema
from canopy.logs.cells import (
    Numbers,
    boolean_column,
    context_column,
    is_list,
    is_text,
    nulls,
    number_column,
    text_column,
    time_column,
)
from canopy.logs.faults import BoolArray, FaultCollector
from canopy.logs.per_plan import PerPlan, decoded, per_plan_column
from canopy.logs.schema import ColumnType, LogFacts
from canopy.logs.source import RawLog

if TYPE_CHECKING:
    import pyarrow as pa

_ABSENT: Final = {schema.Q_ALL: float("nan")}
"""What an object by plan id means by leaving a plan out; 0 where nothing is said here."""


@dataclass(frozen=True, slots=True)
class TypedLog:
    """A log whose cells have been read but not yet compared with each other.

    Attributes:
        n_rows: Rows.
        facts: What is true of the whole log; `plans` is settled.
        text: Text columns by name.
        times: Instants in UTC; None where the column could not be read.
        numbers: Columns of one number per row.
        per_plan: Columns of one number per plan and row.
        drawn: Shape (n,). False where the plan taken is not what the policy drew.
        action: Shape (n,). Index of the plan taken; -1 where it is none of the plans, or
            where no plans are known.
        context: Context columns by full name.
    """

    n_rows: int
    facts: LogFacts
    text: "Mapping[str, pa.ChunkedArray]"
    times: "pa.ChunkedArray | None"
    numbers: Mapping[str, Numbers]
    per_plan: Mapping[str, PerPlan]
    drawn: BoolArray
    action: npt.NDArray[np.int64]
    context: "Mapping[str, pa.ChunkedArray]"


def typed_log(
    raw: RawLog,
    faults: FaultCollector,
    *,
    plans: Sequence[str] | None,
    propensity_constant: float | None,
) -> TypedLog:
    """Convert every column, and settle the order of the plans.

    Args:
        raw: As opened.
        faults: Gathers everything that will not convert.
        plans: Plan ids in order as the caller states them; None takes the file's own.
        propensity_constant: Propensity of every drawn row as the caller declares it.
    """
    columns = _named(raw, faults, propensity_is_declared=propensity_constant is not None)
    times = None
    if schema.TS in columns:
        times = time_column(schema.TS, columns[schema.TS], faults)
        _refuse_nulls(schema.TS, times, columns[schema.TS], faults)
    text = {
        name: text_column(columns[name])
        for name, spec in schema.BY_NAME.items()
        if spec.type is ColumnType.TEXT and name in columns
    }
    lists = {
        name: decoded(name, columns[name], faults) if is_text(columns[name]) else columns[name]
        for name, spec in schema.BY_NAME.items()
        if spec.type in schema.PER_PLAN and name in columns
    }
    drawn = None
    if schema.DRAWN in columns:
        drawn = boolean_column(schema.DRAWN, columns[schema.DRAWN], faults)
    drawn = np.ones(raw.n_rows, bool) if drawn is None else drawn
    order = _plan_order(raw.facts.plans, plans, text.get(schema.PLAN), lists, faults)
    facts = replace(raw.facts, plans=order)
    numbers = {
        name: found
        for name, column in columns.items()
        if name.startswith(schema.COMPONENT_PREFIX)
        or (name in schema.BY_NAME and schema.BY_NAME[name].type is ColumnType.NUMBER)
        if (found := number_column(name, column, faults)) is not None
    }
    if propensity_constant is not None:
        facts = replace(facts, propensity_declared=True)
        numbers[schema.PROPENSITY] = _declared(
            numbers.get(schema.PROPENSITY), propensity_constant, drawn, faults
        )
    return TypedLog(
        n_rows=raw.n_rows,
        facts=facts,
        text=text,
        times=times,
        numbers=numbers,
        per_plan=_matrices(lists, order, faults),
        drawn=drawn,
        action=_actions(text.get(schema.PLAN), order, raw.n_rows),
        context=_context(columns, faults, infer=raw.is_text),
    )


def _named(
    raw: RawLog, faults: FaultCollector, *, propensity_is_declared: bool
) -> "dict[str, pa.ChunkedArray]":
    columns: dict[str, Any] = {}
    for name, column in raw.columns.items():
        if schema.is_known(name):
            columns[name] = column
            continue
        near = get_close_matches(name, schema.BY_NAME, n=1)
        renamed = f"Rename it to {near[0]}" if near else f"Name it {schema.CONTEXT_PREFIX}{name}"
        faults.whole(
            name or "(no name)", "a decision log has no such column.",
            f"{renamed} if that is what it holds, or drop it.",
        )  # fmt: skip
    for name in schema.MANDATORY:
        if name in columns or (name == schema.PROPENSITY and propensity_is_declared):
            continue
        remedy = f"Add it: {schema.BY_NAME[name].meaning}"
        if name == schema.PROPENSITY:
            remedy += (
                " There is no default. For a logger known to be uniform, declare the number with "
                "--propensity-constant."
            )
        faults.whole(name, "the column is missing.", remedy)
    return columns


def _refuse_nulls(
    name: str, times: "pa.ChunkedArray | None", found: "pa.ChunkedArray", faults: FaultCollector
) -> None:
    if times is None:
        return
    # A cell that would not convert has its own fault already; only empty ones are new.
    blank = nulls(found) if not is_text(found) else _blank(found)
    faults.rows(name, blank, "the cell is empty.", schema.BY_NAME[name].rule)


def _blank(column: "pa.ChunkedArray") -> BoolArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.fill_null(pc.utf8_trim_whitespace(column.cast(pa.string())), fill_value="")
    found: BoolArray = pc.is_in(words, value_set=pa.array(["", "null"])).to_numpy()
    return found


def _plan_order(
    own: tuple[str, ...] | None,
    stated: Sequence[str] | None,
    plan: "pa.ChunkedArray | None",
    lists: Mapping[str, Any],
    faults: FaultCollector,
) -> tuple[str, ...] | None:
    if stated is not None and own is not None and tuple(stated) != own:
        faults.whole(
            "(plans)", "the plans named differ from those in the file, or in another order.",
            "Leave --plans and --catalog away, or name the file's own plans in its order.",
        )  # fmt: skip
    order = own if stated is None else tuple(stated)
    if order is not None:
        if len(set(order)) != len(order):
            faults.whole("(plans)", "a plan id stands twice.", "Name each plan once.")
        return order
    ids: set[str] = set()
    for name, cells in lists.items():
        if not isinstance(cells, list):
            if is_list(cells):
                _refuse_unordered(name, faults)
                return None
            cells = cells.to_pylist()  # noqa: PLW2901 - structs become objects by plan id
        if any(isinstance(cell, list) for cell in cells):
            _refuse_unordered(name, faults)
            return None
        ids.update(*(cell for cell in cells if cell is not None))
    if not ids:
        return None
    taken = set() if plan is None else set(plan.unique().to_pylist()) - {None}
    return tuple(sorted(ids | taken))


def _refuse_unordered(name: str, faults: FaultCollector) -> None:
    faults.whole(
        name, "lists per plan, and nothing says in which order the plans stand.",
        "Name the order with --plans or --catalog, or write objects by plan id.",
    )  # fmt: skip


def _declared(
    found: Numbers | None, constant: float, drawn: BoolArray, faults: FaultCollector
) -> Numbers:
    if found is not None:
        contrary = ~found.is_null & drawn & ~np.isclose(found.values, constant, schema.AGREEMENT, 0)
        faults.rows(
            schema.PROPENSITY, contrary,
            lambda i: f"the log says {found.values[i]:.6g}, {constant:.6g} was declared.",
            "Leave --propensity-constant away: the log has propensities of its own.",
        )  # fmt: skip
    return Numbers(np.where(drawn, constant, np.nan), ~drawn)


def _matrices(
    lists: Mapping[str, Any], order: tuple[str, ...] | None, faults: FaultCollector
) -> dict[str, PerPlan]:
    if order is None:
        return {}
    return {
        name: per_plan_column(name, cells, order, faults, absent=_ABSENT.get(name, 0.0))
        for name, cells in lists.items()
    }


def _actions(
    plan: "pa.ChunkedArray | None", order: tuple[str, ...] | None, n_rows: int
) -> npt.NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if plan is None or order is None:
        return np.full(n_rows, -1)
    found = pc.fill_null(pc.index_in(plan, value_set=pa.array(order, pa.string())), fill_value=-1)
    action: npt.NDArray[np.int64] = found.to_numpy().astype(np.int64)
    return action


def _context(
    columns: "Mapping[str, pa.ChunkedArray]", faults: FaultCollector, *, infer: bool
) -> "dict[str, pa.ChunkedArray]":
    return {
        name: found
        for name, column in columns.items()
        if name.startswith(schema.CONTEXT_PREFIX)
        if (found := context_column(name, column, faults, infer=infer)) is not None
    }
