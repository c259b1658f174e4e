"""Behaviour cloning on a log's training rows."""

import numpy as np
from torch import Tensor

from training.bc.config import BcConfig
from training.bc.losses import bc_loss
from training.config import OptimConfig
from training.problem import Problem, Weighting
from training.progress import Tick


def weigh(problem: Problem, config: BcConfig, optim: OptimConfig, tick: Tick) -> Weighting:  # noqa: ARG001 - the signature of every objective
    """Every decision counts once; there is nothing to fit first.

    Args:
        problem: The rows to learn from.
        config: Nothing to choose.
        optim: Not used.
        tick: Not used.

    Returns:
        Weights of 1 for training and validation rows.
    """
    return Weighting(
        train=np.ones(len(problem.train)), validation=np.ones(len(problem.validation)), facts={}
    )


def loss(scores: Tensor, feasible: Tensor, action: Tensor, row_weight: Tensor) -> Tensor:
    """The scalar to minimise on one batch."""
    return bc_loss(scores, feasible, action, row_weight).loss
