"""Column sums by unit of a log that is read in passing, in memory that stops growing.

As long as units are few, each has its own sums, and everything said of them is what it would be
with all rows at hand. Beyond, units are merged by their hash into groups, which are independent
too, so that errors by group are sound; and the bootstrap goes over to Poisson counts by unit.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from eval.intervals.poisson import Keys, poisson_sums
from policy.arrays import FloatArray

MOST_UNITS: Final = 2**17
GROUPS: Final = 2**16
MIN_REPLICATES: Final = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a ledger may hold.

    Attributes:
        most_units: Units kept apart; above, they are merged.
        groups: Groups they are merged into, a power of two.
        n_resamples: Replicates of the Poisson bootstrap.
        seed: Of its draws.
    """

    most_units: int = MOST_UNITS
    groups: int = GROUPS
    n_resamples: int = MIN_REPLICATES
    seed: int = 12345


class UnitLedger:
    """Sums of `n_columns` columns by unit.

    Attributes:
        is_merged: Whether units were too many to be kept apart.
        replicates: Shape (n_resamples, n_columns). Poisson replicates; None while units are kept
            apart.
    """

    def __init__(self, n_columns: int, limits: Limits) -> None:
        self._limits = limits
        self._codes: dict[int, int] = {}
        self._sums = np.zeros((64, n_columns))
        self.is_merged = False
        self.replicates: FloatArray | None = None

    @property
    def sums(self) -> FloatArray:
        """Sums by unit in order of first appearance, or by group: shape (n, n_columns)."""
        return self._sums if self.is_merged else self._sums[: len(self._codes)]

    @property
    def n_units(self) -> int | None:
        """Units seen; None where they were merged."""
        return None if self.is_merged else len(self._codes)

    def add(self, keys: Keys, columns: FloatArray) -> None:
        """Add rows.

        Args:
            keys: Shape (n,). A 64-bit hash of each row's unit.
            columns: Shape (n, n_columns).
        """
        if not len(keys):
            return
        if not self.is_merged:
            self._add_apart(keys, columns)
            if len(self._codes) > self._limits.most_units:
                self._merge()
            return
        self._add_merged(keys, columns)

    def _add_apart(self, keys: Keys, columns: FloatArray) -> None:
        import pandas as pd

        local, unique = pd.factorize(keys)
        codes = np.array(
            [self._codes.setdefault(key, len(self._codes)) for key in unique.tolist()], np.intp
        )
        if len(self._codes) > len(self._sums):
            grown = np.zeros((2 * len(self._codes), self._sums.shape[1]))
            grown[: len(self._sums)] = self._sums
            self._sums = grown
        self._sums[codes] += _sums_by(local, columns, len(unique))

    def _merge(self) -> None:
        keys = np.array(list(self._codes), dtype=np.uint64)
        sums, self._sums = self.sums, np.zeros((self._limits.groups, self._sums.shape[1]))
        self.is_merged, self._codes = True, {}
        self.replicates = np.zeros((self._limits.n_resamples, sums.shape[1]))
        self._add_merged(keys, sums)

    def _add_merged(self, keys: Keys, columns: FloatArray) -> None:
        group = (keys % np.uint64(self._limits.groups)).astype(np.intp)
        self._sums += _sums_by(group, columns, self._limits.groups)
        self.replicates = (0 if self.replicates is None else self.replicates) + poisson_sums(
            keys, columns, self._limits.seed, self._limits.n_resamples
        )


def unit_keys(labels: np.ndarray[Any, Any]) -> Keys:
    """A 64-bit hash of each label, the same wherever it stands.

    Args:
        labels: Shape (n,). Anything hashable; numbers and texts that read alike are one unit.
    """
    import pandas as pd

    if labels.dtype.kind in "iufb":
        labels = labels.astype(str).astype(object)
    codes, unique = pd.factorize(labels, use_na_sentinel=False)
    texts = np.array([str(label) for label in unique.tolist()], dtype=object)
    return np.asarray(pd.util.hash_array(texts, categorize=False)[codes], dtype=np.uint64)


def _sums_by(codes: np.ndarray[Any, Any], columns: FloatArray, n: int) -> FloatArray:
    each = [np.bincount(codes, weights=column, minlength=n) for column in columns.T]
    return np.stack(each, axis=1) if each else np.zeros((n, 0))
