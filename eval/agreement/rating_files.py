"""Ratings from a CSV file: one row per item, a column per rater."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canopy.domain.errors import InputError


@dataclass(frozen=True, slots=True)
class RatingFile:
    """Ratings as a file has them.

    Attributes:
        ratings: One list of labels per rater, in the order asked for; None where blank.
        cluster: Cluster of each item; None where no column was named.
        scale: The declared scale, as numbers where all of its labels are.
    """

    ratings: tuple[list[Any], ...]
    cluster: list[str] | None
    scale: tuple[Any, ...]


def scale_labels(text: str) -> tuple[Any, ...]:
    """The labels of a scale written `1,2,3,4,5` or `bad,fair,good`.

    Returns:
        Numbers where every label is one, else texts.
    """
    words = [word.strip() for word in text.split(",")]
    numbers = [_number(word) for word in words]
    return tuple(words) if None in numbers else tuple(numbers)


def read_ratings(
    path: Path, raters: Sequence[str], scale: tuple[Any, ...], cluster: str | None = None
) -> RatingFile:
    """Read raters' labels.

    Args:
        path: The CSV file, with a header.
        raters: Columns of labels.
        scale: Of `scale_labels`; on a scale of numbers `4.0` is the label 4.
        cluster: Column of what is independent; None makes each item its own.

    Raises:
        InputError: If the file cannot be read, is not UTF-8, has no rows, lacks a column or
            names one twice, a row has more or fewer cells than the header, or a label is not of
            the scale; row (from 1, the header not counted) and column are named.
    """
    header, rows = read_table(path)
    _require_columns(path, header, [*raters, *([cluster] if cluster else [])])
    is_number = all(not isinstance(label, str) for label in scale)
    found: list[list[Any]] = []
    for rater in raters:
        place = header.index(rater)
        found.append([
            _label(path, number, rater, row[place], scale, is_number=is_number)
            for number, row in enumerate(rows, 1)
        ])
    grouped = None
    if cluster is not None:
        place = header.index(cluster)
        grouped = [
            _cluster(path, number, cluster, row[place]) for number, row in enumerate(rows, 1)
        ]
    return RatingFile(tuple(found), grouped, scale)


def read_columns(path: Path, columns: Sequence[str]) -> tuple[list[str], ...]:
    """Columns as texts, without blanks around them.

    Args:
        path: The CSV file, with a header.
        columns: Their names.

    Raises:
        InputError: If the file cannot be read, has no rows, or lacks a column or has it twice.
    """
    header, rows = read_table(path)
    _require_columns(path, header, columns)
    places = [header.index(column) for column in columns]
    return tuple([row[place].strip() for row in rows] for place in places)


def read_numbers(path: Path, column: str) -> list[float | None]:
    """A column of numbers; None where blank.

    Args:
        path: The CSV file, with a header.
        column: Its name.

    Raises:
        InputError: If the file cannot be read, lacks the column, or a cell is no finite number.
    """
    found: list[float | None] = []
    for number, cell in enumerate(read_columns(path, [column])[0], 1):
        value = _number(cell) if cell else None
        if cell and value is None:
            raise InputError(
                f"{path}, row {number}, column {column}", f"{cell!r} is no finite number.",
                "Correct it, or leave it blank where it is missing.",
            )  # fmt: skip
        found.append(value)
    return found


def _require_columns(path: Path, header: list[str], columns: Sequence[str]) -> None:
    for column in columns:
        if header.count(column) != 1:
            raise InputError(
                str(path),
                f"{'has no' if column not in header else 'has more than one'} column {column!r}.",
                f"Its columns are {', '.join(header)}.",
            )


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV file.

    Args:
        path: The file, in UTF-8.

    Raises:
        InputError: If it cannot be read, has no rows, or a row has another number of cells than
            the header.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            table = [row for row in csv.reader(lines, strict=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read: {error}.", "Name a CSV file.") from error
    if len(table) < 2:  # noqa: PLR2004 - a header and one row
        raise InputError(str(path), "has no rows.", "Give a header, and one row per item.")
    header, rows = table[0], table[1:]
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise InputError(
                f"{path}, row {number}",
                f"has {len(row)} cells, the header {len(header)}.",
                "Quote a cell that holds a comma.",
            )
    return header, rows


def _label(
    path: Path, number: int, column: str, cell: str, scale: tuple[Any, ...], *, is_number: bool
) -> Any:
    text = cell.strip()
    if not text:
        return None
    label = _number(text) if is_number else text
    if label not in scale:
        raise InputError(
            f"{path}, row {number}, column {column}",
            f"{text!r} is not of the scale {', '.join(map(str, scale))}.",
            "Correct it, leave it blank where it is missing, or declare the whole scale.",
        )
    return label


def _cluster(path: Path, number: int, column: str, cell: str) -> str:
    if not cell.strip():
        raise InputError(
            f"{path}, row {number}, column {column}", "is blank.", "Say what the item belongs to."
        )
    return cell.strip()


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if number != number or number in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN alone
        return None
    return int(number) if number.is_integer() else number
