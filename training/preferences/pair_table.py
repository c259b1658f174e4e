"""Verdicts on pairs in columns: names once, numbers per row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from canopy.domain.errors import InputError, RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray
from training.preferences.swaps import (
    N_VERDICTS,
    NOT_JUDGED,
    SwapCounts,
    VerdictArray,
    joint_verdicts,
    read_verdicts,
    swap_counts,
    swap_numbers,
    tally_swaps,
)

_MOST_CELLS = 1_000_000

NumberArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Names:
    """A column of names, each stored once.

    Attributes:
        names: The distinct names.
        numbers: Shape (n,). Place of each row's name in `names`.
    """

    names: tuple[str, ...]
    numbers: NumberArray

    @classmethod
    def of(cls, values: Sequence[str]) -> "Names":
        """Names in the order in which they first appear.

        Args:
            values: Shape (n,). A name per row.
        """
        seen: dict[str, int] = {}
        numbers = np.fromiter(
            (seen.setdefault(value, len(seen)) for value in values), np.int32, len(values)
        )
        return cls(tuple(seen), numbers)

    def used(self) -> list[str]:
        """The names that some row has."""
        if len(self.names) == 1 and len(self.numbers):
            return list(self.names)
        counts = np.bincount(self.numbers, minlength=len(self.names))
        return [name for name, n in zip(self.names, counts.tolist(), strict=True) if n]

    def __getitem__(self, rows: BoolArray) -> "Names":
        return Names(self.names, self.numbers[rows])


@dataclass(frozen=True)
class PairTable:
    """Pairs of items, each judged in up to two orders.

    Attributes:
        items: The distinct items.
        item_a: Shape (n,). Place of each pair's first item in `items`.
        item_b: Shape (n,). Place of its second item, another one.
        verdict_ab: Shape (n,). Verdict with item a shown first, as `read_verdicts` numbers it.
        verdict_ba: Shape (n,). Verdict with item b shown first.
        judge: Who judged.
        cluster: What a pair belongs to, such as its prompt or tenant; pairs of different
            clusters are independent.
        covariates: By name, shape (n,): item a's value less item b's.
    """

    items: tuple[str, ...]
    item_a: NumberArray
    item_b: NumberArray
    verdict_ab: VerdictArray
    verdict_ba: VerdictArray
    judge: Names
    cluster: Names
    covariates: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.item_a)
        columns: dict[str, np.ndarray[Any, Any]] = {
            "item_b": self.item_b,
            "verdict_ab": self.verdict_ab,
            "verdict_ba": self.verdict_ba,
            "judge": self.judge.numbers,
            "cluster": self.cluster.numbers,
            **self.covariates,
        }
        for name, column in columns.items():
            if column.shape != (n,):
                raise ShapeMismatchError(name, column.shape, (n,))
        for name, numbers, n_names in (
            ("item_a", self.item_a, len(self.items)),
            ("item_b", self.item_b, len(self.items)),
            ("verdict_ab", self.verdict_ab, NOT_JUDGED + 1),
            ("verdict_ba", self.verdict_ba, NOT_JUDGED + 1),
            ("judge", self.judge.numbers, len(self.judge.names)),
            ("cluster", self.cluster.numbers, len(self.cluster.names)),
        ):
            # A negative number would wrap around to another item.
            if n and (numbers.min() < 0 or numbers.max() >= n_names):
                row = int(np.flatnonzero((numbers < 0) | (numbers >= n_names))[0])
                raise RangeError(
                    name, row + 1, int(numbers[row]), f"a number from 0 to {n_names - 1}"
                )
        itself = self.item_a == self.item_b
        if itself.any():
            row = int(np.argmax(itself))
            raise InputError(
                f"row {row + 1}",
                f"compares {self.items[self.item_a[row]]!r} with itself.",
                "Compare two different items.",
            )
        for name, column in self.covariates.items():
            for row in np.flatnonzero(~np.isfinite(column))[:1]:
                raise RangeError(name, int(row) + 1, float(column[row]), "a finite number")

    @classmethod
    def of(
        cls,
        item_a: Sequence[str],
        item_b: Sequence[str],
        verdict_ab: Sequence[str | None],
        verdict_ba: Sequence[str | None],
        *,
        judge: Sequence[str] | None = None,
        cluster: Sequence[str] | None = None,
        covariates: Mapping[str, Sequence[float]] | None = None,
    ) -> "PairTable":
        """A table from names and words.

        Args:
            item_a: Shape (n,). First item of each pair.
            item_b: Shape (n,). Second item.
            verdict_ab: Shape (n,). As for `swap_check`.
            verdict_ba: Shape (n,). As for `swap_check`.
            judge: Shape (n,). None where there is one judge.
            cluster: Shape (n,). None makes each pair its own.
            covariates: By name, shape (n,): item a's value less item b's.

        Raises:
            InputError: If a verdict is none, or an item is compared with itself.
            ShapeMismatchError: If the columns differ in length.
            RangeError: If a covariate is not finite.
        """
        n = len(item_a)
        if len(item_b) != n:
            raise ShapeMismatchError("item_b", (len(item_b),), (n,))
        both = Names.of([*item_a, *item_b])
        own = Names(tuple(str(row) for row in range(1, n + 1)), np.arange(n))
        return cls(
            items=both.names,
            item_a=both.numbers[:n],
            item_b=both.numbers[n:],
            verdict_ab=read_verdicts("verdict_ab", verdict_ab),
            verdict_ba=read_verdicts("verdict_ba", verdict_ba),
            judge=Names(("judge",), np.zeros(n, np.int32)) if judge is None else Names.of(judge),
            cluster=own if cluster is None else Names.of(cluster),
            covariates={
                name: np.asarray(column, dtype=np.float64)
                for name, column in (covariates or {}).items()
            },
        )

    def __len__(self) -> int:
        return len(self.item_a)

    def __getitem__(self, rows: BoolArray) -> "PairTable":
        """The pairs where `rows`, of shape (n,), is True; all names stay."""
        return PairTable(
            items=self.items,
            item_a=self.item_a[rows],
            item_b=self.item_b[rows],
            verdict_ab=self.verdict_ab[rows],
            verdict_ba=self.verdict_ba[rows],
            judge=self.judge[rows],
            cluster=self.cluster[rows],
            covariates={name: column[rows] for name, column in self.covariates.items()},
        )

    def of_judge(self, judge: str) -> "PairTable":
        """The pairs that one judge judged.

        Args:
            judge: Its name.

        Raises:
            InputError: If nobody of that name judged.
        """
        if judge not in self.judge.names:
            raise InputError(
                "judge", f"{judge!r} judged nothing.", f"Judges: {', '.join(self.judge.names)}."
            )
        return self[self.judge.numbers == self.judge.names.index(judge)]

    @cached_property
    def codes(self) -> VerdictArray:
        """Shape (n,). What each pair's two verdicts come to, as its place in `CODES`."""
        return swap_numbers(self.verdict_ab, self.verdict_ba)

    @cached_property
    def swaps(self) -> SwapCounts:
        """How many pairs came to what."""
        if self._histogram is not None:
            return swap_counts(self._histogram.sum(axis=(2, 3)))
        return tally_swaps(self.verdict_ab, self.verdict_ba)

    def count(self, verdict_ab: int | None, verdict_ba: int | None) -> FloatArray:
        """Shape (n, n). Pairs by item a (row) and item b (column) with certain verdicts.

        Args:
            verdict_ab: As `read_verdicts` numbers it; None for any.
            verdict_ba: Likewise.
        """
        n = len(self.items)
        if self._histogram is not None:
            ab = slice(None) if verdict_ab is None else slice(verdict_ab, verdict_ab + 1)
            ba = slice(None) if verdict_ba is None else slice(verdict_ba, verdict_ba + 1)
            chosen = self._histogram[ab, ba]
            return np.asarray(chosen.sum(axis=(0, 1)), dtype=np.float64)
        rows = np.ones(len(self), dtype=np.bool_)
        for column, verdict in ((self.verdict_ab, verdict_ab), (self.verdict_ba, verdict_ba)):
            if verdict is not None:
                rows &= column == verdict
        cells = self.item_a[rows].astype(np.int64) * n + self.item_b[rows]
        return np.bincount(cells, minlength=n * n).astype(np.float64).reshape(n, n)

    @cached_property
    def _histogram(self) -> npt.NDArray[np.int64] | None:
        """Shape (5, 5, n, n). Pairs by verdicts and items: one pass for all that is counted.

        None where that is more cells than a pass saves.
        """
        n = len(self.items)
        if n * n * N_VERDICTS**2 > _MOST_CELLS:
            return None
        cells = joint_verdicts(self.verdict_ab, self.verdict_ba).astype(np.intp) * n
        cells += self.item_a
        cells *= n
        cells += self.item_b
        found = np.bincount(cells, minlength=n * n * N_VERDICTS**2)
        return found.reshape(N_VERDICTS, N_VERDICTS, n, n)

    @property
    def n_clusters(self) -> int:
        """How many clusters have a pair here."""
        return len(self.cluster.used())
