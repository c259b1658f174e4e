"""The feature schema: how a context becomes numbers, the same at training and at serving.

Unknown categories and missing values have slots of their own, so that a model can tell them
from every known value. Keys that the schema does not name are ignored.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from canopy.domain.errors import FeatureError
from canopy.domain.ids import canonical_json, content_hash
from policy.arrays import FloatArray
from policy.columns import column_rows, count_rows, is_missing, number_column
from policy.encoding import category_value, members
from policy.fields import (
    Category,
    Field,
    Members,
    Number,
    TextHash,
    check_field,
    labels,
    read_field,
)

FORMAT: Final = 1
"""Version of the schema document."""


@dataclass(frozen=True)
class FeatureSchema:
    """The fields that a policy reads, in order.

    Attributes:
        fields: One per context key.
    """

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        counts = Counter(field.name for field in self.fields)
        for name, count in counts.items():
            if count > 1:
                raise FeatureError(f"`{name}`", "has two fields.", "Keep one of them.")
        for field in self.fields:
            check_field(field)

    def __hash__(self) -> int:
        return hash(self.content_hash)

    @cached_property
    def width(self) -> int:
        """Columns of an encoded context."""
        return sum(field.width for field in self.fields)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each column of the encoding means."""
        return tuple(label for field in self.fields for label in labels(field))

    @cached_property
    def content_hash(self) -> str:
        """Identity of the schema: a hash of its document."""
        return content_hash(canonical_json(self.document()))

    @cached_property
    def _starts(self) -> tuple[tuple[Field, int], ...]:
        starts, start = [], 0
        for field in self.fields:
            starts.append((field, start))
            start += field.width
        return tuple(starts)

    @cached_property
    def _steps(self) -> tuple[tuple[Field, int, str, float, float], ...]:
        """Each field with its first column, name, mean and scale; scale 0 where no number."""
        return tuple(
            (field, start, field.name, field.mean, field.scale)
            if isinstance(field, Number)
            else (field, start, field.name, 0.0, 0.0)
            for field, start in self._starts
        )

    def encode(self, context: Mapping[str, object]) -> FloatArray:
        """The numbers of one context, shape (width,).

        Raises:
            FeatureError: If a value has another type than its field.
        """
        row = [0.0] * self.width
        get = context.get
        for field, start, name, mean, scale in self._steps:
            value = get(name)
            # The common case without a call: a context may have dozens of plain numbers.
            if scale and type(value) is float:
                scaled = (value - mean) / scale
                if scaled - scaled == 0.0:  # neither infinite nor NaN
                    row[start] = scaled
                    continue
            field.fill(row, start, value)
        return np.array(row, dtype=np.float64)

    def encode_many(
        self, columns: Mapping[str, Sequence[Any]], *, n_rows: int | None = None
    ) -> FloatArray:
        """The numbers of many contexts, shape (n, width); each row has the bits of `encode`.

        Args:
            columns: Context columns by key; an absent key is missing in every row.
            n_rows: Number of rows, needed where there is no column to count.

        Raises:
            FeatureError: If a value has another type than its field; the row is named.
            ShapeMismatchError: If the columns differ in length.
        """
        n = count_rows(columns, n_rows)
        rows = np.zeros((n, self.width))
        for field, start in self._starts:
            values = columns.get(field.name)
            field.fill_many(rows, start, [None] * n if values is None else values)
        return rows

    def document(self) -> dict[str, Any]:
        """The schema as plain values; `from_document` gives the same schema."""
        return {"format": FORMAT, "fields": [field.document() for field in self.fields]}

    @classmethod
    def from_document(cls, document: object) -> "FeatureSchema":
        """The schema that a document describes.

        Raises:
            FeatureError: If the document is malformed.
        """
        if not isinstance(document, Mapping) or document.get("format") != FORMAT:
            raise FeatureError(
                "feature schema", f"is no document of format {FORMAT}.", "Fit the schema again."
            )
        fields = document.get("fields")
        if not isinstance(fields, list):
            raise FeatureError("feature schema", "lists no fields.", "Fit the schema again.")
        return cls(tuple(read_field(position, entry) for position, entry in enumerate(fields)))


def fit_schema(
    columns: Mapping[str, Sequence[Any]], *, max_levels: int = 64, text_buckets: int = 32
) -> FeatureSchema:
    """A schema read off a log's context columns, in their order.

    Numbers are standardised. Texts and booleans become a category of at most `max_levels`
    levels, the most frequent ones; texts whose most frequent levels cover less than half of
    the rows are hashed by word. Lists and sets of texts become a set. A column without a
    single value says nothing about its type and gets no field.

    Args:
        columns: Context columns by key, from training rows only.
        max_levels: Most levels of a category or a set.
        text_buckets: Hash buckets of a free text.

    Returns:
        The schema.

    Raises:
        FeatureError: If a column mixes types.
    """
    fields = [
        field
        for name, values in columns.items()
        if (field := _fit_field(name, values, max_levels, text_buckets)) is not None
    ]
    return FeatureSchema(tuple(fields))


def _fit_field(name: str, values: object, max_levels: int, text_buckets: int) -> Field | None:
    """The field of one column; None where it holds no value at all."""
    rows = column_rows(name, values)
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iuf":
        return _fit_number(name, rows)
    known = [value for value in rows if not is_missing(value)]
    if not known:
        return None
    first = known[0]
    if isinstance(first, str | bool | np.bool_):
        counts = Counter(str(category_value(name, value)) for value in known)
        kept = _most_frequent(counts, max_levels)
        if isinstance(first, str) and 2 * sum(counts[level] for level in kept) < len(known):
            return TextHash(name, text_buckets)
        return Category(name, kept)
    if isinstance(first, list | tuple | set | frozenset | np.ndarray):
        found = Counter(m for value in known for m in members(name, value) or ())
        return Members(name, _most_frequent(found, max_levels))
    return _fit_number(name, rows)


def _fit_number(name: str, values: object) -> Number | None:
    """A number field with the mean and standard deviation of the values that are there."""
    numbers = number_column(name, values)
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(known.mean()), float(known.std())
    return Number(name, mean, deviation if deviation > 0 else 1.0)


def _most_frequent(counts: Counter[str], most: int) -> tuple[str, ...]:
    """The most frequent levels, ties by name, listed by name."""
    ranked = sorted(counts, key=lambda level: (-counts[level], level))
    return tuple(sorted(ranked[:most]))
