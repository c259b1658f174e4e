"""The weights and the loss of advantage-weighted regression."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import RangeError
from policy.arrays import FloatArray
from training.likelihood import log_likelihood

STANDARDISING_STEP: Final = 1e-5
"""Added to the standard deviation, as in the released code of the method."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What advantages are standardised with.

    Attributes:
        mean: Of the training rows' advantages, in reward units.
        deviation: Their standard deviation; 0 where all are alike.
    """

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class AwrLoss:
    """The loss of one batch.

    Attributes:
        loss: Scalar to minimise, in nats.
        log_likelihood: Shape (n,). Log probability of each logged plan among its feasible ones.
    """

    loss: Tensor
    log_likelihood: Tensor


def standardise(advantage: FloatArray, scale: Scale) -> FloatArray:
    """Advantages in standard deviations from their mean, shape (n,); zeros where all are alike."""
    if scale.deviation <= 0:
        return np.zeros(len(advantage))
    return (advantage - scale.mean) / (scale.deviation + STANDARDISING_STEP)


def advantage_weights(advantage: FloatArray, beta: float, cap: float) -> FloatArray:
    """How much each decision is imitated: exp(A / beta), at most `cap`.

    Args:
        advantage: Shape (n,), standardised.
        beta: Temperature, above 0.
        cap: Largest weight, above 0.

    Returns:
        Shape (n,), positive, at most `cap`; small ones may round to 0.

    Raises:
        RangeError: If beta or cap is not positive and finite.

    Source:
        Peng, Kumar, Zhang and Levine, Advantage-Weighted Regression, 2019, equation 8.
    """
    for name, value in (("beta", beta), ("cap", cap)):
        if not 0 < value < math.inf:
            raise RangeError(name, None, value, "a positive finite number")
    # The exponent is cut and not the weight: exp of a large advantage overflows.
    with np.errstate(over="ignore"):
        return np.exp(np.minimum(advantage / beta, math.log(cap)))


def awr_loss(scores: Tensor, feasible: Tensor, action: Tensor, row_weight: Tensor) -> AwrLoss:
    """Weighted masked cross-entropy with the logged plan.

    Args:
        scores: Shape (n, n_plans).
        feasible: Shape (n, n_plans) bool: the logged feasible set.
        action: Shape (n,). The logged plan.
        row_weight: Shape (n,). Advantage weights, of mean 1 over the data, so that minibatches
            average to the loss of the whole.

    Returns:
        The loss; a row with one feasible plan adds exactly 0 and no gradient.
    """
    likelihood = log_likelihood(scores, feasible, action)
    return AwrLoss(-torch.mean(row_weight * likelihood), likelihood)
