"""The loss of the doubly robust gradient."""

import torch
from torch import Tensor


def doubly_robust_loss(
    log_policy: Tensor,
    action: Tensor,
    reward: Tensor,
    expected: Tensor,
    propensity: Tensor,
    row_weight: Tensor,
    cap: float,
) -> Tensor:
    """Minus the doubly robust value of a policy.

    Args:
        log_policy: Shape (n, n_plans). Log probabilities; -inf where not feasible.
        action: Shape (n,). The logged plan.
        reward: Shape (n,).
        expected: Shape (n, n_plans). A model's rewards, of a model that saw none of these rows.
        propensity: Shape (n,). The logging policy's probability of the logged plan, times that
            of the row being kept.
        row_weight: Shape (n,). How many decisions a row stands for, of mean 1 over the data.
        cap: Largest importance weight.

    Returns:
        Scalar to minimise, in reward units.

    Source:
        Dudik, Langford and Li, Doubly Robust Policy Evaluation and Learning, ICML 2011.
    """
    policy = log_policy.exp()
    # An infeasible plan has probability 0, but 0 times an infinite model would be none.
    modelled = (policy * expected.masked_fill(torch.isinf(log_policy), 0.0)).sum(dim=1)
    taken = action[:, None]
    weight = (policy.gather(1, taken)[:, 0] / propensity).clamp(max=cap)
    correction = weight * (reward - expected.gather(1, taken)[:, 0])
    # The propensity counts dropped rows already; the model's part does not.
    return -torch.mean(row_weight * modelled + correction)
