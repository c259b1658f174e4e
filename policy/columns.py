"""Reading context values, one at a time or a column at once, with the same meaning.

A value is missing when it is absent, None or NaN; anything of another type than the one
asked for is refused by name. Both forms must agree on every value, because a policy is
trained on columns and serves single contexts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from canopy.domain.errors import FeatureError, ShapeMismatchError
from policy.arrays import FloatArray

BOOL_MISSING: Final = -1
"""Code of a missing value in a column of booleans; False is 0 and True is 1."""

_NUMBERS: Final = (int, float, np.integer, np.floating)


def is_missing(value: object) -> bool:
    """True for None and for a NaN of any float type."""
    return value is None or (isinstance(value, float | np.floating) and bool(value != value))  # noqa: PLR0124 - only NaN differs from itself


def number_value(name: str, value: object) -> float | None:
    """A context value as a number; None if missing.

    Raises:
        FeatureError: If the value is no number, or too large for a float.
    """
    if type(value) is float:
        return value if value == value else None  # noqa: PLR0124 - only NaN differs from itself
    if value is None:
        return None
    if isinstance(value, bool | np.bool_) or not isinstance(value, _NUMBERS):
        raise FeatureError(f"`{name}`", f"is {value!r}, expected a number.", "Correct the context.")
    try:
        number = float(value)
    except OverflowError as error:
        raise FeatureError(
            f"`{name}`", "is a number too large for a float.", "Correct the context."
        ) from error
    return number if number == number else None  # noqa: PLR0124 - only NaN differs from itself


def text_value(name: str, value: object) -> str | None:
    """A context value as text; None if missing.

    Raises:
        FeatureError: If the value is no text.
    """
    if isinstance(value, str):
        return value if type(value) is str else str(value)
    if is_missing(value):
        return None
    raise FeatureError(f"`{name}`", f"is {value!r}, expected text.", "Correct the context.")


def bool_value(name: str, value: object) -> bool | None:
    """A context value as true or false; None if missing.

    Raises:
        FeatureError: If the value is neither.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if is_missing(value):
        return None
    raise FeatureError(
        f"`{name}`", f"is {value!r}, expected true or false.", "Correct the context."
    )


def present_value(value: object) -> object | None:
    """A context value of any type; None if missing."""
    return None if is_missing(value) else value


def column_rows(name: str, values: object) -> NDArray[Any] | list[Any]:
    """A column as a one-dimensional array, or as a list where it held Python objects.

    Raises:
        FeatureError: If it is no column: a bare text, a scalar, a matrix.
    """
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values if values.dtype.kind in "biufU" else list(values)
    if isinstance(values, str | bytes | Mapping | np.ndarray) or not isinstance(values, Iterable):
        raise FeatureError(
            f"column `{name}`", "is no column.", "Pass a sequence with one value per row."
        )
    return list(values)


def number_column(name: str, values: object) -> FloatArray:
    """A column of numbers, shape (n,); NaN where missing.

    Raises:
        FeatureError: If a value is no number; the row is named.
    """
    rows = column_rows(name, values)
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iuf":
        return rows.astype(np.float64)
    numbers = np.empty(len(rows), dtype=np.float64)
    for position, value in enumerate(rows):
        try:
            number = number_value(name, value)
        except FeatureError as error:
            raise FeatureError(
                f"{error.place}, row {position + 1}", error.problem, error.remedy
            ) from None
        numbers[position] = np.nan if number is None else number
    return numbers


def text_column(name: str, values: object) -> list[str | None]:
    """A column of texts; None where missing.

    Raises:
        FeatureError: If a value is no text; the row is named.
    """
    texts: list[str | None] = []
    for position, value in enumerate(column_rows(name, values)):
        try:
            texts.append(text_value(name, value))
        except FeatureError as error:
            raise FeatureError(
                f"{error.place}, row {position + 1}", error.problem, error.remedy
            ) from None
    return texts


def bool_column(name: str, values: object) -> NDArray[np.int8]:
    """A column of booleans, shape (n,): 0, 1, or `BOOL_MISSING`.

    Raises:
        FeatureError: If a value is neither true nor false; the row is named.
    """
    rows = column_rows(name, values)
    if isinstance(rows, np.ndarray) and rows.dtype.kind == "b":
        return rows.astype(np.int8)
    codes = np.empty(len(rows), dtype=np.int8)
    for position, value in enumerate(rows):
        try:
            flag = bool_value(name, value)
        except FeatureError as error:
            raise FeatureError(
                f"{error.place}, row {position + 1}", error.problem, error.remedy
            ) from None
        codes[position] = BOOL_MISSING if flag is None else flag
    return codes


def count_rows(columns: Mapping[str, Sequence[Any]], n_rows: int | None) -> int:
    """How many rows the columns describe.

    Raises:
        FeatureError: If there is no column to count and no number was given.
        ShapeMismatchError: If the columns disagree.
    """
    expected = n_rows
    for name, values in columns.items():
        found = len(column_rows(name, values))
        if expected is None:
            expected = found
        if found != expected:
            raise ShapeMismatchError(f"column `{name}`", (found,), (expected,))
    if expected is None:
        raise FeatureError(
            "columns", "hold nothing to count the rows by.", "Pass a column, or n_rows."
        )
    return expected
