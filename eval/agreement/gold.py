"""Where gold labels come from: who gave each, when, and whether a person did."""

import datetime as dt
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from canopy.domain.clearance import DimensionClearance
from canopy.domain.errors import InputError
from canopy.domain.ids import canonical_json, content_hash
from eval.agreement.admission import is_missing
from eval.agreement.rating_files import read_columns

HUMAN: Final = "human"
SOURCES: Final = (HUMAN, "authored", "model")
"""Given by a person who rated what others wrote, by whoever wrote it, or by a model."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who gave a column of labels.

    Attributes:
        is_human: Shape (n,). Whether a person gave the label, and it is said who and when.
        raters: The people, sorted.
        dated_from: Day of their first label, as YYYY-MM-DD; None without one.
        dated_to: Day of their last.
    """

    is_human: tuple[bool, ...]
    raters: tuple[str, ...]
    dated_from: str | None
    dated_to: str | None


def read_provenance(path: Path, column: str) -> Provenance:
    """Who gave the labels of a column: `COLUMN_source`, `COLUMN_rater` and `COLUMN_date`.

    Args:
        path: The CSV file.
        column: The column of labels.

    Raises:
        InputError: If a column is missing, a source is none of `SOURCES`, or a date is none; row
            and column are named.
    """
    names = [f"{column}_{fact}" for fact in ("source", "rater", "date")]
    sources, raters, dates = read_columns(path, names)
    humans, people, days = [], set(), set()
    for number, (source, rater, date) in enumerate(zip(sources, raters, dates, strict=True), 1):
        if source and source not in SOURCES:
            raise InputError(
                f"{path}, row {number}, column {names[0]}", f"{source!r} is no source.",
                f"Write one of {', '.join(SOURCES)}.",
            )  # fmt: skip
        day = _day(path, number, names[2], date) if date else None
        is_human = source == HUMAN and bool(rater) and day is not None
        humans.append(is_human)
        if is_human and day is not None:
            people.add(rater)
            days.add(day)
    return Provenance(
        tuple(humans), tuple(sorted(people)), min(days, default=None), max(days, default=None)
    )


def _day(path: Path, number: int, column: str, date: str) -> str:
    try:
        return dt.datetime.fromisoformat(date).date().isoformat()
    except ValueError as error:
        raise InputError(
            f"{path}, row {number}, column {column}", f"{date!r} is no date.", "Write YYYY-MM-DD."
        ) from error


def human_only(labels: Sequence[Any], provenance: Provenance) -> list[Any]:
    """The labels that people gave; None for the others, which clear nothing.

    Args:
        labels: Shape (n,).
        provenance: Of the same column.
    """
    return [
        label if is_human else None
        for label, is_human in zip(labels, provenance.is_human, strict=True)
    ]


def gold_hash(labels: Sequence[Any], cluster: Sequence[str] | None) -> str:
    """Content hash of gold labels in their order, with what each belongs to.

    Args:
        labels: Shape (n,). None where missing.
        cluster: Shape (n,). None where each is its own.
    """
    plain = [None if is_missing(label) else label for label in labels]
    return content_hash(canonical_json([plain, None if cluster is None else list(cluster)]))


def append_clearance(path: Path, row: DimensionClearance) -> None:
    """Add a row to a file of clearances, which are never taken back.

    Args:
        path: File of JSON lines; made where it is not there.
        row: What to add.

    Raises:
        InputError: If the file cannot be written, or its last line is torn.
    """
    line = canonical_json(row.document()) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size:
            with path.open("rb") as written:
                written.seek(-1, os.SEEK_END)
                if written.read(1) != b"\n":
                    raise InputError(
                        str(path), "ends within a line.", "Finish or remove its last line first."
                    )
        with path.open("a", encoding="utf-8") as stream:
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(
            str(path), f"cannot be written: {error.strerror}.", "Check the path and its rights."
        ) from error
