"""Factored reward models, cross-fitted by unit: what a plan should lead to."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import TrainingRefusedError
from policy.arrays import FloatArray
from training.data.blocks import Block, ColumnOf, Window
from training.data.feed import Kept
from training.data.moments import Moments
from training.head import Penalty, TorchFactoredHead
from training.loop import Fitter
from training.problem import Problem

_MODEL_L2: Final = 1e-5
_TENANT_L2: Final = 1e-3


@dataclass(frozen=True, slots=True)
class RewardRange:
    """The extremes of the training rewards, between which rewards are modelled.

    Attributes:
        low: The least.
        high: The greatest.
    """

    low: float
    high: float

    @property
    def width(self) -> float:
        """From the least to the greatest; 0 where all are the same."""
        return self.high - self.low

    def scaled(self, reward: FloatArray) -> FloatArray:
        """Rewards as shares of the range, in [0, 1]; beyond it they are cut."""
        return np.clip((reward - self.low) / self.width, 0.0, 1.0)

    def unscaled(self, share: FloatArray) -> FloatArray:
        """Shares of the range in reward units."""
        return np.asarray(self.low + self.width * share)


def reward_range(problem: Problem) -> RewardRange:
    """The range of a problem's training rewards.

    Args:
        problem: The rows.
    """
    return RewardRange(*problem.train.reward_extremes)


def differing_rewards(problem: Problem) -> RewardRange:
    """The range of training rewards that are not all the same.

    Args:
        problem: The rows.

    Raises:
        TrainingRefusedError: If they are.
    """
    scale = reward_range(problem)
    if scale.width == 0:
        raise TrainingRefusedError(
            "reward", f"is {scale.low:g} on every training row: no plan is better than another.",
            "Train on a reward that differs, or imitate with objective=bc.",
        )  # fmt: skip
    return scale


def stands_for_ess(problem: Problem) -> float:
    """What the training rows are worth, each counted for the decisions it stands for.

    Args:
        problem: The rows.
    """
    sums = Moments()
    for block in problem.train.blocks():
        sums.add(1.0 / block.keep_prob)
    return sums.effective_sample_size


@dataclass(frozen=True, slots=True)
class RewardModels:
    """One model per fold, each of which saw every other fold.

    Attributes:
        heads: The models, by fold; their scores are logits of the reward's share of its range.
        scale: The range.
    """

    heads: tuple[TorchFactoredHead, ...]
    scale: RewardRange

    def expected_taken(self, block: Block) -> FloatArray:
        """The reward expected of each logged plan, shape (n,), in reward units.

        Of a training row by the model that did not see its unit, of a validation row by all.

        Args:
            block: The rows.
        """
        device = self.heads[0].table.device
        features = torch.from_numpy(block.features).to(device)
        action = torch.from_numpy(block.action).to(device)
        with torch.no_grad():
            shares = np.array([
                torch.sigmoid(head.taken(features, action)).cpu().to(torch.float64).numpy()
                for head in self.heads
            ])  # fmt: skip
        if not block.is_training:
            return self.scale.unscaled(shares.mean(axis=0))
        return self.scale.unscaled(shares[block.fold(len(self.heads)), np.arange(len(block))])


def fit_reward_models(
    problem: Problem, *, n_folds: int, pair_l2: float, fitter: Fitter
) -> RewardModels:
    """Fit a model per fold on the rows of all others.

    Args:
        problem: The rows; not all their rewards are the same.
        n_folds: Parts of the units.
        pair_l2: Penalty on the pairs' context part.
        fitter: Fits them.

    Raises:
        TrainingRefusedError: If all rows are in one fold, so that nothing is left to fit on.
    """

    def without(number: int) -> Kept:
        return lambda block: block.fold(n_folds) != number

    return RewardModels(
        heads=tuple(
            fit_reward_model(problem, without(number), pair_l2=pair_l2, fitter=fitter)
            for number in range(n_folds)
        ),
        scale=reward_range(problem),
    )


def fit_reward_model(
    problem: Problem, kept: Kept | None, *, pair_l2: float, fitter: Fitter
) -> TorchFactoredHead:
    """Fit the reward of the plan taken, by logistic regression between its extremes.

    Args:
        problem: The rows.
        kept: Which training rows it may see; None for all.
        pair_l2: Penalty on the pairs' context part.
        fitter: Fits them.

    Raises:
        TrainingRefusedError: If it may see none.
    """
    scale = reward_range(problem)
    columns: dict[str, ColumnOf] = {
        "reward": lambda block: scale.scaled(block.reward),
        "weight": problem.stands_for,
    }
    feed, beyond = problem.feed(columns, kept), problem.window(columns)
    if not feed.n_rows:
        raise TrainingRefusedError(
            "log", f"all {len(problem.train)} training rows are in one fold: no model can be "
            "fitted on the others.", "Train on more units.",
        )  # fmt: skip

    def loss(head: TorchFactoredHead, window: Window, rows: Tensor) -> Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(
            head.taken(window.features[rows], window.action[rows]),
            window.columns["reward"][rows],
            weight=window.columns["weight"][rows],
        )

    def validation_loss(head: TorchFactoredHead) -> Tensor:
        return loss(head, beyond, torch.arange(len(beyond)))

    head = TorchFactoredHead(problem.shape).to(problem.device)
    # Validation units stop the fit, not the held-out fold: it must stay unseen.
    fitter.fit(
        head, loss, validation_loss, feed=feed,
        penalty=Penalty(_MODEL_L2, pair_l2, _TENANT_L2),
        seed=problem.seed, what="reward model",
    )  # fmt: skip
    return head
