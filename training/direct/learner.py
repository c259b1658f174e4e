"""The direct method on a log's training rows."""

import torch
from torch import Tensor

from training.direct.config import DirectConfig
from training.direct.losses import direct_loss
from training.head import TorchFactoredHead, as_features
from training.loop import Fitter
from training.problem import Problem
from training.reward_model import differing_rewards, stands_for_ess
from training.terms import Batch, Forecast, Term


def term(problem: Problem, config: DirectConfig, fitter: Fitter) -> Term:  # noqa: ARG001 - the signature of every objective
    """Model the reward of the plan taken; there is nothing to fit first.

    Args:
        problem: The rows to learn from.
        config: Its weight.
        fitter: Not used.

    Returns:
        The term.

    Raises:
        TrainingRefusedError: If all rewards are the same.
    """
    scale = differing_rewards(problem)
    reward = f"{config.name}.reward"

    def loss(batch: Batch) -> Tensor:
        return direct_loss(batch.taken_score, batch.column(reward), batch.stands_for)

    def forecast(head: TorchFactoredHead) -> Forecast:
        rows = problem.validation
        with torch.no_grad():
            logit = head.cpu().taken(
                as_features(problem.validation_features), torch.from_numpy(rows.action)
            )
        predicted = scale.unscaled(torch.sigmoid(logit).to(torch.float64).numpy())
        return Forecast(predicted, rows.reward, "reward, validation units")

    return Term(
        name=config.name,
        weight=config.weight,
        loss=loss,
        ess=stands_for_ess(problem),
        columns={reward: lambda block: scale.scaled(block.reward)},
        facts={"reward_low": scale.low, "reward_high": scale.high},
        forecast=forecast,
    )
