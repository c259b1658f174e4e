"""Rows as torch reads them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import TrainingRefusedError
from policy.arrays import BoolArray, FloatArray
from training.data.rows import TrainingRows


@dataclass(frozen=True, slots=True)
class ChoiceRows:
    """The rows that left a choice: one with a single feasible plan moves no policy.

    Attributes:
        kept: Shape (n_rows,) bool. Which rows these are, of those they were taken from.
        features: Shape (n, d) float32.
        feasible: Shape (n, n_plans) bool.
        action: Shape (n,). The logged plan.
        stands_for: Shape (n,). One over the keep probability, of mean 1.
    """

    kept: BoolArray
    features: Tensor
    feasible: Tensor
    action: Tensor
    stands_for: Tensor

    def __len__(self) -> int:
        return len(self.action)

    def weights(self, rows: TrainingRows, weight: FloatArray) -> Tensor:
        """How much these rows count, of mean 1: a weight, times the decisions each stands for.

        Args:
            rows: All rows, those without a choice included.
            weight: Shape (n_rows,), at least 0.

        Raises:
            TrainingRefusedError: If none counts.
        """
        counted = weight[self.kept] / rows.keep_prob[self.kept]
        if not counted.sum() > 0:
            raise TrainingRefusedError(
                "log", "no row with more than one feasible plan counts.",
                "Train on a log whose decisions had alternatives.",
            )  # fmt: skip
        return torch.from_numpy((counted / counted.mean()).astype(np.float32))

    def of(self, values: FloatArray) -> Tensor:
        """These rows' part of a column, as float32.

        Args:
            values: Shape (n_rows,). A value per row, those without a choice included.
        """
        return torch.from_numpy(np.ascontiguousarray(values[self.kept], dtype=np.float32))


def choice_rows(rows: TrainingRows, features: FloatArray) -> ChoiceRows:
    """The rows that left a choice.

    Args:
        rows: All rows.
        features: Shape (n_rows, d): encoded contexts.

    Raises:
        TrainingRefusedError: If none did.
    """
    kept = rows.has_choice
    if not kept.any():
        raise TrainingRefusedError(
            "log", "no row with more than one feasible plan counts: there is nothing to choose.",
            "Train on a log whose decisions had alternatives.",
        )  # fmt: skip
    stands_for = 1.0 / rows.keep_prob[kept]
    return ChoiceRows(
        kept=kept,
        features=torch.from_numpy(np.ascontiguousarray(features[kept], dtype=np.float32)),
        feasible=torch.from_numpy(rows.feasible[kept]),
        action=torch.from_numpy(rows.action[kept]),
        stands_for=torch.from_numpy((stands_for / stands_for.mean()).astype(np.float32)),
    )
