"""Verdicts on pairs from a CSV file: one row per pair, a verdict per order."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from canopy.domain.errors import InputError

COLUMNS: Final = ("item_a", "item_b", "judge", "verdict_ab", "verdict_ba", "cluster")
OPTIONAL: Final = ("pair_id",)
NOT_JUDGED: Final = "none"
"""How a file says that an order was not judged; blank is a verdict that could not be read."""

_VERDICTS: Final = ("a", "b", "tie", "", NOT_JUDGED)


@dataclass(frozen=True, slots=True)
class Pair:
    """One row.

    Attributes:
        item_a: The first item.
        item_b: The second item, another one.
        judge: Who judged.
        verdict_ab: Verdict with item a shown first; blank where unreadable, None if not judged.
        verdict_ba: Verdict with item b shown first, likewise.
        cluster: What the pair belongs to, such as the prompt or the tenant.
    """

    item_a: str
    item_b: str
    judge: str
    verdict_ab: str | None
    verdict_ba: str | None
    cluster: str


def read_pairs(path: Path) -> list[Pair]:
    """Read pairs.

    Args:
        path: A CSV file in UTF-8 with the columns of `COLUMNS`, and `pair_id` if pairs have one.

    Raises:
        InputError: If the file cannot be read, has no rows, lacks a column, compares an item with
            itself, holds a word that is no verdict, or names a pair twice; row (from 1, the header
            not counted) and column are named.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            table = [row for row in csv.reader(lines, strict=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}.", "Name a CSV file.") from error
    header, rows = (table[0], table[1:]) if table else ([], [])
    if not rows:
        raise InputError(
            str(path), "has no rows.", f"Give a header of {', '.join(COLUMNS)}, and a row per pair."
        )
    for column in COLUMNS:
        if header.count(column) != 1:
            problem = "has no" if column not in header else "has more than one"
            raise InputError(
                str(path), f"{problem} column {column!r}.", f"Its columns: {', '.join(header)}."
            )
    seen: dict[str, int] = {}
    return [_pair(path, number, header, row, seen) for number, row in enumerate(rows, 1)]


def _pair(path: Path, number: int, header: list[str], row: list[str], seen: dict[str, int]) -> Pair:
    place = f"{path}, row {number}"
    if len(row) != len(header):
        raise InputError(
            place, f"has {len(row)} cells, the header {len(header)}.", "Quote cells with commas."
        )
    cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
    for column in ("item_a", "item_b", "judge", "cluster"):
        if not cells[column]:
            raise InputError(f"{place}, column {column}", "is blank.", "Say which.")
    if cells["item_a"] == cells["item_b"]:
        raise InputError(
            place, f"compares {cells['item_a']!r} with itself.", "Compare two different items."
        )
    name = cells.get("pair_id", "")
    if name and seen.setdefault(name, number) != number:
        raise InputError(
            f"{place}, column pair_id", f"{name!r} stands in row {seen[name]} too.",
            "Two orders are one row; give every pair an id of its own.",
        )  # fmt: skip
    verdicts = []
    for column in ("verdict_ab", "verdict_ba"):
        if cells[column] not in _VERDICTS:
            raise InputError(
                f"{place}, column {column}",
                f"{cells[column]!r} is no verdict.",
                "Write a, b or tie, which name items; blank where it could not be read, none "
                "where it was not judged.",
            )
        verdicts.append(None if cells[column] == NOT_JUDGED else cells[column])
    return Pair(
        cells["item_a"], cells["item_b"], cells["judge"], verdicts[0], verdicts[1], cells["cluster"]
    )
