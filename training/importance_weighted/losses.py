"""The weights of importance-weighted classification; its loss is weighted cross-entropy."""

import numpy as np

from policy.arrays import FloatArray


def importance_weights(
    reward: FloatArray, propensity: FloatArray, keep_prob: FloatArray, cap: float
) -> FloatArray:
    """How much each decision is imitated.

    Args:
        reward: Shape (n,), in [0, 1].
        propensity: Shape (n,), in (0, 1]. The logging policy's probability of the logged plan.
        keep_prob: Shape (n,), in (0, 1]. Probability with which the row was kept.
        cap: Largest weight.

    Returns:
        Shape (n,), at least 0; 0 where nothing was gained.

    Source:
        Beygelzimer and Langford, The Offset Tree for Learning with Partial Labels, KDD 2009,
        section on importance-weighted classification.
    """
    return np.minimum(reward / (propensity * keep_prob), cap)
