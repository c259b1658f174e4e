"""What a policy would be worth on logged rows: a self-normalised estimate with its support."""

from dataclasses import dataclass

import numpy as np

from canopy.logs.weights import effective_sample_size
from policy.arrays import FloatArray, IntArray
from training.data.rows import TrainingRows


@dataclass(frozen=True, slots=True)
class ServedValue:
    """An estimate on rows that did not train.

    Attributes:
        value: In reward units; None where no row supports the policy.
        ess: Effective sample size of the importance weights.
        n: Rows.
    """

    value: float | None
    ess: float
    n: int


def value_of(target: FloatArray, rows: TrainingRows) -> ServedValue:
    """Self-normalised inverse propensity scoring of a policy.

    Args:
        target: Shape (n,). The policy's probability of each logged plan.
        rows: The rows, with their propensities.

    Source:
        Swaminathan and Joachims, The Self-Normalized Estimator, NeurIPS 2015.
    """
    weight = target / (rows.propensity * rows.keep_prob)
    total = float(weight.sum())
    value = float(weight @ rows.reward) / total if total > 0 else None
    return ServedValue(value, effective_sample_size(weight), len(rows))


def at_taken(distribution: FloatArray, action: IntArray) -> FloatArray:
    """Probability of the plans taken, shape (n,), from rows of shape (n, n_plans)."""
    return distribution[np.arange(len(action)), action]


def greedy_choice(scores: FloatArray) -> FloatArray:
    """The policy that always takes the best plan: shape (n, n_plans), 0 and 1."""
    chosen = np.zeros_like(scores)
    chosen[np.arange(len(scores)), scores.argmax(axis=1)] = 1.0
    return chosen
