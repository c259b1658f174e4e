"""Typed predicates over a context: what a feasibility rule may ask, and nothing more.

A comparison with a missing value is false, whichever the comparison; `has` asks for presence.
A value of another type than the rule compares with is an error that names the key. Nothing is
evaluated as code.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from canopy.domain.errors import CatalogError
from policy.arrays import BoolArray, FloatArray
from policy.catalog_yaml import Scalar, Spot, leaves
from policy.columns import (
    BOOL_MISSING,
    bool_column,
    bool_value,
    column_rows,
    number_column,
    number_value,
    present_value,
    text_column,
    text_value,
)

Test: TypeAlias = Callable[[Sequence[Any]], bool]
"""Asks one context: its values, in the order of the reader's keys."""

ManyTest: TypeAlias = Callable[[Sequence[Any]], BoolArray]
"""Asks many contexts: their columns, in the order of the reader's keys."""


class Kind(StrEnum):
    """Type of a context value, as the literals of the rules imply it."""

    NUMBER = "number"
    TEXT = "text"
    BOOL = "bool"
    ANY = "any"
    """Only its presence is asked for."""


@dataclass(frozen=True, slots=True)
class Compare:
    """A context value against one literal (`eq` ... `ge`) or several (`in`)."""

    op: str
    key: str
    literals: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Has:
    """True if the context has a value for the key."""

    key: str


@dataclass(frozen=True, slots=True)
class Combine:
    """`all`, `any` or `not` of other predicates."""

    op: str
    parts: tuple["Predicate", ...]


Predicate: TypeAlias = Compare | Has | Combine

_ORDERED: Final = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
_COMPARISONS: Final = {"eq", "ne", "in", *_ORDERED}
_OPERATORS: Final = {"all", "any", "not", "has", *_COMPARISONS}
_DEEPEST: Final = 32
_TWO: Final = 2
_READERS: Final[Mapping[Kind, Callable[[str, object], object]]] = {
    Kind.NUMBER: number_value,
    Kind.TEXT: text_value,
    Kind.BOOL: bool_value,
    Kind.ANY: lambda _, value: present_value(value),
}


def kind_of(literal: Scalar) -> Kind:
    """The type that a literal asks of the context."""
    if isinstance(literal, bool):
        return Kind.BOOL
    return Kind.TEXT if isinstance(literal, str) else Kind.NUMBER


def read_predicate(spot: Spot, depth: int = 0) -> Predicate:
    """The predicate written at a place of a catalog.

    A comparison is written `eq: {key: value}` or `eq: [key, value]`; `in` takes a list of
    values, `has` a key, `not` a predicate, `all` and `any` lists of predicates.

    Raises:
        CatalogError: If it is not exactly one known operator with fitting operands.
    """
    entries = spot.mapping(_OPERATORS)
    if len(entries) != 1:
        raise CatalogError(
            spot.place, f"holds {len(entries)} operators.", "Write one; join several with `all`."
        )
    if depth > _DEEPEST:
        raise CatalogError(spot.place, "is nested too deeply.", "Write a flatter rule.")
    ((op, operand),) = entries.items()
    if op == "has":
        return Has(operand.text())
    if op == "not":
        return Combine(op, (read_predicate(operand, depth + 1),))
    if op in {"all", "any"}:
        parts = tuple(read_predicate(part, depth + 1) for part in operand.items())
        if not parts:
            raise CatalogError(operand.place, "lists no predicate.", "Write at least one.")
        return Combine(op, parts)
    return _read_comparison(op, operand)


def _read_comparison(op: str, operand: Spot) -> Compare:
    """A comparison, its literals all of one type.

    Raises:
        CatalogError: If there is not one key with fitting literals.
    """
    key, value = _key_and_value(operand)
    literals = tuple(part.scalar() for part in (value.items() if op == "in" else [value]))
    kinds = {kind_of(literal) for literal in literals}
    if len(kinds) != 1:
        raise CatalogError(
            value.place, "mixes types, or lists nothing.", "List values of one type."
        )
    if op in _ORDERED and kinds != {Kind.NUMBER}:
        raise CatalogError(
            value.place, f"is compared by `{op}`, which orders numbers.", "Write a number."
        )
    return Compare(op, key, literals)


def _key_and_value(operand: Spot) -> tuple[str, Spot]:
    """The two sides of a comparison.

    Raises:
        CatalogError: If it is neither `{key: value}` nor `[key, value]`.
    """
    sides = list(leaves(operand))
    if sides and sides[0] is operand:
        entries = operand.mapping()
        if len(entries) == 1:
            return next(iter(entries.items()))
    elif len(sides) == 2:  # noqa: PLR2004 - a key and a value
        return sides[0].text(), sides[1]
    raise CatalogError(
        operand.place, "does not compare one key with one value.", "Write {key: value}."
    )


def document(predicate: Predicate) -> dict[str, object]:
    """The predicate as it may be written in a catalog."""
    if isinstance(predicate, Has):
        return {"has": predicate.key}
    if isinstance(predicate, Compare):
        literals = list(predicate.literals)
        return {predicate.op: {predicate.key: literals if predicate.op == "in" else literals[0]}}
    if predicate.op == "not":
        return {"not": document(predicate.parts[0])}
    return {predicate.op: [document(part) for part in predicate.parts]}


def comparisons(predicate: Predicate) -> list[Compare | Has]:
    """The leaves of a predicate, in the order of writing."""
    if isinstance(predicate, Combine):
        return [leaf for part in predicate.parts for leaf in comparisons(part)]
    return [predicate]


@dataclass(frozen=True, slots=True)
class ContextReader:
    """Reads what the rules ask for, and checks its type once per context.

    Attributes:
        kinds: Type of each key that a rule names, in first use.
    """

    kinds: Mapping[str, Kind]
    _readers: tuple[tuple[str, Callable[[str, object], object], bool], ...] = field(
        init=False, repr=False
    )

    def __post_init__(self) -> None:
        readers = tuple(
            (key, _READERS[kind], kind is Kind.NUMBER) for key, kind in self.kinds.items()
        )
        object.__setattr__(self, "_readers", readers)

    def one(self, context: Mapping[str, object]) -> list[object]:
        """The values of one context, in the order of `kinds`; None where missing.

        Raises:
            FeatureError: If a value has another type than the rules compare with.
        """
        get = context.get
        # The common case without a call: a plain float that is there.
        return [
            value
            if type(value := get(key)) is float and is_number and value == value  # noqa: PLR0124 - only NaN differs from itself
            else read(key, value)
            for key, read, is_number in self._readers
        ]

    def many(self, columns: Mapping[str, Sequence[Any]], n_rows: int) -> list[Any]:
        """The columns of many contexts, in the order of `kinds`.

        Raises:
            FeatureError: If a value has another type than the rules compare with.
        """
        return [_column(key, kind, columns.get(key), n_rows) for key, kind in self.kinds.items()]


def _column(key: str, kind: Kind, values: Sequence[Any] | None, n_rows: int) -> object:
    """One column, in the form that the tests of its kind compare."""
    if values is None:
        values = [None] * n_rows
    if kind is Kind.NUMBER:
        return number_column(key, values)
    if kind is Kind.TEXT:
        return np.array(text_column(key, values), dtype=object)
    if kind is Kind.BOOL:
        return bool_column(key, values)
    present = [present_value(value) is not None for value in column_rows(key, values)]
    return np.array(present, dtype=np.bool_)


def compile_one(predicate: Predicate, slots: Mapping[str, int]) -> Test:
    """A test of one context, from the position of each key among the values read."""
    if isinstance(predicate, Has):
        slot = slots[predicate.key]
        return lambda values: values[slot] is not None
    if isinstance(predicate, Compare):
        return _compare_one(predicate, slots[predicate.key])
    parts = [compile_one(part, slots) for part in predicate.parts]
    if predicate.op == "not":
        inner = parts[0]
        return lambda values: not inner(values)
    return _all_of(parts) if predicate.op == "all" else _any_of(parts)


# Loops and not all(...) or any(...): a generator costs as much as the comparisons it joins. So
# does the loop where there are two.
def _all_of(parts: Sequence[Test]) -> Test:
    if len(parts) == _TWO:
        first, second = parts
        return lambda values: first(values) and second(values)

    def test(values: Sequence[Any]) -> bool:
        for part in parts:  # noqa: SIM110
            if not part(values):
                return False
        return True

    return test


def _any_of(parts: Sequence[Test]) -> Test:
    if len(parts) == _TWO:
        first, second = parts
        return lambda values: first(values) or second(values)

    def test(values: Sequence[Any]) -> bool:
        for part in parts:  # noqa: SIM110
            if part(values):
                return True
        return False

    return test


def _comparable(literal: Scalar) -> Scalar:
    """A literal as context values are read: every number a float, as in a column."""
    return float(literal) if kind_of(literal) is Kind.NUMBER else literal


def _compare_one(compare: Compare, slot: int) -> Test:
    literals = [_comparable(literal) for literal in compare.literals]
    literal: Any = literals[0]
    if compare.op in _ORDERED:
        return _order_one(compare.op, slot, literal)
    if compare.op == "eq":
        return lambda values: values[slot] == literal
    if compare.op == "ne":
        return lambda values: (value := values[slot]) is not None and value != literal
    members = frozenset(literals)
    return lambda values: values[slot] in members


def _order_one(op: str, slot: int, literal: Any) -> Test:
    # One closure per operator: calling `operator.lt` and its like costs as much again.
    if op == "lt":
        return lambda values: (value := values[slot]) is not None and value < literal
    if op == "le":
        return lambda values: (value := values[slot]) is not None and value <= literal
    if op == "gt":
        return lambda values: (value := values[slot]) is not None and value > literal
    return lambda values: (value := values[slot]) is not None and value >= literal


def compile_many(predicate: Predicate, reader: ContextReader) -> ManyTest:
    """A test of many contexts at once; agrees with `compile_one` row by row."""
    slots = {key: slot for slot, key in enumerate(reader.kinds)}
    if isinstance(predicate, Has | Compare):
        slot, kind = slots[predicate.key], reader.kinds[predicate.key]
        if isinstance(predicate, Has):
            return lambda columns: _present(columns[slot], kind)
        return lambda columns: _compare_many(predicate, columns[slot], kind)
    parts = [compile_many(part, reader) for part in predicate.parts]
    if predicate.op == "not":
        inner = parts[0]
        return lambda columns: np.logical_not(inner(columns))
    join = np.logical_and if predicate.op == "all" else np.logical_or
    return lambda columns: np.asarray(join.reduce([part(columns) for part in parts]))


def _present(column: NDArray[Any], kind: Kind) -> BoolArray:
    """Which rows have a value."""
    if kind is Kind.NUMBER:
        return np.asarray(np.logical_not(np.isnan(column)))
    if kind is Kind.TEXT:
        return np.array([text is not None for text in column], dtype=np.bool_)
    present: BoolArray = column if kind is Kind.ANY else column != BOOL_MISSING
    return present


def _compare_many(compare: Compare, column: NDArray[Any], kind: Kind) -> BoolArray:
    """Which rows compare true; missing ones never do."""
    if compare.op in _ORDERED:
        numbers: FloatArray = column
        return np.asarray(_ORDERED[compare.op](numbers, compare.literals[0]))
    if kind is Kind.TEXT:
        members = frozenset(compare.literals)
        found: BoolArray = np.array([text in members for text in column], dtype=np.bool_)
    else:
        found = np.asarray(np.isin(column, np.array(compare.literals, dtype=column.dtype)))
    if compare.op == "ne":
        found = np.logical_and(_present(column, kind), ~found)
    return found
