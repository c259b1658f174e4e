"""Advantage-weighted regression on a log's training rows."""

import numpy as np
from torch import Tensor

from canopy.domain.errors import ConfigError, TrainingRefusedError
from canopy.logs.weights import effective_sample_size
from policy.arrays import BoolArray, FloatArray
from training.awr.config import AdvantageKind, AwrConfig
from training.awr.losses import Scale, advantage_weights, awr_loss, standardise
from training.cross_fitting import cross_fitted, ridge
from training.data.loader import folds
from training.head import TorchFactoredHead
from training.loop import Fitter
from training.problem import Problem, Weighting
from training.reward_model import cross_fitted_reward
from training.terms import Batch, Forecast, Term


def weigh(problem: Problem, config: AwrConfig, fitter: Fitter) -> Weighting:
    """Weigh each decision by how much better it went than expected.

    Args:
        problem: The rows to learn from.
        config: Of the weights.
        fitter: Fits what has to be fitted first.

    Returns:
        Weights in (0, cap] for training and validation rows, with the effective sample size of
        the training rows' among the facts.

    Raises:
        ConfigError: If the configuration names fewer than two folds or a penalty of 0.
        RangeError: If beta or cap is not positive.
        TrainingRefusedError: If the weights leave too few rows to learn from.
    """
    check(config)
    baseline, validation_baseline = baselines(problem, config)
    is_model = config.advantage is AdvantageKind.model
    if is_model:
        outcome, validation_outcome = cross_fitted_reward(
            problem, n_folds=config.n_folds, pair_l2=config.model_pair_l2, fitter=fitter
        )
    else:
        outcome, validation_outcome = problem.train.reward, problem.validation.reward
    advantage = outcome - baseline
    scale = Scale.of(advantage)
    weights = advantage_weights(standardise(advantage, scale), config.beta, config.cap)
    ess = effective_sample_size(weights)
    if not ess >= config.least_ess_share * len(weights):
        raise TrainingRefusedError(
            "awr",
            f"the weights are worth {ess:.0f} of {len(weights)} rows, less than "
            f"{config.least_ess_share:.0%}: only a handful would be imitated.",
            "Raise objective.awr.beta, or gather more outcomes.",
        )
    validation = standardise(validation_outcome - validation_baseline, scale)
    return Weighting(
        train=weights,
        validation=advantage_weights(validation, config.beta, config.cap),
        facts={
            "ess": ess,
            "ess_share": ess / len(weights),
            "advantage_mean": scale.mean,
            "advantage_sd": scale.deviation,
            "share_at_cap": float(np.mean(weights >= config.cap * (1 - 1e-12))),
        },
        forecast=outcome if is_model else baseline,
    )


def check(config: AwrConfig) -> None:
    """Refuse a configuration that cannot be carried out.

    Raises:
        ConfigError: Naming the key.
    """
    if config.n_folds < 2:  # noqa: PLR2004 - one part to fit, one to predict
        raise ConfigError(
            "objective.awr.n_folds", f"expected at least 2, got {config.n_folds}.",
            "With one fold every row would be predicted by a model that saw it.",
        )  # fmt: skip
    if not config.baseline_l2 > 0:
        raise ConfigError(
            "objective.awr.baseline_l2", f"expected a positive number, got {config.baseline_l2:g}.",
            "Categories that add up to one need it.",
        )  # fmt: skip


def baselines(problem: Problem, config: AwrConfig) -> tuple[FloatArray, FloatArray]:
    """The value expected in each context whatever the plan: ridge on features, cross-fitted.

    Returns:
        Shape (n_train,) out of fold, and shape (n_validation,), in reward units.
    """
    inside, outside = problem.train_features, problem.validation_features
    row_weight = 1.0 / problem.train.keep_prob

    def fit_predict(kept: BoolArray) -> tuple[FloatArray, FloatArray]:
        *slopes, intercept = ridge(
            inside[kept], problem.train.reward[kept], row_weight[kept], config.baseline_l2
        )
        return inside @ np.array(slopes) + intercept, outside @ np.array(slopes) + intercept

    return cross_fitted(fit_predict, folds(problem.train, config.n_folds), config.n_folds)


def term(problem: Problem, config: AwrConfig, fitter: Fitter) -> Term:
    """Imitate what went better than expected.

    Args:
        problem: The rows to learn from.
        config: Of the weights.
        fitter: Fits what has to be fitted first.

    Returns:
        The term.

    Raises:
        ConfigError: As for `weigh`.
        RangeError: As for `weigh`.
        TrainingRefusedError: As for `weigh`, or if no row left a choice.
    """
    found = weigh(problem, config, fitter)
    inside = problem.inside.weights(problem.train, found.train)
    beyond = problem.beyond.weights(problem.validation, found.validation)

    def loss(batch: Batch) -> Tensor:
        weight = (inside if batch.is_training else beyond)[batch.index]
        return awr_loss(batch.scores, batch.feasible, batch.action, weight).loss

    def forecast(_: TorchFactoredHead) -> Forecast:
        expected = problem.train.reward if found.forecast is None else found.forecast
        return Forecast(expected, problem.train.reward, "reward, out of fold")

    return Term(
        name=config.name,
        weight=config.weight,
        loss=loss,
        ess=effective_sample_size(found.train),
        facts=found.facts,
        forecast=forecast,
    )
