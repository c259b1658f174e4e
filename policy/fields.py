"""The four kinds of field: how one context value becomes columns of numbers.

Each encodes a single value and a whole column with the same bits. A missing value has a
column of its own, and so has a text that was unknown when the schema was fitted.
"""

import math
from collections import Counter
from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from canopy.domain.errors import FeatureError
from policy.arrays import FloatArray
from policy.columns import column_rows, number_column, number_value
from policy.encoding import category_value, hashed_words, members

Row: TypeAlias = MutableSequence[float] | FloatArray
"""One encoded context, to be filled in."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number, standardised; two columns: the value (0 where missing) and "missing"."""

    name: str
    mean: float
    scale: float

    @property
    def width(self) -> int:
        """Columns of the encoding."""
        return 2

    def fill(self, row: Row, start: int, value: object) -> None:
        """Encode one value into a row of zeros.

        Raises:
            FeatureError: If the value is no finite number.
        """
        number = number_value(self.name, value)
        if number is None:
            row[start + 1] = 1.0
            return
        scaled = (number - self.mean) / self.scale
        if not -math.inf < scaled < math.inf:
            raise FeatureError(
                f"`{self.name}`", "is infinite, or is once standardised.", "Pass finite numbers."
            )
        row[start] = scaled

    def fill_many(self, rows: FloatArray, start: int, values: object) -> None:
        """Encode a column into rows of zeros, with the bits of `fill`.

        Raises:
            FeatureError: If a value is no finite number.
        """
        numbers = number_column(self.name, values)
        missing = np.isnan(numbers)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (numbers - self.mean) / self.scale
        wrong = np.flatnonzero(~(np.isfinite(scaled) | missing))
        if len(wrong):
            raise FeatureError(
                f"`{self.name}`, row {wrong[0] + 1}",
                "is infinite, or is once standardised.",
                "Pass finite numbers.",
            )
        rows[:, start] = np.where(missing, 0.0, scaled)
        rows[:, start + 1] = missing

    def document(self) -> dict[str, Any]:
        """The field as plain values."""
        return {"kind": "number", "name": self.name, "mean": self.mean, "scale": self.scale}


@dataclass(frozen=True, slots=True)
class Category:
    """One of several texts, one column each, then "unknown" and "missing"."""

    name: str
    levels: tuple[str, ...]
    _slots: Mapping[str | None, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        slots: dict[str | None, int] = {level: i for i, level in enumerate(self.levels)}
        slots[None] = len(self.levels) + 1
        object.__setattr__(self, "_slots", slots)

    @property
    def width(self) -> int:
        """Columns of the encoding."""
        return len(self.levels) + 2

    def fill(self, row: Row, start: int, value: object) -> None:
        """Encode one value into a row of zeros."""
        text = category_value(self.name, value)
        row[start + self._slots.get(text, len(self.levels))] = 1.0

    def fill_many(self, rows: FloatArray, start: int, values: object) -> None:
        """Encode a column into rows of zeros, with the bits of `fill`."""
        unknown = len(self.levels)
        for row, value in enumerate(column_rows(self.name, values)):
            text = category_value(self.name, value, row)
            rows[row, start + self._slots.get(text, unknown)] = 1.0

    def document(self) -> dict[str, Any]:
        """The field as plain values."""
        return {"kind": "category", "name": self.name, "levels": list(self.levels)}


@dataclass(frozen=True, slots=True)
class Members:
    """Any number of texts, one column each, then "holds an unknown one" and "missing"."""

    name: str
    levels: tuple[str, ...]

    @property
    def width(self) -> int:
        """Columns of the encoding."""
        return len(self.levels) + 2

    def fill(self, row: Row, start: int, value: object) -> None:
        """Encode one value into a row of zeros."""
        self._fill(row, start, members(self.name, value))

    def fill_many(self, rows: FloatArray, start: int, values: object) -> None:
        """Encode a column into rows of zeros, with the bits of `fill`."""
        for row, value in enumerate(column_rows(self.name, values)):
            self._fill(rows[row], start, members(self.name, value, row))

    def _fill(self, row: Row, start: int, found: frozenset[str] | None) -> None:
        if found is None:
            row[start + len(self.levels) + 1] = 1.0
            return
        for position, level in enumerate(self.levels):
            if level in found:
                row[start + position] = 1.0
        if not found.issubset(self.levels):
            row[start + len(self.levels)] = 1.0

    def document(self) -> dict[str, Any]:
        """The field as plain values."""
        return {"kind": "set", "name": self.name, "levels": list(self.levels)}


@dataclass(frozen=True, slots=True)
class TextHash:
    """Free text as shares of its words over hash buckets, then "missing"."""

    name: str
    buckets: int

    @property
    def width(self) -> int:
        """Columns of the encoding."""
        return self.buckets + 1

    def fill(self, row: Row, start: int, value: object) -> None:
        """Encode one value into a row of zeros."""
        self._fill(row, start, hashed_words(self.name, value, self.buckets))

    def fill_many(self, rows: FloatArray, start: int, values: object) -> None:
        """Encode a column into rows of zeros, with the bits of `fill`."""
        for row, value in enumerate(column_rows(self.name, values)):
            self._fill(rows[row], start, hashed_words(self.name, value, self.buckets, row))

    def _fill(self, row: Row, start: int, found: list[int] | None) -> None:
        if found is None:
            row[start + self.buckets] = 1.0
            return
        for bucket, count in Counter(found).items():
            row[start + bucket] = count / len(found)

    def document(self) -> dict[str, Any]:
        """The field as plain values."""
        return {"kind": "text_hash", "name": self.name, "buckets": self.buckets}


Field: TypeAlias = Number | Category | Members | TextHash


def labels(item: Field) -> list[str]:
    """The meaning of each column of a item."""
    if isinstance(item, Number):
        meanings = ["value"]
    elif isinstance(item, TextHash):
        meanings = [f"bucket {bucket}" for bucket in range(item.buckets)]
    else:
        meanings = [*item.levels, "(unknown)"]
    return [f"{item.name}: {label}" for label in [*meanings, "(missing)"]]


def check_field(item: Field) -> None:
    """Refuse a field that cannot encode.

    Raises:
        FeatureError: If a scale is not positive, a level comes twice, or buckets are missing.
    """
    place = f"`{item.name}`"
    if isinstance(item, Number):
        if not (math.isfinite(item.mean) and math.isfinite(item.scale) and item.scale > 0):
            raise FeatureError(place, "has no finite mean and positive scale.", "Fit it again.")
    elif isinstance(item, TextHash):
        if item.buckets < 1:
            raise FeatureError(place, "has no bucket.", "Give it at least one.")
    elif len(set(item.levels)) != len(item.levels):
        raise FeatureError(place, "lists a level twice.", "Keep one of the two.")


_SHAPES: Final[Mapping[str, frozenset[str]]] = {
    "number": frozenset({"kind", "name", "mean", "scale"}),
    "category": frozenset({"kind", "name", "levels"}),
    "set": frozenset({"kind", "name", "levels"}),
    "text_hash": frozenset({"kind", "name", "buckets"}),
}


def read_field(position: int, entry: object) -> Field:
    """One field of a document.

    Raises:
        FeatureError: If it is none of the four kinds, with their keys and types.
    """
    place = f"feature schema, field {position + 1}"
    kind = entry.get("kind") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or set(entry) != set(_SHAPES.get(str(kind), ())):
        raise FeatureError(place, "is no field known here.", f"Kinds: {', '.join(_SHAPES)}.")
    name, levels = entry["name"], entry.get("levels", [])
    numbers = [entry[key] for key in ("mean", "scale", "buckets") if key in entry]
    is_typed = (
        isinstance(name, str)
        and isinstance(levels, list)
        and all(isinstance(level, str) for level in levels)
        and all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)
    )
    if not is_typed or not isinstance(entry.get("buckets", 1), int):
        raise FeatureError(place, "has values of wrong types.", "Fit the schema again.")
    if kind == "number":
        return Number(name, float(entry["mean"]), float(entry["scale"]))
    if kind == "text_hash":
        return TextHash(name, entry["buckets"])
    return (Category if kind == "category" else Members)(name, tuple(levels))
