"""Which rows choose and which train: split by unit, or by time."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from canopy.domain.errors import LogError
from canopy.domain.ids import unit_fraction
from policy.arrays import BoolArray
from training.config import SplitBy
from training.data.rows import TrainingRows, by_unit

VALIDATION_SALT: Final = "canopy.validation.v1"
"""Independent of the reserve's and of the folds'."""


@dataclass(frozen=True, slots=True)
class Split:
    """A rule that says of every row on which side it is.

    Attributes:
        by: By unit or by time.
        share: Share of validation: of units, or of the time's end by rows.
        cut: By time: the first moment of validation; None by unit.
    """

    by: SplitBy
    share: float
    cut: Any = None

    def is_validation(self, rows: TrainingRows) -> BoolArray:
        """Shape (n,): True where a row chooses and does not train."""
        if self.by is SplitBy.unit:
            place = by_unit(rows.unit, lambda u: unit_fraction(u, VALIDATION_SALT), np.float64)
            return np.asarray(place < self.share)
        return np.asarray(rows.ts >= self.cut)

    def new_units(self, beyond: TrainingRows, trained: set[str]) -> BoolArray:
        """Shape (n,): True where a validation row's unit does not train.

        By unit that is every row. By time a unit may come back, and its later rows would tell
        how well it is remembered.
        """
        if self.by is SplitBy.unit:
            return np.ones(len(beyond), dtype=np.bool_)
        return np.array([unit not in trained for unit in beyond.unit.tolist()], dtype=np.bool_)


def split_of(by: SplitBy, share: float, rows: TrainingRows) -> Split:
    """The rule for a log.

    Args:
        by: By unit or by time.
        share: Share of validation.
        rows: The log's rows, or a fair sample of them.
    """
    if by is SplitBy.unit or rows.ts is None:
        return Split(SplitBy.unit, share)
    ordered = np.sort(rows.ts)
    return Split(by, share, ordered[min(len(rows) - 1, int(len(rows) * (1 - share)))])


def split(rows: TrainingRows, share: float) -> tuple[TrainingRows, TrainingRows]:
    """Training and validation rows by unit; a unit is in one of them alone.

    Args:
        rows: The rows.
        share: Share of the units that choose.

    Raises:
        LogError: If one side is empty.
    """
    validation = Split(SplitBy.unit, share).is_validation(rows)
    refuse_empty_side(int((~validation).sum()), int(validation.sum()))
    return rows.take(~validation), rows.take(validation)


def refuse_empty_side(n_train: int, n_validation: int) -> None:
    """Refuse a split that leaves nothing to learn from, or nothing to choose by.

    Raises:
        LogError: If one side is empty.
    """
    if not n_train or not n_validation:
        raise LogError(
            "log", f"{n_train + n_validation} rows leave training or validation empty.",
            "Train on more units, or change `data.validation_share`.",
        )  # fmt: skip
