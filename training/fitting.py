"""Fitting a policy's head: once per penalty, each then judged as it would be served."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import ConfigError, TrainingRefusedError
from policy.arrays import FloatArray
from policy.distributions import distribution
from policy.heads import FactoredHead
from training.config import HeadConfig, OptimConfig, ServingConfig
from training.data.rows import TrainingRows
from training.head import TorchFactoredHead, as_features
from training.loop import Curve, fit
from training.objectives import Loss
from training.problem import Problem, Weighting
from training.progress import Tick
from training.served_value import ServedValue, at_taken, greedy_choice, value_of

_BLOCK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to serve one fitted head.

    Attributes:
        pair_l2: Penalty it was fitted with.
        temperature: What its scores are divided by.
        served: Its estimated value on validation units, floor included.
    """

    pair_l2: float
    temperature: float
    served: ServedValue


@dataclass(frozen=True, slots=True)
class Fitted:
    """The head that serves best on validation units.

    Attributes:
        head: The head.
        chosen: How it is served. Its value was picked as the largest of many on these rows, so
            it flatters: evidence comes from the reserve.
        greedy: Value of always taking the likeliest plan, without the floor.
        curve: How its fit went.
        candidates: Everything that was tried, in order.
    """

    head: TorchFactoredHead
    chosen: Candidate
    greedy: ServedValue
    curve: Curve
    candidates: tuple[Candidate, ...]


def fit_policy(
    problem: Problem,
    weighting: Weighting,
    loss: Loss,
    *,
    head: HeadConfig,
    optim: OptimConfig,
    serving: ServingConfig,
    tick: Tick,
) -> Fitted:
    """Fit one head per penalty and keep the one that serves best on validation units.

    Args:
        problem: The rows.
        weighting: How much each counts.
        loss: Of a batch.
        head: Penalties to try.
        optim: Of the optimiser.
        serving: Floor, temperatures, and the least support an estimate needs.
        tick: Told of every pass.

    Raises:
        ConfigError: If there is nothing to try.
        TrainingRefusedError: If no row leaves a choice, or the validation rows support no
            temperature.
    """
    penalties = list(dict.fromkeys(head.pair_l2)) if problem.shape.pairs else head.pair_l2[:1]
    for key, values in (
        ("head.pair_l2", penalties),
        ("serving.temperatures", serving.temperatures),
    ):
        if not values:
            raise ConfigError(key, "is empty.", "Name at least one value to try.")
    fits = [
        _fit_one(problem, weighting, loss, (head.l2, pair_l2), optim, tick) for pair_l2 in penalties
    ]
    tried = [
        (Candidate(pair_l2, temperature, served), fitted, curve)
        for pair_l2, (fitted, curve) in zip(penalties, fits, strict=True)
        for temperature, served in _served(fitted, problem, serving)
    ]
    usable = [
        entry
        for entry in tried
        if entry[0].served.value is not None and entry[0].served.ess >= serving.least_ess
    ]
    if not usable:
        most = max(candidate.served.ess for candidate, _, _ in tried)
        raise TrainingRefusedError(
            "serving.temperatures",
            f"validation supports none of them: the largest effective sample size is {most:.1f}, "
            f"serving.least_ess asks for {serving.least_ess:g}.",
            "Train on a log with more rows or more overlap, or try higher temperatures.",
        )
    # Of equals the first: the weakest penalty and the lowest temperature.
    chosen, best, curve = max(usable, key=lambda entry: entry[0].served.value or 0.0)
    return Fitted(
        head=best,
        chosen=chosen,
        greedy=_greedy(best, problem),
        curve=curve,
        candidates=tuple(candidate for candidate, _, _ in tried),
    )


def numpy_head(head: TorchFactoredHead) -> FactoredHead:
    """The head as serving computes it."""
    return FactoredHead(head.shape.levels, head.named_weights())


def _fit_one(
    problem: Problem,
    weighting: Weighting,
    loss: Loss,
    penalties: tuple[float, float],
    optim: OptimConfig,
    tick: Tick,
) -> tuple[TorchFactoredHead, Curve]:
    train = _tensors(problem.train, problem.train_features, weighting.train)
    beyond = _tensors(problem.validation, problem.validation_features, weighting.validation)
    head = TorchFactoredHead(problem.shape)
    step = max(1, _BLOCK_CELLS // len(problem.shape.levels))

    def loss_of(fitted: TorchFactoredHead, rows: Tensor) -> Tensor:
        features, feasible, action, weight = (part[rows] for part in train)
        return loss(fitted(features), feasible, action, weight)

    def validation_loss(fitted: TorchFactoredHead) -> Tensor:
        n = len(beyond[0])
        total = torch.zeros(())
        for start in range(0, n, step):
            features, feasible, action, weight = (part[start : start + step] for part in beyond)
            total = total + loss(fitted(features), feasible, action, weight) * len(features)
        return total / max(1, n)

    curve = fit(
        head, loss_of, validation_loss, n_rows=len(train[0]), penalties=penalties, config=optim,
        seed=problem.seed, tick=tick, what="policy",
    )  # fmt: skip
    return head, curve


def _tensors(rows: TrainingRows, features: FloatArray, weight: FloatArray) -> tuple[Tensor, ...]:
    """Rows that leave a choice, as tensors, their weights scaled to a mean of 1.

    Raises:
        TrainingRefusedError: If none does, or none counts.
    """
    # A row with one feasible plan has log probability 0 whatever the head says.
    has_choice = rows.has_choice
    counted = weight[has_choice] / rows.keep_prob[has_choice]
    if not counted.sum() > 0:
        raise TrainingRefusedError(
            "log", "no row with more than one feasible plan counts: there is nothing to choose.",
            "Train on a log whose decisions had alternatives.",
        )  # fmt: skip
    return (
        as_features(features[has_choice]),
        torch.from_numpy(rows.feasible[has_choice]),
        torch.from_numpy(rows.action[has_choice]),
        torch.from_numpy((counted / counted.mean()).astype(np.float32)),
    )


def _served(
    head: TorchFactoredHead, problem: Problem, serving: ServingConfig
) -> list[tuple[float, ServedValue]]:
    rows = problem.validation
    scores = numpy_head(head).scores(problem.validation_features)
    found = []
    for temperature in serving.temperatures:
        target = distribution(scores / temperature, rows.feasible, serving.floor)
        found.append((temperature, value_of(at_taken(target, rows.action), rows)))
    return found


def _greedy(head: TorchFactoredHead, problem: Problem) -> ServedValue:
    rows = problem.validation
    scores = numpy_head(head).scores(problem.validation_features)
    chosen = greedy_choice(np.where(rows.feasible, scores, -np.inf))
    return value_of(at_taken(chosen, rows.action), rows)
