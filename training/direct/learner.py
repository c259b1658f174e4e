"""The direct method on a log's training rows."""

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import TrainingRefusedError
from training.direct.config import DirectConfig
from training.direct.losses import direct_loss
from training.head import TorchFactoredHead, as_features
from training.loop import Fitter
from training.problem import Problem
from training.reward_model import reward_range
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
        TrainingRefusedError: If no row left a choice, or all rewards are the same.
    """
    scale = reward_range(problem)
    if scale.width == 0:
        raise TrainingRefusedError(
            "reward", f"is {scale.low:g} on every training row: no plan is better than another.",
            "Train on a reward that differs, or imitate with objective=bc.",
        )  # fmt: skip
    inside = problem.inside.of(scale.scaled(problem.train.reward))
    beyond = problem.beyond.of(scale.scaled(problem.validation.reward))

    def loss(batch: Batch) -> Tensor:
        reward = (inside if batch.is_training else beyond)[batch.index]
        return direct_loss(batch.taken_score, reward, batch.stands_for)

    def forecast(head: TorchFactoredHead) -> Forecast:
        rows = problem.validation
        with torch.no_grad():
            logit = head.taken(
                as_features(problem.validation_features), torch.from_numpy(rows.action)
            )
        predicted = scale.unscaled(torch.sigmoid(logit).to(torch.float64).numpy())
        return Forecast(predicted, rows.reward, "reward, validation units")

    weight = np.ones(len(problem.train)) / problem.train.keep_prob
    return Term(
        name=config.name,
        weight=config.weight,
        loss=loss,
        ess=float(weight.sum() ** 2 / (weight @ weight)),
        facts={"reward_low": scale.low, "reward_high": scale.high},
        forecast=forecast,
    )
