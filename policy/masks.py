"""Which plans are feasible in a context, and why the others are not.

Rules are compiled once per catalog. A context fires some of them; what that set of rules
masks is kept, so that the next context with the same answers costs a look-up. Reasons are
read off the fired rules when somebody asks, never stored per plan.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray, IntArray, read_only, sealed
from policy.catalog import Catalog
from policy.columns import count_rows
from policy.predicates import ContextReader, ManyTest, Test, compile_many, compile_one

NOT_ALLOWED: Final = "not allowed by the caller"
"""Reason of a plan that no rule masks and the caller did not list as possible now."""

_CACHE_BYTES: Final = 64 * 2**20
_PLAN_BYTES: Final = 17
_BLOCK: Final = 32


@dataclass(frozen=True, slots=True)
class Mask:
    """Feasibility of every plan in one context.

    Attributes:
        feasible: Shape (n_plans,), read-only: True = feasible.
        fired: Positions of the rules that fired, ascending.
        n_feasible: How many plans are feasible.
        catalog: The catalog whose plans and rules these are.
        allowed: Shape (n_plans,): what the caller listed as possible; None without a list.
    """

    feasible: BoolArray
    fired: tuple[int, ...]
    n_feasible: int
    catalog: Catalog
    allowed: BoolArray | None = None
    _indicators: list[FloatArray] = field(default_factory=list, repr=False, compare=False)
    _floors: dict[float, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    @property
    def indicator(self) -> FloatArray:
        """Shape (n_plans,), read-only: 1.0 where feasible, 0.0 elsewhere; made when asked for."""
        if not self._indicators:
            self._indicators.append(read_only(self.feasible.astype(np.float64)))
        return self._indicators[-1]

    def floor_row(self, floor: float) -> FloatArray:
        """What a floor gives each plan, shape (n_plans,), read-only; kept for the last floor.

        Args:
            floor: Exploration floor, from 0 to 1.
        """
        row = self._floors.get(floor)
        if row is None:
            self._floors.clear()
            row = self._floors[floor] = read_only(self.indicator * (floor / self.n_feasible))
        return row

    def reason(self, action: int) -> str | None:
        """Why a plan is masked; None if it is feasible.

        Raises:
            RangeError: If there is no such plan.
        """
        if not 0 <= action < self.catalog.n_plans:
            raise RangeError("action", None, action, f"0 to {self.catalog.n_plans - 1}")
        for position in self.fired:
            if self.catalog.rule_masks[position, action]:
                return self.catalog.rules[position].because
        if self.allowed is not None and not self.allowed[action]:
            return NOT_ALLOWED
        return None

    def reasons(self) -> dict[str, str]:
        """Why each masked plan is masked, by plan id."""
        return {
            self.catalog.plan_ids[action]: cast("str", self.reason(action))
            for action in np.flatnonzero(~self.feasible).tolist()
        }


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The rules of one catalog, ready to be asked, and the masks they gave so far."""

    reader: ContextReader
    tests: tuple[tuple[int, Test, bool], ...]
    many: tuple[ManyTest, ...]
    masks: OrderedDict[int, Mask]
    most_masks: int


def _compiled(catalog: Catalog) -> _Compiled:
    known: _Compiled | None = catalog.compiled.get("masks")
    if known is None:
        reader = ContextReader(catalog.kinds)
        slots = {key: slot for slot, key in enumerate(reader.kinds)}
        known = _Compiled(
            reader=reader,
            tests=tuple(
                (1 << position, compile_one(rule.predicate, slots), rule.masks_when)
                for position, rule in enumerate(catalog.rules)
            ),
            many=tuple(compile_many(rule.predicate, reader) for rule in catalog.rules),
            masks=OrderedDict(),
            most_masks=max(4, min(4096, _CACHE_BYTES // (_PLAN_BYTES * catalog.n_plans))),
        )
        catalog.compiled["masks"] = known
    return known


def mask_context(
    catalog: Catalog, context: Mapping[str, object], allowed: Sequence[str] | None = None
) -> Mask:
    """The feasible plans of one context.

    Args:
        catalog: The plans and their rules.
        context: What is known before choosing.
        allowed: Ids of the plans that the caller says are possible now; None for all.

    Raises:
        CatalogError: If `allowed` names an unknown plan.
        FeatureError: If a context value has another type than a rule compares with.
    """
    compiled = _compiled(catalog)
    values = compiled.reader.one(context)
    bits = 0
    for bit, test, masks_when in compiled.tests:
        if test(values) is masks_when:
            bits |= bit
    mask = compiled.masks.get(bits)
    if mask is None:
        while len(compiled.masks) >= compiled.most_masks:
            compiled.masks.popitem(last=False)
        mask = compiled.masks[bits] = _mask_of(catalog, bits)
    return mask if allowed is None else _narrowed(mask, allowed)


def _mask_of(catalog: Catalog, bits: int) -> Mask:
    """What a set of fired rules leaves feasible."""
    fired = tuple(position for position in range(len(catalog.rules)) if bits >> position & 1)
    masked = np.zeros(catalog.n_plans, dtype=np.bool_)
    for position in fired:
        # Row by row and in place: gathering the rows first would copy all of them.
        np.logical_or(masked, catalog.rule_masks[position], out=masked)
    return _mask(np.logical_not(masked, out=masked), fired, catalog, None)


def _mask(
    feasible: BoolArray, fired: tuple[int, ...], catalog: Catalog, allowed: BoolArray | None
) -> Mask:
    """A mask with what is derived from it."""
    return Mask(
        feasible=sealed(feasible),
        fired=fired,
        n_feasible=int(np.count_nonzero(feasible)),
        catalog=catalog,
        allowed=allowed,
    )


def _narrowed(mask: Mask, allowed: Sequence[str]) -> Mask:
    """The mask within the plans that the caller listed."""
    listed = np.zeros(mask.catalog.n_plans, dtype=np.bool_)
    listed[[mask.catalog.index(plan) for plan in allowed]] = True
    feasible = np.logical_and(mask.feasible, listed)
    return _mask(feasible, mask.fired, mask.catalog, sealed(listed))


@dataclass(frozen=True, slots=True)
class MaskPatterns:
    """The masks of many contexts, each different one once.

    A million contexts rarely have more than a few hundred masks among them: this takes one
    number per context, where their masks side by side take one byte per plan and context.

    Attributes:
        masks: Shape (k, n_plans), read-only: the masks that occur; True = feasible.
        pattern: Shape (n,), read-only: which of them each context has.
    """

    masks: BoolArray
    pattern: IntArray

    def rows(self, block: slice = slice(None)) -> BoolArray:
        """The masks of a run of contexts, shape (rows of the run, n_plans).

        Args:
            block: Which contexts; all unless told.
        """
        rows: BoolArray = np.take(self.masks, self.pattern[block], axis=0)
        return rows

    def blocks(self, n_rows: int = 65_536) -> Iterator[tuple[slice, BoolArray]]:
        """The masks of all contexts, a run at a time: memory stays that of one run.

        Args:
            n_rows: Contexts per run, at least 1.

        Yields:
            The run, and its masks of shape (rows of the run, n_plans).

        Raises:
            RangeError: If a run would hold no context.
        """
        if n_rows < 1:
            raise RangeError("n_rows", None, n_rows, "at least 1 context per run")
        for start in range(0, len(self.pattern), n_rows):
            block = slice(start, start + n_rows)
            yield block, self.rows(block)


def mask_contexts(
    catalog: Catalog, columns: Mapping[str, Sequence[Any]], *, n_rows: int | None = None
) -> BoolArray:
    """The feasible plans of many contexts at once; equal to `mask_context` row by row.

    Args:
        catalog: The plans and their rules.
        columns: Context columns by key, one value per row; an absent key is missing everywhere.
        n_rows: Number of rows, needed where there is no column to count.

    Returns:
        Shape (n, n_plans): True = feasible. `mask_patterns` says the same in less memory.

    Raises:
        FeatureError: If a value has another type than a rule compares with, or nothing can
            be counted.
        ShapeMismatchError: If the columns differ in length.
    """
    return mask_patterns(catalog, columns, n_rows=n_rows).rows()


def mask_patterns(
    catalog: Catalog, columns: Mapping[str, Sequence[Any]], *, n_rows: int | None = None
) -> MaskPatterns:
    """`mask_contexts` with each different mask kept once.

    Args:
        catalog: The plans and their rules.
        columns: Context columns by key, one value per row; an absent key is missing everywhere.
        n_rows: Number of rows, needed where there is no column to count.

    Raises:
        FeatureError: If a value has another type than a rule compares with, or nothing can
            be counted.
        ShapeMismatchError: If the columns differ in length.
    """
    n = count_rows(columns, n_rows)
    compiled = _compiled(catalog)
    values = compiled.reader.many(columns, n)
    fired = np.empty((n, len(catalog.rules)), dtype=np.bool_)
    for position, (test, rule) in enumerate(zip(compiled.many, catalog.rules, strict=True)):
        fired[:, position] = test(values) == rule.masks_when
    first, pattern = _patterns(fired)
    masks = np.empty((len(first), catalog.n_plans), dtype=np.bool_)
    for position, row in enumerate(fired[first]):
        masks[position] = ~np.logical_or.reduce(catalog.rule_masks[row], axis=0)
    return MaskPatterns(read_only(masks), read_only(pattern))


def _patterns(fired: BoolArray) -> tuple[Any, Any]:
    """Distinct rows: the first row of each, shape (k,), and each row's number, shape (n,)."""
    codes = np.zeros(len(fired), dtype=np.int64)
    # Without rules there is one pattern, in the first row if there is any.
    first = np.zeros(min(1, len(fired)), dtype=np.intp)
    for start in range(0, fired.shape[1], _BLOCK):
        block = fired[:, start : start + _BLOCK]
        bits = block @ (1 << np.arange(block.shape[1], dtype=np.int64))
        # Codes stay below the number of rows, so that one more block of bits always fits.
        _, first, codes = np.unique(
            (codes << _BLOCK) | bits, return_index=True, return_inverse=True
        )
    return first, codes


def check_mask(mask: BoolArray, expected: tuple[int, ...]) -> BoolArray:
    """A mask handed in, if it has the shape and type of one.

    Raises:
        RangeError: If it holds anything but booleans.
        ShapeMismatchError: If its shape is not the one expected.
    """
    checked = np.asarray(mask)
    if checked.dtype != np.bool_:
        raise RangeError("mask", None, float("nan"), "booleans, True = feasible")
    if checked.shape != expected:
        raise ShapeMismatchError("mask", checked.shape, expected)
    return checked
