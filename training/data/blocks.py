"""Rows that left a choice, some at a time: as numpy holds them, and as torch reads them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from policy.arrays import BoolArray, FloatArray, IntArray
from training.data.rows import TrainingRows, fold_places

Float32Array: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of training or of validation; each had more than one feasible plan.

    Attributes:
        position: Shape (n,). Which rows, among all such rows.
        features: Shape (n, d): encoded contexts.
        feasible: Shape (n, n_plans) bool.
        action: Shape (n,). The logged plan.
        propensity: Shape (n,), in (0, 1].
        keep_prob: Shape (n,), in (0, 1].
        reward: Shape (n,), in reward units.
        fold_place: Shape (n,), in [0, 1): where the row's unit lies when units are cut into folds.
        is_training: Whether they train, or are of validation units.
    """

    position: IntArray
    features: Float32Array
    feasible: BoolArray
    action: IntArray
    propensity: FloatArray
    keep_prob: FloatArray
    reward: FloatArray
    fold_place: FloatArray
    is_training: bool

    def __len__(self) -> int:
        return len(self.action)

    def take(self, rows: BoolArray | IntArray) -> "Block":
        """Some of the rows, by a mask or by index."""
        taken = {
            part.name: getattr(self, part.name)[rows]
            for part in fields(self)
            if part.name != "is_training"
        }
        return Block(**taken, is_training=self.is_training)

    def fold(self, n_folds: int) -> IntArray:
        """The fold of each row, shape (n,); all rows of a unit are in one."""
        found: IntArray = (self.fold_place * n_folds).astype(np.intp)
        return found


ColumnOf: TypeAlias = Callable[[Block], FloatArray]
"""A number per row of a block, shape (n,): a weight, a target, a fold."""


def block_of(
    rows: TrainingRows, features: FloatArray, *, is_training: bool, first: int = 0
) -> Block:
    """The rows that left a choice.

    Args:
        rows: All rows.
        features: Shape (n_rows, d): encoded contexts.
        is_training: Whether they train.
        first: Position of the first of them.
    """
    kept = rows.has_choice
    n = int(np.count_nonzero(kept))
    return Block(
        position=np.arange(first, first + n, dtype=np.intp),
        features=np.ascontiguousarray(features[kept], dtype=np.float32),
        feasible=rows.feasible[kept],
        action=rows.action[kept],
        propensity=rows.propensity[kept],
        keep_prob=rows.keep_prob[kept],
        reward=rows.reward[kept],
        fold_place=fold_places(rows)[kept],
        is_training=is_training,
    )


class Window:
    """A block as torch reads it, with what is asked of each row.

    Args:
        block: The rows.
        columns: What is asked, by name.
        device: Where it shall lie.
    """

    def __init__(self, block: Block, columns: Mapping[str, ColumnOf], device: torch.device) -> None:
        self.features = torch.from_numpy(block.features).to(device)
        self.feasible = torch.from_numpy(block.feasible).to(device)
        self.action = torch.from_numpy(block.action).to(device)
        self.position = torch.from_numpy(block.position)
        self.is_training = block.is_training
        self.columns: dict[str, Tensor] = {
            name: torch.from_numpy(np.ascontiguousarray(of(block), dtype=np.float32)).to(device)
            for name, of in columns.items()
        }

    def __len__(self) -> int:
        return len(self.action)
