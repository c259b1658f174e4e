"""The pairwise loss against a reference policy."""

from torch import Tensor
from torch.nn.functional import logsigmoid


def preference_loss(
    scores: Tensor,
    reference: Tensor | None,
    feasible: Tensor,
    winner: Tensor,
    loser: Tensor,
    share: Tensor,
    beta: float,
) -> Tensor:
    """Minus the mean log-likelihood of verdicts, in each context in which both plans are feasible.

    Args:
        scores: Shape (n, n_plans). The policy's, up to a constant per row.
        reference: Shape (n, n_plans). The reference policy's; None for a uniform one.
        feasible: Shape (n, n_plans) bool.
        winner: Shape (m,). Winning plan of each kind of verdict.
        loser: Shape (m,). Losing plan.
        share: Shape (m,). Share of the verdicts that are of this kind.
        beta: What a log-odds of the policy is multiplied by.

    Returns:
        Scalar, in nats; 0 without a context in which two compared plans are feasible.

    Source:
        Rafailov et al., Direct Preference Optimization, NeurIPS 2023, equation 7.
    """
    # The normaliser of the softmax is the same for both plans of a pair and cancels.
    margin = scores[:, winner] - scores[:, loser]
    if reference is not None:
        margin = margin - (reference[:, winner] - reference[:, loser])
    counted = share * (feasible[:, winner] & feasible[:, loser])
    total = counted.sum()
    if total == 0:
        return margin.sum() * 0.0
    return -(counted * logsigmoid(beta * margin)).sum() / total
