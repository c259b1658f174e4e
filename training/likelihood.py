"""Log probabilities over each row's feasible plans."""

import torch
from torch import Tensor


def masked_log_softmax(scores: Tensor, feasible: Tensor) -> Tensor:
    """Log-softmax over the feasible plans alone.

    Args:
        scores: Shape (n, n_plans).
        feasible: Shape (n, n_plans) bool, at least one per row.

    Returns:
        Shape (n, n_plans); -inf where not feasible, so that the probability is exactly 0.
    """
    # Before the softmax and not after: a masked score then gets no gradient at all.
    return torch.log_softmax(scores.masked_fill(~feasible, -torch.inf), dim=1)


def log_likelihood(scores: Tensor, feasible: Tensor, action: Tensor) -> Tensor:
    """Log probability of the plans taken, shape (n,)."""
    return masked_log_softmax(scores, feasible).gather(1, action[:, None])[:, 0]
