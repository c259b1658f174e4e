"""Factors, their levels, and the plans they span."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from policy.arrays import BoolArray, IntArray
from policy.predicates import Predicate


@dataclass(frozen=True, slots=True)
class Level:
    """One choice within a factor.

    Attributes:
        name: Its name, unique in the factor.
        doctrine: The line of doctrine it comes from; None where none was written.
        weight: Its doctrine weight, at least 0; None where the factor has none.
    """

    name: str
    doctrine: str | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Factor:
    """One dimension of a plan; its levels in the order of the catalog."""

    name: str
    levels: tuple[Level, ...]

    def index(self, level: str) -> int | None:
        """Position of a level; None if the factor has no such level."""
        return next((i for i, known in enumerate(self.levels) if known.name == level), None)


@dataclass(frozen=True, slots=True)
class Selection:
    """The plans that have one of the given levels in every factor named.

    Attributes:
        levels: Factor position to the level positions meant.
    """

    levels: Mapping[int, tuple[int, ...]]

    def matches(self, plan_levels: IntArray) -> BoolArray:
        """Which plans are meant, from their levels of shape (n_plans, n_factors)."""
        chosen = np.ones(len(plan_levels), dtype=np.bool_)
        for factor, wanted in self.levels.items():
            column = plan_levels[:, factor]
            is_wanted = np.zeros(int(column.max(initial=0)) + 1, dtype=np.bool_)
            is_wanted[[level for level in wanted if level < len(is_wanted)]] = True
            chosen &= is_wanted[column]
        return chosen


@dataclass(frozen=True, slots=True)
class Rule:
    """A feasibility rule: masks some plans, depending on the live context.

    Attributes:
        selection: The plans it masks, by level; None where `plans` names them.
        plans: The plans it masks, by id; empty where `selection` describes them.
        predicate: What is asked of the context.
        masks_when: The answer on which the rule masks: True for `when`, False for `unless`.
        because: Why, in words for people.
    """

    selection: Selection | None
    plans: tuple[str, ...]
    predicate: Predicate
    masks_when: bool
    because: str


def product_levels(sizes: Sequence[int]) -> IntArray:
    """All combinations of levels, shape (product of sizes, n_factors), last factor fastest."""
    n_plans = int(np.prod(sizes))
    return np.stack(np.unravel_index(np.arange(n_plans), tuple(sizes)), axis=1)
