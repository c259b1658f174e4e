"""The loss of the direct method."""

import torch
from torch import Tensor


def direct_loss(logit: Tensor, reward: Tensor, row_weight: Tensor) -> Tensor:
    """Logistic loss of rewards in [0, 1].

    Args:
        logit: Shape (n,). Score of the plan taken.
        reward: Shape (n,), in [0, 1].
        row_weight: Shape (n,), of mean 1 over the data.

    Returns:
        Scalar, in nats; least where the mean reward is the logistic of the score, whatever the
        reward's distribution between its extremes.
    """
    return torch.nn.functional.binary_cross_entropy_with_logits(logit, reward, weight=row_weight)
