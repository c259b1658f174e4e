"""Importance-weighted classification on a log's training rows."""

import numpy as np
from torch import Tensor

from canopy.domain.errors import ConfigError, TrainingRefusedError
from canopy.logs.weights import effective_sample_size
from policy.arrays import FloatArray
from training.awr.losses import awr_loss
from training.data.rows import TrainingRows
from training.importance_weighted.config import ImportanceWeightedConfig
from training.importance_weighted.losses import importance_weights
from training.loop import Fitter
from training.problem import Problem
from training.reward_model import reward_range
from training.terms import Batch, Term


def term(problem: Problem, config: ImportanceWeightedConfig, fitter: Fitter) -> Term:  # noqa: ARG001 - the signature of every objective
    """Imitate what was rewarded; there is nothing to fit first.

    Args:
        problem: The rows to learn from.
        config: Of the weights.
        fitter: Not used.

    Returns:
        The term.

    Raises:
        ConfigError: If the cap is not positive.
        TrainingRefusedError: If no row left a choice, all rewards are the same, or the weights
            leave too few rows to learn from.
    """
    if not config.cap > 0:
        raise ConfigError(
            f"objective.{config.name}.cap", f"expected a positive number, got {config.cap:g}.",
            "It is the largest weight of a row.",
        )  # fmt: skip
    scale = reward_range(problem)
    if scale.width == 0:
        raise TrainingRefusedError(
            "reward", f"is {scale.low:g} on every training row: no plan is better than another.",
            "Train on a reward that differs, or imitate with objective=bc.",
        )  # fmt: skip

    def weights(rows: TrainingRows) -> FloatArray:
        scaled = scale.scaled(rows.reward)
        return importance_weights(scaled, rows.propensity, rows.keep_prob, config.cap)

    inside, beyond = weights(problem.train), weights(problem.validation)
    ess = effective_sample_size(inside)
    if not ess >= config.least_ess:
        raise TrainingRefusedError(
            "importance_weighted",
            f"the weights are worth {ess:.0f} rows, fewer than {config.least_ess:g}.",
            f"Lower objective.{config.name}.cap, gather more outcomes, or try objective=direct.",
        )
    # The keep probability is in the weight already.
    tensors = {
        True: _of_mean_one(problem.inside.of(inside)),
        False: _of_mean_one(problem.beyond.of(beyond)),
    }

    def loss(batch: Batch) -> Tensor:
        weight = tensors[batch.is_training][batch.index]
        return awr_loss(batch.scores, batch.feasible, batch.action, weight).loss

    return Term(
        name=config.name,
        weight=config.weight,
        loss=loss,
        ess=ess,
        facts={
            "ess": ess,
            "share_at_cap": float(np.mean(inside >= config.cap)),
            "share_rewarded": float(np.mean(inside > 0)),
        },
    )


def _of_mean_one(weight: Tensor) -> Tensor:
    mean = weight.mean()
    return weight / mean if mean > 0 else weight
