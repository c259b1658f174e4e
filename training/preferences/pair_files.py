"""Verdicts on pairs from a CSV or Parquet file: one row per pair, a verdict per order."""

import csv
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from canopy.domain.errors import InputError
from policy.arrays import FloatArray
from training.preferences.pair_table import Names, PairTable
from training.preferences.swaps import NOT_JUDGED, TIE, UNPARSED, A, B, VerdictArray

COLUMNS: Final = ("item_a", "item_b", "judge", "verdict_ab", "verdict_ba", "cluster")
OPTIONAL: Final = ("pair_id",)
ABSENT: Final = "none"
"""How a file says that an order was not judged; blank is a verdict that could not be read."""

_WORDS: Final = {"a": A, "b": B, "tie": TIE, "": UNPARSED, ABSENT: NOT_JUDGED}


def read_pairs(path: Path, covariates: Sequence[str] = ()) -> PairTable:
    """Read pairs.

    Args:
        path: A CSV file in UTF-8, or a Parquet file (by its name's end), with the columns of
            `COLUMNS`, and `pair_id` if pairs have one.
        covariates: Names of measures; each stands in two columns, `NAME_a` and `NAME_b`.

    Raises:
        InputError: If the file cannot be read, has no rows, lacks a column, compares an item with
            itself, holds a word that is no verdict or a measure that is no number, or names a
            pair twice; row (from 1, the header not counted) and column are named.
    """
    read = _parquet if path.suffix == ".parquet" else _csv
    header, rows = read(path)
    if not rows or not rows[0]:
        raise InputError(
            str(path), "has no rows.", f"Give the columns {', '.join(COLUMNS)}, and a row per pair."
        )
    needed = [*COLUMNS, *(f"{name}_{side}" for name in covariates for side in "ab")]
    for column in needed:
        if header.count(column) != 1:
            problem = "has no" if column not in header else "has more than one"
            raise InputError(
                str(path), f"{problem} column {column!r}.", f"Its columns: {', '.join(header)}."
            )
    columns = {name: [cell.strip() for cell in rows[header.index(name)]] for name in needed}
    n = len(columns["item_a"])
    for name in ("item_a", "item_b", "judge", "cluster"):
        _require(path, name, columns[name], bool, "is blank.", "Say which.")
    for row, (a, b) in enumerate(zip(columns["item_a"], columns["item_b"], strict=True), 1):
        if a == b:
            raise InputError(
                f"{path}, row {row}", f"compares {a!r} with itself.", "Compare two different items."
            )
    if "pair_id" in header:
        _require_distinct(path, rows[header.index("pair_id")])
    items = Names.of([*columns["item_a"], *columns["item_b"]])
    return PairTable(
        items=items.names,
        item_a=items.numbers[:n],
        item_b=items.numbers[n:],
        verdict_ab=_verdicts(path, "verdict_ab", columns["verdict_ab"]),
        verdict_ba=_verdicts(path, "verdict_ba", columns["verdict_ba"]),
        judge=Names.of(columns["judge"]),
        cluster=Names.of(columns["cluster"]),
        covariates={
            name: _measures(path, f"{name}_a", columns[f"{name}_a"])
            - _measures(path, f"{name}_b", columns[f"{name}_b"])
            for name in covariates
        },
    )


def _csv(path: Path) -> tuple[list[str], list[tuple[str, ...]]]:
    """Header and columns of a CSV file.

    Raises:
        InputError: If it cannot be read, or a row has another number of cells.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            table = [row for row in csv.reader(lines, strict=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}.", "Name a CSV file.") from error
    header, rows = (table[0], table[1:]) if table else ([], [])
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise InputError(
                f"{path}, row {number}",
                f"has {len(row)} cells, the header {len(header)}.",
                "Quote cells with commas.",
            )
    return header, list(zip(*rows, strict=True))


def _parquet(path: Path) -> tuple[list[str], list[tuple[str, ...]]]:
    """Names and columns of a Parquet file, as texts; null is an order that was not judged.

    Raises:
        InputError: If it cannot be read.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(str(path), f"cannot be read: {error}.", "Name a Parquet file.") from error
    columns = []
    for name in table.column_names:
        null = ABSENT if name.startswith("verdict_") else ""
        cells = table.column(name).to_pylist()
        columns.append(tuple(null if cell is None else str(cell) for cell in cells))
    return table.column_names, columns


def _require(
    path: Path, column: str, cells: Iterable[str], holds: Callable[[str], Any], problem: str,
    remedy: str,
) -> None:  # fmt: skip
    for row, cell in enumerate(cells, 1):
        if not holds(cell):
            raise InputError(
                f"{path}, row {row}, column {column}", problem.format(cell=repr(cell)), remedy
            )


def _require_distinct(path: Path, names: Sequence[str]) -> None:
    seen: dict[str, int] = {}
    for row, cell in enumerate(names, 1):
        name = cell.strip()
        if name and seen.setdefault(name, row) != row:
            raise InputError(
                f"{path}, row {row}, column pair_id", f"{name!r} stands in row {seen[name]} too.",
                "Two orders are one row; give every pair an id of its own.",
            )  # fmt: skip


def _verdicts(path: Path, column: str, cells: Sequence[str]) -> VerdictArray:
    _require(
        path, column, cells, _WORDS.__contains__, "{cell} is no verdict.",
        f"Write a, b or tie, which name items; blank where it could not be read, {ABSENT} where it "
        "was not judged.",
    )  # fmt: skip
    return np.array([_WORDS[cell] for cell in cells], dtype=np.int8)


def _measures(path: Path, column: str, cells: Sequence[str]) -> FloatArray:
    _require(path, column, cells, _is_number, "{cell} is no finite number.", "Give one per pair.")
    return np.array([float(cell) for cell in cells])


def _is_number(cell: str) -> bool:
    try:
        return isfinite(float(cell))
    except ValueError:
        return False
