"""Doubly robust policy gradient on a log's training rows."""

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import ConfigError
from training.data.blocks import ColumnOf
from training.doubly_robust.config import DoublyRobustConfig, Start
from training.doubly_robust.losses import doubly_robust_loss
from training.loop import Fitter
from training.problem import Problem
from training.reward_model import (
    RewardModels,
    differing_rewards,
    fit_reward_model,
    fit_reward_models,
    stands_for_ess,
)
from training.terms import Batch, Term


def term(problem: Problem, config: DoublyRobustConfig, fitter: Fitter) -> Term:
    """Fit reward models, and climb the estimate that they and the log give together.

    Args:
        problem: The rows to learn from.
        config: Of weights and models.
        fitter: Fits what has to be fitted first.

    Returns:
        The term.

    Raises:
        ConfigError: If the configuration names fewer than two folds or a cap below 0.
        TrainingRefusedError: If all rewards are the same.
    """
    check(config)
    scale = differing_rewards(problem)
    models = fit_reward_models(
        problem, n_folds=config.n_folds, pair_l2=config.model_pair_l2, fitter=fitter
    )
    # Rows stand for decisions in units of their mean, so that both parts are on one scale.
    means = {
        True: problem.train.mean_stands_for,
        False: float((1.0 / problem.beyond.keep_prob).mean()),
    }
    reward, propensity, fold = (f"{config.name}.{n}" for n in ("reward", "propensity", "fold"))
    columns: dict[str, ColumnOf] = {
        reward: lambda block: scale.scaled(block.reward),
        propensity: lambda b: b.propensity * b.keep_prob * means[b.is_training],
        fold: lambda block: block.fold(config.n_folds).astype(np.float64),
    }

    def loss(batch: Batch) -> Tensor:
        expected = _expected(models, batch, batch.column(fold) if batch.is_training else None)
        return doubly_robust_loss(
            batch.log_policy, batch.action, batch.column(reward), expected,
            batch.column(propensity), batch.stands_for, config.cap,
        )  # fmt: skip

    start = None
    if config.start is Start.model:
        model = fit_reward_model(problem, None, pair_l2=config.model_pair_l2, fitter=fitter)
        start = {
            name: value * config.start_scale if name == "table" else value
            for name, value in model.state_dict().items()
        }
    return Term(
        name=config.name,
        weight=config.weight,
        loss=loss,
        ess=stands_for_ess(problem),
        columns=columns,
        facts={"reward_low": scale.low, "reward_high": scale.high},
        start=start,
    )


def check(config: DoublyRobustConfig) -> None:
    """Refuse a configuration that cannot be carried out.

    Raises:
        ConfigError: Naming the key.
    """
    if config.n_folds < 2:  # noqa: PLR2004 - one part to fit, one to predict
        raise ConfigError(
            f"objective.{config.name}.n_folds", f"expected at least 2, got {config.n_folds}.",
            "With one fold every row would be corrected by a model that saw it.",
        )  # fmt: skip
    if not config.cap >= 0:
        raise ConfigError(
            f"objective.{config.name}.cap", f"expected at least 0, got {config.cap:g}.",
            "0 leaves the correction out.",
        )  # fmt: skip


def _expected(models: RewardModels, batch: Batch, fold: Tensor | None) -> Tensor:
    """Shape (b, n_plans). Modelled rewards: of the model that did not see the row, or of all."""
    with torch.no_grad():
        found = [torch.sigmoid(head(batch.features)) for head in models.heads]
    if fold is None:
        return torch.stack(found).mean(dim=0)
    expected = found[0]
    for number, predicted in enumerate(found[1:], 1):
        expected = torch.where((fold == number)[:, None], predicted, expected)
    return expected
