"""What is wrong with a log: collected over whole columns, reported by row and column."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

MAX_LISTED: Final = 20
"""Faults named one by one; the rest is counted per column."""

BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        row: Which row, counting from 1, the header not counted; None for a whole column.
        column: Which column.
        problem: What was expected and what came.
        remedy: What to do about it.
    """

    row: int | None
    column: str
    problem: str
    remedy: str

    @property
    def place(self) -> str:
        """Row and column in words."""
        if self.row is None:
            return f"column {self.column}"
        return f"row {self.row}, column {self.column}"


@dataclass(frozen=True, slots=True)
class LogCheck:
    """What a check found.

    Attributes:
        n_rows: Rows read.
        faults: At most `MAX_LISTED`, by row.
        counts: Number of faults by column, all of them counted.
    """

    n_rows: int
    faults: tuple[Fault, ...]
    counts: Mapping[str, int]

    @property
    def n_faults(self) -> int:
        """All faults, listed or not."""
        return sum(self.counts.values())

    @property
    def is_clean(self) -> bool:
        """True if the log may be used."""
        return not self.faults


@dataclass(slots=True)
class FaultCollector:
    """Gathers faults while columns are read; never more text than will be listed.

    Attributes:
        faults: Found so far.
        counts: Number of faults by column, those not kept included.
        numbers: Shape (n,). Number of each kept row in its file, where broken rows were left
            out while reading; None where rows simply count from 1.
    """

    faults: list[Fault] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    numbers: npt.NDArray[np.int64] | None = None
    _blamed: dict[str, BoolArray] = field(default_factory=dict)

    def whole(self, column: str, problem: str, remedy: str) -> None:
        """A fault of a column as a whole."""
        self.faults.append(Fault(None, column, problem, remedy))
        self.counts[column] = self.counts.get(column, 0) + 1

    def row(self, number: int, column: str, problem: str, remedy: str) -> None:
        """A fault of one row, by its number from 1."""
        self.counts[column] = self.counts.get(column, 0) + 1
        if self.counts[column] <= MAX_LISTED:
            self.faults.append(Fault(number, column, problem, remedy))

    def rows(
        self, column: str, bad: BoolArray, problem: str | Callable[[int], str], remedy: str
    ) -> None:
        """One fault for each row marked bad, but where the column has one there already.

        A cell that would not convert breaks every later rule too; only the first is said.

        Args:
            column: Which column.
            bad: Shape (n,). True where the row is at fault.
            problem: The words, or what makes them from a row's index (from 0).
            remedy: What to do about it.
        """
        if column in self._blamed:
            bad = bad & ~self._blamed[column]
            self._blamed[column] |= bad
        else:
            self._blamed[column] = bad.copy()
        n_bad = int(np.count_nonzero(bad))
        if n_bad == 0:
            return
        self.counts[column] = self.counts.get(column, 0) + n_bad
        for index in np.flatnonzero(bad)[:MAX_LISTED].tolist():
            words = problem if isinstance(problem, str) else problem(index)
            number = index + 1 if self.numbers is None else int(self.numbers[index])
            self.faults.append(Fault(number, column, words, remedy))

    def check(self, n_rows: int) -> LogCheck:
        """Everything found, the first rows first."""
        ordered = sorted(self.faults, key=lambda fault: fault.row or 0)
        return LogCheck(n_rows, tuple(ordered[:MAX_LISTED]), dict(self.counts))
