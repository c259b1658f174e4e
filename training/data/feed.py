"""Rows as a fit visits them: every row once per pass, in an order that a seed decides."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from policy.arrays import BoolArray
from training.data.blocks import Block, ColumnOf, Window
from training.data.store import RowStore

Kept: TypeAlias = Callable[[Block], BoolArray]
"""Which rows of a block a fit may see, shape (n,) bool."""


class Feed:
    """The rows of a fit, with what it asks of each.

    Args:
        store: All rows.
        columns: What is asked of each, by name.
        kept: Which rows; None for all.
        device: Where they shall lie.
    """

    def __init__(
        self,
        store: RowStore,
        columns: Mapping[str, ColumnOf],
        kept: Kept | None,
        device: torch.device,
    ) -> None:
        self._store = store
        self._columns = columns
        self._kept = kept
        self._device = device

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are."""
        if self._kept is None:
            return len(self._store)
        return sum(int(self._kept(block).sum()) for block in self._store.blocks())

    def batches(self, order: torch.Generator, size: int) -> Iterator[tuple[Window, Tensor]]:
        """One pass.

        Args:
            order: Decides the order; the same state gives the same.
            size: Rows per batch; the last of a window may hold fewer.

        Yields:
            A window, and the places in it of the batch's rows, shape (b,).
        """
        for window in self._windows(order):
            shuffled = torch.randperm(len(window), generator=order)
            for rows in torch.split(shuffled, size):
                yield window, rows

    @cached_property
    def _only(self) -> Window:
        # One window is made once, for all passes of all fits.
        return self._window(next(self._store.blocks()))

    def _windows(self, order: torch.Generator) -> Iterator[Window]:
        if self._store.is_whole:
            yield self._only
            return
        for block in self._store.shuffled(order):
            yield self._window(block)

    def _window(self, block: Block) -> Window:
        kept = block if self._kept is None else block.take(self._kept(block))
        return Window(kept, self._columns, self._device)
