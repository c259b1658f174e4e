"""Importance-weighted classification on a log's training rows."""

from torch import Tensor

from canopy.domain.errors import ConfigError, TrainingRefusedError
from policy.arrays import FloatArray
from training.awr.losses import awr_loss
from training.data.blocks import Block
from training.data.moments import Moments
from training.importance_weighted.config import ImportanceWeightedConfig
from training.importance_weighted.losses import importance_weights
from training.loop import Fitter
from training.problem import Problem
from training.reward_model import differing_rewards
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
        TrainingRefusedError: If all rewards are the same, or the weights leave too few rows to
            learn from.
    """
    if not config.cap > 0:
        raise ConfigError(
            f"objective.{config.name}.cap", f"expected a positive number, got {config.cap:g}.",
            "It is the largest weight of a row.",
        )  # fmt: skip
    scale = differing_rewards(problem)

    def weight(block: Block) -> FloatArray:
        scaled = scale.scaled(block.reward)
        return importance_weights(scaled, block.propensity, block.keep_prob, config.cap)

    weights, at_cap, rewarded = Moments(), 0, 0
    for block in problem.train.blocks():
        found = weight(block)
        weights.add(found)
        at_cap += int((found >= config.cap).sum())
        rewarded += int((found > 0).sum())
    ess = weights.effective_sample_size
    if not ess >= config.least_ess:
        raise TrainingRefusedError(
            "importance_weighted",
            f"the weights are worth {ess:.0f} rows, fewer than {config.least_ess:g}.",
            f"Lower objective.{config.name}.cap, gather more outcomes, or try objective=direct.",
        )
    column = f"{config.name}.weight"

    def loss(batch: Batch) -> Tensor:
        return awr_loss(batch.scores, batch.feasible, batch.action, batch.column(column)).loss

    return Term(
        name=config.name,
        weight=config.weight,
        loss=loss,
        ess=ess,
        # The keep probability is in the weight already.
        columns={column: problem.of_mean_one(weight)},
        facts={
            "ess": ess,
            "share_at_cap": at_cap / weights.n,
            "share_rewarded": rewarded / weights.n,
        },
    )
