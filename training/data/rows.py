"""The rows that training may read: numbers only, and no reserved unit among them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from canopy.domain.episode import is_reserved
from canopy.domain.errors import LogError, ShapeMismatchError
from canopy.domain.ids import unit_fraction
from policy.arrays import BoolArray, FloatArray, IntArray

FOLD_SALT: Final = "canopy.fold.v1"
"""Independent of the reserve's and of the split's: a unit's fold says nothing else of it."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of a log's rows.

    Attributes:
        n_log: Rows of the log.
        n_reserved: Rows of reserved units, which no training reads.
        n_not_drawn: Rows without a propensity: what was served is not what was drawn.
        n_null_reward: Rows whose reward was never measured.
        n_single_feasible: Rows kept that had one feasible plan: nothing was chosen there.
        n_known_units: Rows left out of a split by time: later ones of units that train.
    """

    n_log: int
    n_reserved: int
    n_not_drawn: int
    n_null_reward: int
    n_single_feasible: int
    n_known_units: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Counts(**sums)


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Logged decisions of units that are not reserved.

    Attributes:
        unit: Shape (n,) of text. Who each decision was about.
        context: Columns by key, each of shape (n,).
        action: Shape (n,). The logged plan.
        feasible: Shape (n, n_plans) bool: what was feasible then.
        propensity: Shape (n,), in (0, 1].
        keep_prob: Shape (n,), in (0, 1]: probability with which the row was kept.
        reward: Shape (n,), in reward units.
        ts: Shape (n,) datetime64 in UTC: when each was made; None where nobody asks.
    """

    unit: NDArray[Any]
    context: Mapping[str, Any]
    action: IntArray
    feasible: BoolArray
    propensity: FloatArray
    keep_prob: FloatArray
    reward: FloatArray
    ts: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name, found in self._arrays().items():
            if found.shape[0] != len(self.unit):
                raise ShapeMismatchError(name, found.shape, (len(self.unit), *found.shape[1:]))
        # The loader drops them; nobody else may bring them back in.
        reserved = by_unit(self.unit, is_reserved, np.bool_)
        if reserved.any():
            row = int(reserved.argmax())
            raise LogError(
                f"training row {row + 1}, unit_id",
                f"{self.unit[row]!r} is a reserved unit, kept back for evidence.",
                "Read logs through training.data.loader.load_rows.",
            )

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def has_choice(self) -> BoolArray:
        """Shape (n,): True where more than one plan was feasible."""
        alternatives: IntArray = np.count_nonzero(self.feasible, axis=1)
        return alternatives > 1

    def take(self, rows: BoolArray | IntArray) -> "TrainingRows":
        """Some of the rows, by a mask or by index."""
        return TrainingRows(
            unit=self.unit[rows],
            context={name: column[rows] for name, column in self.context.items()},
            **{
                name: values[rows]
                for name, values in self._arrays().items()
                if not name.startswith("context")
            },
        )

    def _arrays(self) -> dict[str, Any]:
        arrays = {
            part.name: getattr(self, part.name)
            for part in fields(self)
            if part.name not in {"unit", "context"} and getattr(self, part.name) is not None
        }
        return arrays | {f"context column {name}": c for name, c in self.context.items()}


def by_unit(units: NDArray[Any], rule: Callable[[str], Any], kind: type) -> NDArray[Any]:
    """What a rule says of each row's unit, shape (n,); each unit is asked once.

    Args:
        units: Shape (n,) of text.
        rule: Of a unit.
        kind: Type of the answers.
    """
    named = units.tolist()
    found = {unit: rule(unit) for unit in set(named)}
    return np.fromiter((found[unit] for unit in named), dtype=kind, count=len(named))


def fold_places(rows: TrainingRows) -> FloatArray:
    """Where each row's unit lies when units are cut into folds, shape (n,), in [0, 1)."""
    return by_unit(rows.unit, lambda unit: unit_fraction(unit, FOLD_SALT), np.float64)


def joined(parts: Sequence[TrainingRows]) -> TrainingRows:
    """Rows of several parts of one log, in their order.

    Args:
        parts: At least one; all have the same columns.
    """
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    arrays: dict[str, Any] = {
        part.name: np.concatenate([getattr(rows, part.name) for rows in parts])
        for part in fields(first)
        if part.name != "context" and getattr(first, part.name) is not None
    }
    context = {
        name: np.concatenate([rows.context[name] for rows in parts]) for name in first.context
    }
    return TrainingRows(context=context, **arrays)
