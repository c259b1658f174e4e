"""The rows that training may read: numbers only, and no reserved unit among them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy.domain.episode import is_reserved
from canopy.domain.errors import LogError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of a log's rows.

    Attributes:
        n_log: Rows of the log.
        n_reserved: Rows of reserved units, which no training reads.
        n_not_drawn: Rows without a propensity: what was served is not what was drawn.
        n_null_reward: Rows whose reward was never measured.
        n_single_feasible: Rows kept that had one feasible plan: nothing was chosen there.
    """

    n_log: int
    n_reserved: int
    n_not_drawn: int
    n_null_reward: int
    n_single_feasible: int


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
    """

    unit: NDArray[Any]
    context: Mapping[str, Any]
    action: IntArray
    feasible: BoolArray
    propensity: FloatArray
    keep_prob: FloatArray
    reward: FloatArray

    def __post_init__(self) -> None:
        for name, found in self._arrays().items():
            if found.shape[0] != len(self.unit):
                raise ShapeMismatchError(name, found.shape, (len(self.unit), *found.shape[1:]))
        # The loader drops them; nobody else may bring them back in.
        for row, unit in enumerate(self.unit.tolist()):
            if is_reserved(unit):
                raise LogError(
                    f"training row {row + 1}, unit_id",
                    f"{unit!r} is a reserved unit, kept back for evidence.",
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
            if part.name not in {"unit", "context"}
        }
        return arrays | {f"context column {name}": c for name, c in self.context.items()}
