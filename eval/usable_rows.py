"""The rows of a log that off-policy estimates may use, as arrays, and how many were left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from canopy.domain.errors import LogError
from canopy.logs import schema
from canopy.logs.reserve import reserved_rows
from canopy.logs.tabular import DecisionLog
from eval.intervals.units import Units, units_of
from policy.arrays import BoolArray, FloatArray, IntArray

_UNKNOWN: Final = -1


class Split(StrEnum):
    """Which units of a log to look at."""

    ALL = "all"
    """Every unit."""
    RESERVE = "reserve"
    """The units kept back: no training of this platform read them."""
    TRAIN = "train"
    """The units that training may read."""


@dataclass(frozen=True, slots=True)
class UsableRows:
    """Rows with a propensity and a reward.

    Attributes:
        log: Those rows, in the log's order.
        positions: Shape (n,). Where each stood in the log handed in.
        reward: Shape (n,), in reward units.
        propensity: Shape (n,). Logging policy's probability of the plan taken.
        keep_prob: Shape (n,). Probability that the row was kept; None where every row was.
        units: Which unit each row belongs to.
        plans: Plan ids in the order of the matrices; None where the log names none.
        action: Shape (n,). Index of the plan taken; None without plans.
        feasible: Shape (n, n_plans): True = feasible; None without plans.
        logging: Shape (n, n_plans). Logging policy's distribution; None where not logged.
        n_log: Rows of the log handed in.
        n_rows: Rows looked at.
        n_null_propensity: Of these, left out because nothing was drawn.
        unmeasured: Positions of rows drawn but left out because their reward is unmeasured.
    """

    log: DecisionLog
    positions: IntArray
    reward: FloatArray
    propensity: FloatArray
    keep_prob: FloatArray | None
    units: Units
    plans: tuple[str, ...] | None
    action: IntArray | None
    feasible: BoolArray | None
    logging: FloatArray | None
    n_log: int
    n_rows: int
    n_null_propensity: int
    unmeasured: IntArray

    @property
    def n_null_reward(self) -> int:
        """Rows drawn but left out because their reward is unmeasured."""
        return len(self.unmeasured)

    @property
    def n(self) -> int:
        """Rows used."""
        return len(self.reward)

    @property
    def decisions(self) -> FloatArray:
        """Shape (n,). Decisions that each row stands for."""
        return np.ones(self.n) if self.keep_prob is None else 1 / self.keep_prob

    def at_taken(self, matrix: FloatArray | None) -> FloatArray | None:
        """A matrix's entries at the plans taken, shape (n,); None without a matrix."""
        if matrix is None or self.action is None:
            return None
        return np.asarray(matrix[np.arange(self.n), self.action])

    def distribution(self, name: str) -> FloatArray | None:
        """A column per plan that holds a distribution; None where a row used lacks it."""
        matrix = self.log.matrix(name)
        return None if matrix is None or np.isnan(matrix).any() else matrix


def usable_rows(
    log: DecisionLog,
    *,
    split: Split = Split.ALL,
    units: str | Sequence[Any] | npt.NDArray[Any] | None = None,
) -> UsableRows:
    """Pick the rows to estimate from.

    Args:
        log: A checked log.
        split: Which units to look at.
        units: What to resample: a column of the log, or shape (n_rows,) labels; None takes
            `unit_id`.

    Raises:
        LogError: If the log has no column of that name, or takes a plan it does not name.
        ShapeMismatchError: If there is not one label per row.
    """
    labels = _labels(log, units)
    looked_at = _in_split(log, split)
    reward = log.column(schema.REWARD)
    propensity = log.column(schema.PROPENSITY)
    drawn = looked_at & ~np.isnan(propensity)
    used = drawn & ~np.isnan(reward)
    rows = log.take(used)
    plans = rows.plans
    feasible = rows.matrix(schema.FEASIBLE)
    logging = rows.matrix(schema.PROPENSITIES)
    n = rows.n_rows
    positions = np.flatnonzero(used)
    return UsableRows(
        log=rows,
        positions=positions,
        reward=reward[used],
        propensity=propensity[used],
        keep_prob=rows.column(schema.KEEP_PROB) if rows.has(schema.KEEP_PROB) else None,
        units=units_of(labels[used], n),
        plans=plans,
        action=None if plans is None else _actions(rows.column(schema.PLAN), plans, positions),
        feasible=_feasible(feasible, n, plans),
        logging=None if logging is None or np.isnan(logging).any() else logging,
        n_log=log.n_rows,
        n_rows=int(looked_at.sum()),
        n_null_propensity=int((looked_at & np.isnan(propensity)).sum()),
        unmeasured=np.flatnonzero(drawn & np.isnan(reward)),
    )


def column_of(log: DecisionLog, name: str, place: str) -> npt.NDArray[Any]:
    """A column by its name, or by its context key.

    Args:
        log: The log.
        name: With or without the prefix of context columns.
        place: The option that named it, for errors.

    Raises:
        LogError: If the log has no such column.
    """
    for found in (name, schema.CONTEXT_PREFIX + name):
        if log.has(found):
            return log.column(found)
    known = ", ".join(log.table.column_names)
    raise LogError(place, f"the log has no column {name!r}.", f"It has: {known}.")


def _labels(
    log: DecisionLog, units: str | Sequence[Any] | npt.NDArray[Any] | None
) -> npt.NDArray[Any]:
    if units is None or isinstance(units, str):
        return column_of(log, units or schema.UNIT_ID, "--units")
    labels = np.empty(len(units), dtype=object)
    labels[:] = list(units)
    units_of(labels, log.n_rows)
    return labels


def _in_split(log: DecisionLog, split: Split) -> BoolArray:
    if split is Split.ALL:
        return np.ones(log.n_rows, dtype=np.bool_)
    reserved = reserved_rows(log)
    return reserved if split is Split.RESERVE else ~reserved


def _actions(taken: npt.NDArray[Any], plans: Sequence[str], positions: IntArray) -> IntArray:
    numbered = {plan: action for action, plan in enumerate(plans)}
    actions = np.array([numbered.get(plan, _UNKNOWN) for plan in taken.tolist()], dtype=np.intp)
    for row in np.flatnonzero(actions == _UNKNOWN):
        raise LogError(
            f"row {positions[row] + 1}, column {schema.PLAN}",
            f"{taken[row]!r} is none of the {len(plans)} plans.",
            "Name the plans that the log was made with.",
        )
    return actions


def _feasible(
    matrix: FloatArray | None, n_rows: int, plans: Sequence[str] | None
) -> BoolArray | None:
    if plans is None:
        return None
    if matrix is None:
        return np.ones((n_rows, len(plans)), dtype=np.bool_)
    return np.asarray(matrix > 0)
