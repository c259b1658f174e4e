"""What must hold between the cells of a log; each rule says which rows break it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from canopy.logs import schema
from canopy.logs.cells import Numbers
from canopy.logs.columns import TypedLog
from canopy.logs.faults import BoolArray, FaultCollector
from canopy.logs.per_plan import PerPlan

if TYPE_CHECKING:
    import pyarrow as pa

_NO_DEFAULT: Final = (
    "Log the probability of the plan taken. There is no default: a known uniform logger is "
    "declared with --propensity-constant, a plan that was not drawn has drawn = false."
)


def check_rules(log: TypedLog, faults: FaultCollector) -> None:
    """Report every row that breaks a rule of the schema."""
    for rule in _RULES:
        rule(log, faults)


def _identities(log: TypedLog, faults: FaultCollector) -> None:
    for name in (schema.DECISION_ID, schema.UNIT_ID, schema.PLAN):
        if name in log.text:
            faults.rows(
                name, _empty(log.text[name]), "the cell is empty.", schema.BY_NAME[name].rule
            )
    if schema.DECISION_ID in log.text:
        _unique(log.text[schema.DECISION_ID], faults)


def _unique(column: "pa.ChunkedArray", faults: FaultCollector) -> None:
    import pyarrow.compute as pc

    # Empty ids are reported as empty, not as one another's twins.
    if pc.count_distinct(column).as_py() == len(column) - column.null_count:
        return
    words = column.to_pylist()
    first: dict[str, int] = {}
    twin = np.zeros(len(words), bool)
    for row, word in enumerate(words):
        if word is not None:
            twin[row] = first.setdefault(word, row) != row
    faults.rows(
        schema.DECISION_ID, twin,
        lambda i: f"{words[i]!r} is the decision of row {first[words[i]] + 1} already.",
        "Give every decision an id of its own, or drop the repeated row.",
    )  # fmt: skip


def _known_plans(log: TypedLog, faults: FaultCollector) -> None:
    if log.facts.plans is None or schema.PLAN not in log.text:
        return
    column = log.text[schema.PLAN]
    faults.rows(
        schema.PLAN, (log.action < 0) & ~_empty(column),
        lambda i: f"{column[i].as_py()!r} is none of the log's {len(log.facts.plans or ())} plans.",
        "Correct the id, or name the plans the log was made with.",
    )  # fmt: skip


def _propensity(log: TypedLog, faults: FaultCollector) -> None:
    found = log.numbers.get(schema.PROPENSITY)
    if found is None:
        return
    name = schema.PROPENSITY
    faults.rows(
        name, found.is_null & log.drawn, "the propensity of a drawn plan is missing.", _NO_DEFAULT
    )
    _within(log, faults, name, "greater than 0 and at most 1", lambda v: (v > 0) & (v <= 1))
    faults.rows(
        name, ~found.is_null & ~log.drawn,
        lambda i: f"{found.values[i]:.6g}, though drawn is false.",
        "Leave it empty: a plan that was not drawn has no propensity.",
    )  # fmt: skip


def _reward(log: TypedLog, faults: FaultCollector) -> None:
    lo, hi = log.facts.reward_range
    _within(
        log, faults, schema.REWARD, f"within the declared range {lo:g} to {hi:g}",
        lambda v: (v >= lo) & (v <= hi),
        "Correct it, or declare the range with --range LO HI; nothing is clipped.",
    )  # fmt: skip


def _one_number(log: TypedLog, faults: FaultCollector) -> None:
    _within(log, faults, schema.KEEP_PROB, "greater than 0 and at most 1",
            lambda v: (v > 0) & (v <= 1))  # fmt: skip
    _within(log, faults, schema.TARGET_PROPENSITY, "between 0 and 1", lambda v: (v >= 0) & (v <= 1))
    _within(log, faults, schema.Q, "a finite number", np.isfinite)
    always = np.ones(log.n_rows, bool)
    for name, needed in (
        (schema.KEEP_PROB, always),
        (schema.TARGET_PROPENSITY, log.drawn),
        (schema.Q, log.drawn),
    ):
        if name in log.numbers:
            faults.rows(
                name, log.numbers[name].is_null & needed, "the cell is empty.",
                schema.BY_NAME[name].rule,
            )  # fmt: skip


def _feasible(log: TypedLog, faults: FaultCollector) -> None:
    found = log.per_plan.get(schema.FEASIBLE)
    if found is None:
        return
    name = schema.FEASIBLE
    faults.rows(name, found.is_null, "the cell is empty.", "Say for each plan if it was feasible.")
    odd = ~found.is_null & ~((found.values == 0) | (found.values == 1)).all(axis=1)
    faults.rows(name, odd, "expected only true and false.", "Write true or false for each plan.")
    taken = _at(found.values, log.action)
    plan = log.text.get(schema.PLAN)
    faults.rows(
        schema.PLAN, log.drawn & (log.action >= 0) & (taken == 0),
        lambda i: f"{'' if plan is None else plan[i].as_py()!r} is not feasible on this row.",
        "A drawn plan lies in its feasible set: correct feasible, or mark the row drawn = false.",
    )  # fmt: skip


def _distributions(log: TypedLog, faults: FaultCollector) -> None:
    for name, single in (
        (schema.PROPENSITIES, schema.PROPENSITY),
        (schema.TARGET_PROPENSITIES, schema.TARGET_PROPENSITY),
    ):
        if name in log.per_plan:
            _distribution(log, faults, name, log.numbers.get(single), single)


def _distribution(
    log: TypedLog, faults: FaultCollector, name: str, single: Numbers | None, single_name: str
) -> None:
    found = log.per_plan[name]
    faults.rows(
        name, found.is_null & log.drawn, "the cell is empty.",
        "Log the whole distribution of every drawn row, or drop the column.",
    )  # fmt: skip
    with np.errstate(invalid="ignore"):
        bad = ~found.is_null & ~((found.values >= 0) & (found.values <= 1)).all(axis=1)
    faults.rows(name, bad, "expected probabilities between 0 and 1.", "Correct the numbers.")
    sound = ~found.is_null & ~bad
    leak = sound & _mass_outside(log, found)
    faults.rows(
        name, leak, "probability on a plan that was not feasible.",
        "Set it to exactly 0 there and renormalise over the feasible plans.",
    )  # fmt: skip
    total = found.values.sum(axis=1)
    faults.rows(
        name, sound & ~leak & (np.abs(total - 1) > schema.SUM_TOLERANCE),
        lambda i: f"sums to {total[i]:.9g}, not 1.", "Renormalise over the feasible plans.",
    )  # fmt: skip
    if single is None:
        return
    taken = _at(found.values, log.action)
    known = sound & ~single.is_null & (log.action >= 0)
    differs = known & ~np.isclose(taken, single.values, schema.AGREEMENT, 0)
    faults.rows(
        name, differs,
        lambda i: f"{taken[i]:.9g} at the plan taken, {single_name} says {single.values[i]:.9g}.",
        "Both must be the probability from which the plan was drawn.",
    )  # fmt: skip


def _predictions(log: TypedLog, faults: FaultCollector) -> None:
    found = log.per_plan.get(schema.Q_ALL)
    if found is None:
        return
    feasible = log.per_plan.get(schema.FEASIBLE)
    needed = np.ones_like(found.values, bool) if feasible is None else feasible.values > 0
    faults.rows(
        schema.Q_ALL, log.drawn & ~(np.isfinite(found.values) | ~needed).all(axis=1),
        "a feasible plan has no finite prediction.", "Predict for every feasible plan.",
    )  # fmt: skip


_RULES: Final[tuple[Callable[[TypedLog, FaultCollector], None], ...]] = (
    _identities,
    _known_plans,
    _propensity,
    _reward,
    _one_number,
    _feasible,
    _distributions,
    _predictions,
)


def _within(
    log: TypedLog,
    faults: FaultCollector,
    name: str,
    expected: str,
    holds: Callable[[npt.NDArray[np.float64]], BoolArray],
    remedy: str = "Correct the number or drop the row.",
) -> None:
    found = log.numbers.get(name)
    if found is None:
        return
    # NaN here is either an empty cell, judged elsewhere, or has its own fault already.
    bad = ~np.isnan(found.values) & ~holds(found.values)
    faults.rows(name, bad, lambda i: f"expected {expected}, got {found.values[i]:.6g}.", remedy)


def _empty(column: "pa.ChunkedArray") -> BoolArray:
    import pyarrow.compute as pc

    blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)
    found: BoolArray = pc.fill_null(blank, fill_value=True).to_numpy()
    return found


def _at(values: npt.NDArray[np.float64], action: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    # Value at the plan taken; NaN where the plan is not known.
    if values.shape[1] == 0:
        return np.full(len(action), np.nan)
    taken = values[np.arange(len(action)), np.maximum(action, 0)]
    return np.where(action >= 0, taken, np.nan)


def _mass_outside(log: TypedLog, found: PerPlan) -> BoolArray:
    feasible = log.per_plan.get(schema.FEASIBLE)
    if feasible is None:
        return np.zeros(log.n_rows, bool)
    outside: BoolArray = ((feasible.values == 0) & (found.values > 0)).any(axis=1)
    return outside
