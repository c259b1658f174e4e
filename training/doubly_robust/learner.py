"""Doubly robust policy gradient on a log's training rows."""

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import ConfigError, TrainingRefusedError
from policy.arrays import FloatArray
from training.doubly_robust.config import DoublyRobustConfig, Start
from training.doubly_robust.losses import doubly_robust_loss
from training.loop import Fitter
from training.problem import Problem
from training.reward_model import RewardModels, fit_reward_model, fit_reward_models, reward_range
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
        TrainingRefusedError: If no row left a choice, or all rewards are the same.
    """
    check(config)
    scale = reward_range(problem)
    if scale.width == 0:
        raise TrainingRefusedError(
            "reward", f"is {scale.low:g} on every training row: no plan is better than another.",
            "Train on a reward that differs, or imitate with objective=bc.",
        )  # fmt: skip
    models = fit_reward_models(
        problem, n_folds=config.n_folds, pair_l2=config.model_pair_l2, fitter=fitter
    )
    columns = {
        is_training: (
            rows.of(scale.scaled(logged.reward)),
            rows.of(logged.propensity * logged.keep_prob * _mean_stands_for(logged.keep_prob)),
        )
        for is_training, rows, logged in (
            (True, problem.inside, problem.train),
            (False, problem.beyond, problem.validation),
        )
    }
    fold = torch.from_numpy(models.fold[problem.inside.kept])

    def loss(batch: Batch) -> Tensor:
        reward, propensity = (column[batch.index] for column in columns[batch.is_training])
        expected = _expected(models, batch, fold[batch.index] if batch.is_training else None)
        return doubly_robust_loss(
            batch.log_policy, batch.action, reward, expected, propensity, batch.stands_for,
            config.cap,
        )  # fmt: skip

    start = None
    if config.start is Start.model:
        everything = np.ones(len(problem.train), dtype=np.bool_)
        model = fit_reward_model(problem, everything, pair_l2=config.model_pair_l2, fitter=fitter)
        start = {
            name: value * config.start_scale if name == "table" else value
            for name, value in model.state_dict().items()
        }
    weight = 1.0 / problem.train.keep_prob
    return Term(
        name=config.name,
        weight=config.weight,
        loss=loss,
        ess=float(weight.sum() ** 2 / (weight @ weight)),
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


def _mean_stands_for(keep_prob: FloatArray) -> float:
    # Rows stand for decisions in units of their mean, so that both parts are on one scale.
    return float((1.0 / keep_prob).mean())


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
