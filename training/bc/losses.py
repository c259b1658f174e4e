"""The loss of behaviour cloning."""

from dataclasses import dataclass

import torch
from torch import Tensor

from training.likelihood import log_likelihood


@dataclass(frozen=True, slots=True)
class BcLoss:
    """The loss of one batch.

    Attributes:
        loss: Scalar to minimise, in nats.
        log_likelihood: Shape (n,). Log probability of each logged plan among its feasible ones.
    """

    loss: Tensor
    log_likelihood: Tensor


def bc_loss(scores: Tensor, feasible: Tensor, action: Tensor, row_weight: Tensor) -> BcLoss:
    """Masked cross-entropy with the logged plan.

    Args:
        scores: Shape (n, n_plans).
        feasible: Shape (n, n_plans) bool: the logged feasible set.
        action: Shape (n,). The logged plan.
        row_weight: Shape (n,). How many decisions a row stands for, of mean 1 over the data.

    Returns:
        The loss; a row with one feasible plan adds exactly 0 and no gradient.
    """
    likelihood = log_likelihood(scores, feasible, action)
    return BcLoss(-torch.mean(row_weight * likelihood), likelihood)
