"""Labels as a file of JSON lines: added to at once, taken back by a line, never rewritten."""

import datetime as dt
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from canopy.domain.errors import InputError
from canopy.domain.ids import canonical_json
from eval.agreement.gold import HUMAN, SOURCES
from eval.labelling.items import Kind, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What one rater said of one item.

    Attributes:
        id: The item.
        kind: Whether it is a pair or a text on a scale.
        label: The scale's label, or for pairs the winning item: `a`, `b` or `tie`. None takes
            back what this rater said of it before.
        shown_first: The item whose text stood first; None where that is not known, or one text.
        rater: Who said so.
        date: When, as ISO 8601.
        source: One of `SOURCES`.
        scale: The whole scale.
        content: Content hash of what was read; None for labels made elsewhere.
        cluster: What the item belongs to.
    """

    id: str
    kind: Kind
    label: str | None
    shown_first: Side | None
    rater: str
    date: str
    source: str
    scale: tuple[str, ...]
    content: str | None
    cluster: str

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise InputError(
                f"label of {self.id!r}", f"{self.source!r} is no source.",
                f"Write one of {', '.join(SOURCES)}.",
            )  # fmt: skip
        if self.label is not None and self.label not in self.scale:
            raise InputError(
                f"label of {self.id!r}", f"{self.label!r} is not of {', '.join(self.scale)}.",
                "Give a label of the scale.",
            )  # fmt: skip
        check_rater(self.rater)
        try:
            dt.datetime.fromisoformat(self.date)
        except ValueError as error:
            raise InputError(
                f"label of {self.id!r}", f"{self.date!r} is no date.", "Write YYYY-MM-DD."
            ) from error


def check_rater(rater: str) -> None:
    """A rater is somebody.

    Args:
        rater: Who rates.

    Raises:
        InputError: If the name is blank, has commas or line ends, or is that of a source or a
            column.
    """
    if not rater.strip() or rater != rater.strip() or any(c in rater for c in ',"\n\r'):
        raise InputError("rater", f"{rater!r} is no name.", "Name a person, without commas.")
    if rater in {*SOURCES, "id", "cluster"}:
        raise InputError("rater", f"{rater!r} names nobody.", "Name the person who rates.")


def read_labels(path: Path, *, repair: bool = False) -> list[Label]:
    """Everything a file of labels says, in its order; nothing where it is not there.

    Args:
        path: The file.
        repair: Whether to cut off a last line that a crash has torn; the whole lines stay.

    Raises:
        InputError: If a line is no label, or the last one is torn and not to be cut.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(
            str(path), f"cannot be read: {error.strerror}.", "Name a file of labels."
        ) from error
    whole, newline, torn = raw.rpartition(b"\n")
    if torn:
        if not repair:
            raise InputError(
                str(path), "ends within a line.", "Cut the torn line off with --repair."
            )
        write_whole(path, (whole + newline).decode("utf-8", errors="replace"))
    lines = (whole if newline else b"").split(b"\n")
    return [_label(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _label(path: Path, number: int, line: bytes) -> Label:
    try:
        document = json.loads(line)
        known = {field.name for field in fields(Label)}
        if not isinstance(document, dict) or set(document) != known:
            raise ValueError(f"expected {', '.join(sorted(known))}")  # noqa: TRY301 - told below
        return Label(**{**document, "scale": tuple(document["scale"])})
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path}:{number}", f"is no label: {error}.", "Restore the line as it was written."
        ) from error


def append_labels(path: Path, labels: Iterable[Label]) -> None:
    """Add labels, on disk before this returns.

    Args:
        path: File of JSON lines; made where it is not there.
        labels: What to add, in one write.

    Raises:
        InputError: If the file cannot be written.
    """
    text = "".join(canonical_json(asdict(label)) + "\n" for label in labels)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(
            str(path), f"cannot be written: {error.strerror}.", "Check the path and its rights."
        ) from error


def write_whole(path: Path, text: str) -> None:
    """Put a file in place whole or not at all.

    Args:
        path: The file.
        text: What it shall hold.

    Raises:
        InputError: If it cannot be written.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise InputError(
            str(path), f"cannot be written: {error.strerror}.", "Check the path and its rights."
        ) from error


def standing(labels: Iterable[Label]) -> dict[tuple[str, str], Label]:
    """What each rater says of each item in the end, by rater and item.

    Args:
        labels: Everything said, in its order.
    """
    found: dict[tuple[str, str], Label] = {}
    for label in labels:
        found.pop((label.rater, label.id), None)
        if label.label is not None:
            found[label.rater, label.id] = label
    return found


def long_rows(labels: Mapping[tuple[str, str], Label]) -> list[list[str]]:
    """One row per label, the header first.

    Args:
        labels: Of `standing`.
    """
    header = ["id", "cluster", "label", "rater", "date", "source"]
    return [header] + [
        [one.id, one.cluster, one.label or "", one.rater, one.date, one.source]
        for one in sorted(labels.values(), key=lambda one: (one.id, one.rater))
    ]


def wide_rows(labels: Mapping[tuple[str, str], Label]) -> list[list[str]]:
    """One row per item, the header first: a rater's labels in a column of its name.

    Beside each column stand who gave it, when, and what source that is, as `canopy judge
    agreement --record` asks for.

    Args:
        labels: Of `standing`.
    """
    raters = sorted({rater for rater, _ in labels})
    items = sorted({item for _, item in labels})
    header = ["id", "cluster"]
    for rater in raters:
        header += [rater, f"{rater}_rater", f"{rater}_date", f"{rater}_source"]
    rows = [header]
    for item in items:
        given = [labels.get((rater, item)) for rater in raters]
        row = [item, next(one.cluster for one in given if one is not None)]
        for one in given:
            row += ["", "", "", ""] if one is None else [
                one.label or "", one.rater, one.date, one.source,
            ]  # fmt: skip
        rows.append(row)
    return rows


def summary(labels: Mapping[tuple[str, str], Label]) -> dict[str, Any]:
    """How far raters are.

    Args:
        labels: Of `standing`.
    """
    raters = []
    for rater in sorted({rater for rater, _ in labels}):
        mine = [label for (who, _), label in labels.items() if who == rater]
        sources = sorted({label.source for label in mine})
        raters.append({
            "rater": rater,
            "n_labels": len(mine),
            "sources": sources,
            "is_human": sources == [HUMAN],
            "dated_from": min(label.date for label in mine),
            "dated_to": max(label.date for label in mine),
        })
    by_item: dict[str, int] = {}
    for _, item in labels:
        by_item[item] = by_item.get(item, 0) + 1
    return {
        "raters": raters,
        "n_items": len(by_item),
        "n_shared": sum(n > 1 for n in by_item.values()),
    }
