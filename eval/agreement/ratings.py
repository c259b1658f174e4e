"""Labels as numbers: the declared scale, and ratings read against it."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

import numpy as np

from canopy.domain.errors import InputError, RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray, IntArray

MISSING: Final = -1
_PAIR: Final = 2


@dataclass(frozen=True, slots=True)
class Scale:
    """The labels a rater may give, in order.

    Attributes:
        labels: The label domain, declared before looking; at least two.
    """

    labels: tuple[Any, ...]

    def values(self) -> FloatArray:
        """The labels as numbers.

        Raises:
            InputError: If a label is no finite number.
        """
        for label in self.labels:
            if not isinstance(label, Real) or not np.isfinite(float(label)):
                raise InputError(
                    "scale",
                    f"{label!r} is no number, and this metric measures differences.",
                    "Use nominal or ordinal, or declare a scale of numbers.",
                )
        return np.array(self.labels, dtype=np.float64)


def scale_of(labels: Iterable[Any], *, is_ordered: bool) -> Scale:
    """The declared label domain, checked.

    Args:
        labels: Every label a rater may give, whether it occurs or not.
        is_ordered: Whether the coefficient reads an order from it.

    Raises:
        InputError: If there are fewer than two labels, one is missing or declared twice, or an
            order is needed and there is none: a set, or numbers that neither rise nor fall.
    """
    declared = () if isinstance(labels, str) else tuple(_plain(labels))
    problem = _label_fault(declared)
    if problem is None and is_ordered:
        problem = _order_fault(labels, declared)
    if problem is not None:
        raise InputError("scale", problem, "List every label a rater may give, once, in order.")
    return Scale(declared)


def _label_fault(declared: tuple[Any, ...]) -> str | None:
    if len(declared) < _PAIR:
        return "expected a list of at least two labels."
    if any(_is_missing(label) for label in declared):
        return "a missing value is no label."
    if not all(isinstance(label, Hashable) for label in declared):
        return "a label must be a number, a text or another fixed value."
    if len(set(declared)) < len(declared):
        return f"a label is declared twice in {_words(declared)}."
    return None


def _order_fault(labels: Iterable[Any], declared: tuple[Any, ...]) -> str | None:
    if isinstance(labels, set | frozenset):
        return "a set has no order, and this coefficient needs one."
    if all(isinstance(label, Real) for label in declared):
        rises = np.diff(np.array(declared, dtype=np.float64)) > 0
        if rises.any() and not rises.all():
            return f"the numbers {_words(declared)} neither rise nor fall."
    return None


@dataclass(frozen=True, slots=True)
class Ratings:
    """Ratings as numbers of labels.

    Attributes:
        codes: Shape (n_raters, n_units). Index into `seen`; -1 where not rated.
        seen: Shape (n_seen,). Places on the scale of the labels that occur, rising: a table over
            them alone says the same as one over the whole scale, and is smaller.
        counts: Shape (n_units, n_seen). How many raters gave the unit each label.
    """

    codes: IntArray
    seen: IntArray
    counts: FloatArray

    @property
    def n_units(self) -> int:
        """Units, rated or not."""
        return len(self.counts)

    def is_counted(self) -> BoolArray:
        """Shape (n_units,). Whether the unit has the two ratings that agreement is about."""
        return np.asarray(self.counts.sum(axis=1) >= _PAIR)


def ratings_of(raters: Sequence[Any], scale: Scale, names: Sequence[str] | None = None) -> Ratings:
    """Read ratings against a scale.

    Args:
        raters: Shape (n_raters, n_units). Labels; None, NaN and masked cells are missing.
        scale: The label domain.
        names: What errors call each rater; `rater 1` and so on unless told.

    Raises:
        ShapeMismatchError: If the raters do not describe the same units.
        RangeError: If a label is not of the scale; the rater and the row are named, from 1.
    """
    rows = [_plain_row(raters, rater) for rater in range(len(raters))]
    called = names or [f"rater {number}" for number in range(1, len(rows) + 1)]
    n_units = len(rows[0]) if rows else 0
    places = {label: place for place, label in enumerate(scale.labels)}
    on_scale = np.empty((len(rows), n_units), dtype=np.intp)
    for rater, (name, row) in enumerate(zip(called, rows, strict=True)):
        if len(row) != n_units:
            raise ShapeMismatchError(name, (len(row),), (n_units,))
        on_scale[rater] = [_place(places, name, unit, label) for unit, label in enumerate(row, 1)]
    return _compressed(on_scale)


def _compressed(on_scale: IntArray) -> Ratings:
    seen = np.unique(on_scale[on_scale != MISSING])
    codes = np.where(on_scale == MISSING, MISSING, np.searchsorted(seen, on_scale))
    n_units, n_seen = codes.shape[1], len(seen)
    counts = np.zeros((n_units, n_seen))
    for row in codes:
        rated = np.flatnonzero(row != MISSING)
        counts[rated, row[rated]] += 1
    return Ratings(codes, seen, counts)


def _place(places: dict[Any, int], name: str, row: int, label: Any) -> int:
    if _is_missing(label):
        return MISSING
    place = places.get(label) if isinstance(label, Hashable) else None
    if place is None:
        raise RangeError(name, row, label, f"a label of the scale {_words(tuple(places))}")
    return place


def _plain_row(raters: Sequence[Any], rater: int) -> list[Any]:
    row = raters[rater]
    if isinstance(row, str) or not np.iterable(row):
        raise ShapeMismatchError("ratings", (len(raters),), (len(raters), 1))
    return _plain(row)


def _plain(labels: Iterable[Any]) -> list[Any]:
    if isinstance(labels, np.ndarray):
        # Of a masked array too: a masked cell becomes None.
        return list(labels.tolist())
    return [label.item() if isinstance(label, np.generic) else label for label in labels]


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and np.isnan(label))


def _words(labels: tuple[Any, ...]) -> str:
    return "(" + ", ".join(repr(label) for label in labels) + ")"
