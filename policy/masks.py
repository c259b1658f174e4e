"""Which plans are feasible in a context, and why the others are not.

Rules are compiled once per catalog. A context fires some of them; what that set of rules
masks is kept, so that the next context with the same answers costs a look-up. Reasons are
read off the fired rules when somebody asks, never stored per plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import BoolArray, sealed
from policy.catalog import Catalog
from policy.columns import count_rows
from policy.predicates import ContextReader, ManyTest, Test, compile_many, compile_one

NOT_ALLOWED: Final = "not allowed by the caller"
"""Reason of a plan that no rule masks and the caller did not list as possible now."""

_CACHE_BYTES: Final = 32 * 2**20
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
    masks: dict[int, Mask]
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
            masks={},
            most_masks=max(16, min(4096, _CACHE_BYTES // catalog.n_plans)),
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
        if len(compiled.masks) >= compiled.most_masks:
            compiled.masks.clear()
        mask = compiled.masks[bits] = _mask_of(catalog, bits)
    return mask if allowed is None else _narrowed(mask, allowed)


def _mask_of(catalog: Catalog, bits: int) -> Mask:
    """What a set of fired rules leaves feasible."""
    fired = tuple(position for position in range(len(catalog.rules)) if bits >> position & 1)
    feasible = ~np.logical_or.reduce(catalog.rule_masks[list(fired)], axis=0)
    return Mask(sealed(feasible), fired, int(np.count_nonzero(feasible)), catalog)


def _narrowed(mask: Mask, allowed: Sequence[str]) -> Mask:
    """The mask within the plans that the caller listed."""
    listed = np.zeros(mask.catalog.n_plans, dtype=np.bool_)
    listed[[mask.catalog.index(plan) for plan in allowed]] = True
    feasible = np.logical_and(mask.feasible, listed)
    return Mask(
        sealed(feasible), mask.fired, int(np.count_nonzero(feasible)), mask.catalog, sealed(listed)
    )


def mask_contexts(
    catalog: Catalog, columns: Mapping[str, Sequence[Any]], *, n_rows: int | None = None
) -> BoolArray:
    """The feasible plans of many contexts at once; equal to `mask_context` row by row.

    Args:
        catalog: The plans and their rules.
        columns: Context columns by key, one value per row; an absent key is missing everywhere.
        n_rows: Number of rows, needed where there is no column to count.

    Returns:
        Shape (n, n_plans): True = feasible.

    Raises:
        FeatureError: If a value has another type than a rule compares with, or nothing can
            be counted.
        ShapeMismatchError: If the columns differ in length.
    """
    n = count_rows(columns, n_rows)
    compiled = _compiled(catalog)
    if not catalog.rules:
        return np.ones((n, catalog.n_plans), dtype=np.bool_)
    values = compiled.reader.many(columns, n)
    fired = np.empty((n, len(catalog.rules)), dtype=np.bool_)
    for position, (test, rule) in enumerate(zip(compiled.many, catalog.rules, strict=True)):
        fired[:, position] = test(values) == rule.masks_when
    first, pattern = _patterns(fired)
    masked = np.empty((len(first), catalog.n_plans), dtype=np.bool_)
    for position, row in enumerate(fired[first]):
        masked[position] = np.logical_or.reduce(catalog.rule_masks[row], axis=0)
    feasible: BoolArray = np.take(~masked, pattern, axis=0)
    return feasible


def _patterns(fired: BoolArray) -> tuple[Any, Any]:
    """Distinct rows: the first row of each, shape (k,), and each row's number, shape (n,)."""
    codes = np.zeros(len(fired), dtype=np.int64)
    first = np.zeros(0, dtype=np.intp)
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
