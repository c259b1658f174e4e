"""Advantage-weighted regression on a log's training rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from torch import Tensor

from canopy.domain.errors import ConfigError, TrainingRefusedError
from policy.arrays import FloatArray
from training.awr.config import AdvantageKind, AwrConfig
from training.awr.losses import Scale, advantage_weights, awr_loss, standardise
from training.cross_fitting import fit_baseline
from training.data.blocks import Block, ColumnOf
from training.data.moments import Moments
from training.head import TorchFactoredHead
from training.loop import Fitter
from training.problem import Problem
from training.reward_model import fit_reward_models, reward_range
from training.terms import Batch, Forecast, Term

_MOST_FORECASTS: Final = 2**16


@dataclass(frozen=True, slots=True)
class Weighting:
    """How much each decision is imitated.

    Attributes:
        weight: Of a block's rows, in (0, cap]; it depends on no other row of the block.
        expected: What was expected of each before its outcome was seen, in reward units.
        facts: Numbers worth reporting, the effective sample size among them.
    """

    weight: ColumnOf
    expected: ColumnOf
    facts: Mapping[str, float]


def weigh(problem: Problem, config: AwrConfig, fitter: Fitter) -> Weighting:
    """Weigh each decision by how much better it went than expected.

    Args:
        problem: The rows to learn from.
        config: Of the weights.
        fitter: Fits what has to be fitted first.

    Returns:
        The weights.

    Raises:
        ConfigError: If the configuration names fewer than two folds or a penalty of 0.
        RangeError: If beta or cap is not positive.
        TrainingRefusedError: If the weights leave too few rows to learn from.
    """
    check(config)
    baseline = fit_baseline(problem, n_folds=config.n_folds, l2=config.baseline_l2)
    modelled = _modelled(problem, config, fitter)

    def advantage(block: Block) -> FloatArray:
        return (block.reward if modelled is None else modelled(block)) - baseline(block)

    spread = Moments()
    for block in problem.train.blocks():
        spread.add(advantage(block))
    scale = Scale(spread.mean, spread.deviation)

    def weight(block: Block) -> FloatArray:
        return advantage_weights(standardise(advantage(block), scale), config.beta, config.cap)

    weights, at_cap = Moments(), 0
    for block in problem.train.blocks():
        found = weight(block)
        weights.add(found)
        at_cap += int((found >= config.cap * (1 - 1e-12)).sum())
    ess, n_rows = weights.effective_sample_size, weights.n
    if not ess >= config.least_ess_share * n_rows:
        raise TrainingRefusedError(
            "awr",
            f"the weights are worth {ess:.0f} of {n_rows} rows, less than "
            f"{config.least_ess_share:.0%}: only a handful would be imitated.",
            "Raise objective.awr.beta, or gather more outcomes.",
        )
    return Weighting(
        weight=weight,
        expected=baseline if modelled is None else modelled,
        facts={
            "ess": ess,
            "ess_share": ess / n_rows,
            "advantage_mean": scale.mean,
            "advantage_sd": scale.deviation,
            "share_at_cap": at_cap / n_rows,
        },
    )


def _modelled(problem: Problem, config: AwrConfig, fitter: Fitter) -> ColumnOf | None:
    """What a model expects of the logged plan; None where its own outcome is to count."""
    if config.advantage is not AdvantageKind.model:
        return None
    scale = reward_range(problem)
    if scale.width == 0:
        return lambda block: np.full(len(block), scale.low)
    return fit_reward_models(
        problem, n_folds=config.n_folds, pair_l2=config.model_pair_l2, fitter=fitter
    ).expected_taken


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
    column = f"{config.name}.weight"

    def loss(batch: Batch) -> Tensor:
        return awr_loss(batch.scores, batch.feasible, batch.action, batch.column(column)).loss

    def forecast(_: TorchFactoredHead) -> Forecast:
        rows = problem.train.sample(_MOST_FORECASTS)
        return Forecast(found.expected(rows), rows.reward, "reward, out of fold")

    return Term(
        name=config.name,
        weight=config.weight,
        loss=loss,
        ess=found.facts["ess"],
        columns={column: problem.of_mean_one(lambda block: found.weight(block) / block.keep_prob)},
        facts=found.facts,
        forecast=forecast,
    )
