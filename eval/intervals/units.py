"""Units: rows of one unit stand or fall together, so they are summed before anything else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from canopy.domain.errors import ShapeMismatchError
from policy.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Units:
    """Which unit each row belongs to.

    Attributes:
        codes: Shape (n,). Number of each row's unit, from 0, in order of first appearance.
        n_units: How many there are.
    """

    codes: IntArray
    n_units: int

    def sums(self, values: FloatArray) -> FloatArray:
        """Sums by unit.

        Args:
            values: Shape (n,) or (n, c).

        Returns:
            Shape (n_units,) or (n_units, c).
        """
        if values.ndim == 1:
            summed = np.bincount(self.codes, weights=values, minlength=self.n_units)
            return np.asarray(summed, dtype=np.float64)
        each = [self.sums(values[:, column]) for column in range(values.shape[1])]
        return np.stack(each, axis=1)


def units_of(labels: "Units | Sequence[Any] | np.ndarray[Any, Any] | None", n_rows: int) -> Units:
    """The units of rows.

    Args:
        labels: Shape (n,). Unit of each row, anything hashable; None makes each row its own.
            Units found before are taken as they are.
        n_rows: Rows there must be.

    Raises:
        ShapeMismatchError: If there is not one label per row.
    """
    if labels is None:
        return Units(np.arange(n_rows, dtype=np.intp), n_rows)
    if isinstance(labels, Units):
        if len(labels.codes) != n_rows:
            raise ShapeMismatchError("units", labels.codes.shape, (n_rows,))
        return labels
    if np.shape(labels) != (n_rows,):
        raise ShapeMismatchError("units", tuple(np.shape(labels)), (n_rows,))
    numbered: dict[Any, int] = {}
    words = labels.tolist() if isinstance(labels, np.ndarray) else labels
    codes = [numbered.setdefault(word, len(numbered)) for word in words]
    return Units(np.array(codes, dtype=np.intp), len(numbered))


def unit_means(values: FloatArray, labels: Sequence[Any] | np.ndarray[Any, Any]) -> FloatArray:
    """The mean of each unit's rows: what a sequence is fed, since rows of a unit are no news.

    Args:
        values: Shape (n,).
        labels: Shape (n,). Unit of each row, anything hashable.

    Returns:
        Shape (n_units,), in order of first appearance. A unit belongs into a sequence once its
        last row is in.

    Raises:
        ShapeMismatchError: If there is not one label per row.
    """
    grouped = units_of(labels, len(values))
    return grouped.sums(values) / grouped.sums(np.ones(len(values)))
