"""Ids of enumerated plans, each worked out when it is asked for and none before.

The levels of a plan are the digits of a number whose bases are the sizes of the factors; the
last factor turns fastest. An id is those digits written as `factor=level`, so that id and
action are one division or one look-up apart.
"""

from collections.abc import Iterator, Sequence
from itertools import compress, product
from operator import eq
from typing import Final, SupportsIndex, overload

import numpy as np

from policy.arrays import IntArray, read_only
from policy.factors import Factor

_FEW: Final = 4096
"""Up to so many ids are cheaper kept than worked out again."""


class PlanIds(Sequence[str]):
    """The ids of the product of all levels, as far as they are legal, by action.

    It is equal to the tuple of the same ids, and stands for it wherever a sequence will do.

    Args:
        factors: The dimensions of a plan.
        numbers: Shape (n_plans,), ascending: which combinations are plans; None for all.
    """

    __slots__ = ("_known", "_numbers", "_size", "_sizes", "_tokens", "_whole")

    def __init__(self, factors: Sequence[Factor], numbers: IntArray | None = None) -> None:
        self._tokens = tuple(
            tuple(f"{factor.name}={level.name}" for level in factor.levels) for factor in factors
        )
        self._known = tuple(
            {token: position for position, token in enumerate(tokens)} for tokens in self._tokens
        )
        self._sizes = tuple(len(tokens) for tokens in self._tokens)
        n_combinations = 1
        for size in self._sizes:
            n_combinations *= size
        is_whole = numbers is None or len(numbers) == n_combinations
        self._numbers = None if is_whole else numbers
        self._size = n_combinations if numbers is None else len(numbers)
        self._whole: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, position: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[str, ...]: ...

    def __getitem__(self, position: SupportsIndex | slice) -> str | tuple[str, ...]:
        if isinstance(position, slice):
            return tuple(self[action] for action in range(*position.indices(self._size)))
        action = position.__index__()
        if self._whole is None and self._size <= _FEW:
            self._whole = tuple(self)
        if self._whole is not None:
            return self._whole[action]
        if action < 0:
            action += self._size
        if not 0 <= action < self._size:
            # What the sequence protocol asks for: iteration and `reversed` end on it.
            raise IndexError(position)
        number = action if self._numbers is None else int(self._numbers[action])
        parts = []
        for tokens in reversed(self._tokens):
            number, level = divmod(number, len(tokens))
            parts.append(tokens[level])
        parts.reverse()
        return ",".join(parts)

    def __iter__(self) -> Iterator[str]:
        everything = map(",".join, product(*self._tokens))
        if self._numbers is None:
            return everything
        is_plan = np.zeros(int(np.prod(self._sizes)), dtype=np.bool_)
        is_plan[self._numbers] = True
        return compress(everything, is_plan)

    def index(self, plan_id: object, start: int = 0, stop: int | None = None) -> int:
        """The action of a plan, within the bounds given.

        Raises:
            ValueError: If no plan there has this id.
        """
        action = self.find(plan_id)
        bounds = range(*slice(start, stop).indices(self._size))
        if action is None or action not in bounds:
            message = f"{plan_id!r} is no plan"
            raise ValueError(message)
        return action

    def find(self, plan_id: object) -> int | None:
        """The action of a plan; None where there is none of this id."""
        parts = plan_id.split(",") if isinstance(plan_id, str) else ()
        if len(parts) != len(self._known):
            return None
        number = 0
        for known, part in zip(self._known, parts, strict=True):
            level = known.get(part)
            if level is None:
                return None
            number = number * len(known) + level
        if self._numbers is None:
            return number
        action = int(self._numbers.searchsorted(number))
        is_legal = action < self._size and int(self._numbers[action]) == number
        return action if is_legal else None

    def __contains__(self, plan_id: object) -> bool:
        return self.find(plan_id) is not None

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if not isinstance(other, tuple | PlanIds):
            return NotImplemented
        return len(other) == self._size and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{self._size:,} plan ids from {self[0]!r} to {self[-1]!r}>"


def combination_numbers(levels: IntArray, sizes: Sequence[int]) -> IntArray:
    """The number of each plan among all combinations, from its levels, shape (n_plans,)."""
    numbers: IntArray = np.ravel_multi_index(tuple(levels.T), tuple(sizes)).astype(np.intp)
    return read_only(numbers)
