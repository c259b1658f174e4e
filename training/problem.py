"""What every objective is handed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import torch

from canopy.domain.errors import TrainingRefusedError
from policy.arrays import FloatArray
from policy.catalog import Catalog
from training.data.blocks import Block, ColumnOf, Window, block_of
from training.data.feed import Feed, Kept
from training.data.rows import TrainingRows
from training.data.store import RowStore
from training.head import HeadShape

CPU: Final = torch.device("cpu")
_PART_CELLS: Final = 2_000_000


@dataclass(frozen=True)
class Problem:
    """A learning problem.

    Attributes:
        catalog: The plans.
        shape: Of the head to fit.
        train: Rows to learn from, those that left a choice.
        validation: Rows of other units, to stop and choose by.
        validation_features: Shape (n_validation, d): encoded contexts.
        seed: Of everything random.
        device: What computes the fits.
    """

    catalog: Catalog
    shape: HeadShape
    train: RowStore
    validation: TrainingRows
    validation_features: FloatArray
    seed: int
    device: torch.device = CPU

    @cached_property
    def beyond(self) -> Block:
        """The validation rows that left a choice.

        Raises:
            TrainingRefusedError: If none did.
        """
        found = block_of(self.validation, self.validation_features, is_training=False)
        if not len(found):
            raise TrainingRefusedError(
                "log", "no validation row had more than one feasible plan: none can choose.",
                "Train on a log whose decisions had alternatives.",
            )  # fmt: skip
        return found

    def validation_parts(self) -> Iterator[tuple[TrainingRows, FloatArray]]:
        """All validation rows with their features, so many at a time that plans times rows fit."""
        step = max(1, _PART_CELLS // self.catalog.n_plans)
        for start in range(0, len(self.validation), step):
            rows = np.arange(start, min(start + step, len(self.validation)))
            yield self.validation.take(rows), self.validation_features[rows]

    def sides(self) -> Iterator[Block]:
        """All training rows, a window at a time, then the validation rows."""
        yield from self.train.blocks()
        yield self.beyond

    @property
    def stands_for(self) -> ColumnOf:
        """How many decisions each row stands for, of mean 1 over training or validation rows."""
        return self.of_mean_one(lambda block: 1.0 / block.keep_prob)

    def of_mean_one(self, weight: ColumnOf) -> ColumnOf:
        """A weight, scaled to a mean of 1 over the training rows, and over the validation rows.

        Args:
            weight: At least 0.

        Raises:
            TrainingRefusedError: If no training row has any.
        """
        sums, counts = {True: 0.0, False: 0.0}, {True: 0, False: 0}
        for block in self.sides():
            sums[block.is_training] += float(weight(block).sum())
            counts[block.is_training] += len(block)
        if not sums[True] > 0:
            raise TrainingRefusedError(
                "log", "no row with more than one feasible plan counts.",
                "Train on a log whose decisions had alternatives.",
            )  # fmt: skip
        # Validation rows that all count nothing stay so.
        means = {side: sums[side] / counts[side] or 1.0 for side in sums}

        def scaled(block: Block) -> FloatArray:
            return np.asarray(weight(block) / means[block.is_training])

        return scaled

    def window(self, columns: Mapping[str, ColumnOf]) -> Window:
        """The validation rows as torch reads them.

        Args:
            columns: What is asked of each, by name.
        """
        return Window(self.beyond, columns, self.device)

    def feed(self, columns: Mapping[str, ColumnOf], kept: Kept | None = None) -> Feed:
        """The training rows as a fit visits them.

        Args:
            columns: What is asked of each, by name.
            kept: Which rows; None for all.
        """
        return Feed(self.train, columns, kept, self.device)

    def with_train(self, train: RowStore) -> "Problem":
        """The same problem with other rows to learn from."""
        return replace(self, train=train)
