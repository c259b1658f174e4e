"""Factored reward models, cross-fitted by unit: what a plan should lead to."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from policy.arrays import BoolArray, FloatArray, IntArray
from training.cross_fitting import cross_fitted
from training.data.loader import folds
from training.head import Penalty, TorchFactoredHead, as_features
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
    rewards = problem.train.reward
    return RewardRange(float(rewards.min()), float(rewards.max()))


@dataclass(frozen=True, slots=True)
class RewardModels:
    """One model per fold, each of which saw every other fold.

    Attributes:
        heads: The models, by fold; their scores are logits of the reward's share of its range.
        fold: Shape (n_train,). Fold of each training row.
        scale: The range.
    """

    heads: tuple[TorchFactoredHead, ...]
    fold: IntArray
    scale: RewardRange


def fit_reward_models(
    problem: Problem, *, n_folds: int, pair_l2: float, fitter: Fitter
) -> RewardModels:
    """Fit a model per fold on the rows of all others.

    Args:
        problem: The rows; not all their rewards are the same.
        n_folds: Parts of the units.
        pair_l2: Penalty on the pairs' context part.
        fitter: Fits them.
    """
    fold = folds(problem.train, n_folds)
    return RewardModels(
        heads=tuple(
            fit_reward_model(problem, fold != number, pair_l2=pair_l2, fitter=fitter)
            for number in range(n_folds)
        ),
        fold=fold,
        scale=reward_range(problem),
    )


def fit_reward_model(
    problem: Problem, kept: BoolArray, *, pair_l2: float, fitter: Fitter
) -> TorchFactoredHead:
    """Fit the reward of the plan taken, by logistic regression between its extremes.

    Args:
        problem: The rows.
        kept: Shape (n_train,). Which training rows it may see.
        pair_l2: Penalty on the pairs' context part.
        fitter: Fits them.
    """
    scale = reward_range(problem)
    features = as_features(problem.train_features)
    beyond = as_features(problem.validation_features)
    target = torch.from_numpy(scale.scaled(problem.train.reward).astype(np.float32))
    validation_target = torch.from_numpy(scale.scaled(problem.validation.reward).astype(np.float32))
    action = torch.from_numpy(problem.train.action)
    weight = torch.from_numpy((1.0 / problem.train.keep_prob).astype(np.float32))
    validation_action = torch.from_numpy(problem.validation.action)
    learn = torch.from_numpy(np.flatnonzero(kept))

    def loss(head: TorchFactoredHead, batch: Tensor) -> Tensor:
        rows = learn[batch]
        return torch.nn.functional.binary_cross_entropy_with_logits(
            head.taken(features[rows], action[rows]), target[rows], weight=weight[rows]
        )

    def validation_loss(head: TorchFactoredHead) -> Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(
            head.taken(beyond, validation_action), validation_target
        )

    head = TorchFactoredHead(problem.shape)
    # Validation units stop the fit, not the held-out fold: it must stay unseen.
    fitter.fit(
        head, loss, validation_loss, n_rows=len(learn),
        penalty=Penalty(_MODEL_L2, pair_l2, _TENANT_L2),
        seed=problem.seed, what="reward model",
    )  # fmt: skip
    return head


def cross_fitted_reward(
    problem: Problem, *, n_folds: int, pair_l2: float, fitter: Fitter
) -> tuple[FloatArray, FloatArray]:
    """Predicted reward of the plan taken.

    Args:
        problem: The rows.
        n_folds: Parts of the units.
        pair_l2: Penalty on the pairs' context part.
        fitter: Fits them.

    Returns:
        Shape (n_train,) out of fold, and shape (n_validation,), in reward units.
    """
    scale = reward_range(problem)
    if scale.width == 0:
        low = scale.low
        return np.full(len(problem.train), low), np.full(len(problem.validation), low)
    features = as_features(problem.train_features)
    beyond = as_features(problem.validation_features)
    action = torch.from_numpy(problem.train.action)
    validation_action = torch.from_numpy(problem.validation.action)

    def fit_predict(kept: BoolArray) -> tuple[FloatArray, FloatArray]:
        head = fit_reward_model(problem, kept, pair_l2=pair_l2, fitter=fitter)
        with torch.no_grad():
            inside = torch.sigmoid(head.taken(features, action)).to(torch.float64).numpy()
            outside = torch.sigmoid(head.taken(beyond, validation_action))
        return scale.unscaled(inside), scale.unscaled(outside.to(torch.float64).numpy())

    return cross_fitted(fit_predict, folds(problem.train, n_folds), n_folds)
