"""A factored reward model: what the plan taken should have led to, cross-fitted by unit."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from policy.arrays import BoolArray, FloatArray
from training.config import OptimConfig
from training.cross_fitting import cross_fitted
from training.data.loader import folds
from training.head import TorchFactoredHead, as_features
from training.loop import fit
from training.problem import Problem
from training.progress import Tick

_MODEL_L2: Final = 1e-5


def cross_fitted_reward(
    problem: Problem, *, n_folds: int, pair_l2: float, optim: OptimConfig, tick: Tick
) -> tuple[FloatArray, FloatArray]:
    """Predicted reward of the plan taken.

    Rewards are scaled to [0, 1] by the training rows' extremes and fitted by logistic
    regression, whose expectation is right for any reward between its extremes.

    Args:
        problem: The rows.
        n_folds: Parts of the units.
        pair_l2: Penalty on the pairs' context part.
        optim: Of the fits.
        tick: Told of every pass.

    Returns:
        Shape (n_train,) out of fold, and shape (n_validation,), in reward units.
    """
    rewards = problem.train.reward
    low, high = float(rewards.min()), float(rewards.max())
    if low == high:
        return np.full(len(problem.train), low), np.full(len(problem.validation), low)
    features = as_features(problem.train_features)
    beyond = as_features(problem.validation_features)
    target = torch.from_numpy(((rewards - low) / (high - low)).astype(np.float32))
    beyond_reward = np.clip((problem.validation.reward - low) / (high - low), 0.0, 1.0)
    validation_target = torch.from_numpy(beyond_reward.astype(np.float32))
    action = torch.from_numpy(problem.train.action)
    weight = torch.from_numpy((1.0 / problem.train.keep_prob).astype(np.float32))
    validation_action = torch.from_numpy(problem.validation.action)

    def loss(head: TorchFactoredHead, rows: Tensor) -> Tensor:
        logits = head.taken(features[rows], action[rows])
        return torch.nn.functional.binary_cross_entropy_with_logits(
            logits, target[rows], weight=weight[rows]
        )

    def validation_loss(head: TorchFactoredHead) -> Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(
            head.taken(beyond, validation_action), validation_target
        )

    def fit_predict(kept: BoolArray) -> tuple[FloatArray, FloatArray]:
        learn = torch.from_numpy(np.flatnonzero(kept))
        head = TorchFactoredHead(problem.shape)
        # Validation units stop the fit, not the held-out fold: it must stay unseen.
        fit(
            head,
            lambda h, rows: loss(h, learn[rows]),
            validation_loss,
            n_rows=len(learn),
            penalties=(_MODEL_L2, pair_l2),
            config=optim,
            seed=problem.seed,
            tick=tick,
            what="reward model",
        )
        with torch.no_grad():
            inside = torch.sigmoid(head.taken(features, action)).to(torch.float64).numpy()
            outside = torch.sigmoid(head.taken(beyond, validation_action))
        return low + (high - low) * inside, low + (high - low) * outside.to(torch.float64).numpy()

    return cross_fitted(fit_predict, folds(problem.train, n_folds), n_folds)
