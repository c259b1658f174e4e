"""Estimators that lean on a reward model; it must not have seen the rows it is used on."""

import numpy as np
from numpy.typing import ArrayLike

from eval.estimators.checks import Rows, numbers, rows_of, weights
from eval.estimators.estimate import Estimate, settle
from eval.estimators.ratios import Ratios, columns
from policy.arrays import FloatArray


def direct_method(
    expected_reward: ArrayLike,
    *,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """The reward model's own answer: no variance of weights, and all of the model's bias.

    Args:
        expected_reward: Shape (n,). Model's reward under the target policy: its predictions for
            the feasible plans, averaged with the target's probabilities.
        keep_prob: Shape (n,), in (0, 1]. Probability with which each row was kept; None where
            every row was.
        n_decisions: Decisions made, dropped rows included, if logged; None takes the sum of
            1 / keep probability.

    Returns:
        The estimate in reward units, without weight diagnostics. Model-based: it never promotes.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is not finite or a keep probability lies outside (0, 1]; the row
            is named, from 1.

    Source:
        Beygelzimer and Langford, The Offset Tree, KDD 2009.
    """
    m = numbers("expected_reward", expected_reward)
    rows = rows_of(len(m), keep_prob, n_decisions)
    with np.errstate(over="ignore"):
        ratios = Ratios(columns(m * rows.decisions), columns(rows.decisions))
    return settle(ratios, rows, None, basis="model")


def doubly_robust(
    reward: ArrayLike,
    weight: ArrayLike,
    q_taken: ArrayLike,
    expected_reward: ArrayLike,
    *,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """The model's answer corrected by reweighed residuals: unbiased where the weights are right.

    Args:
        reward: Shape (n,). Observed reward of each logged decision.
        weight: Shape (n,), at least 0. Target probability over propensity; where rows were
            dropped, over propensity times keep probability.
        q_taken: Shape (n,). Model's reward of the plan taken.
        expected_reward: As for `direct_method`.
        keep_prob: As for `direct_method`.
        n_decisions: As for `direct_method`.

    Returns:
        The estimate in reward units; equals `ips` for a model that predicts 0.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: As for `direct_method`, or if a weight is negative.

    Source:
        Dudik, Langford and Li, Doubly Robust Policy Evaluation and Learning, ICML 2011.
    """
    r = numbers("reward", reward)
    w = weights(weight, len(r))
    residual, expected, rows = _model(r, w, q_taken, expected_reward, keep_prob, n_decisions)
    ratios = Ratios(columns(expected + residual), columns(rows.decisions))
    return settle(ratios, rows, w)


def self_normalized_dr(
    reward: ArrayLike,
    weight: ArrayLike,
    q_taken: ArrayLike,
    expected_reward: ArrayLike,
    *,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Doubly robust with its correction divided by the sum of weights instead of decisions.

    Args:
        reward: As for `doubly_robust`.
        weight: As for `doubly_robust`.
        q_taken: As for `doubly_robust`.
        expected_reward: As for `doubly_robust`.
        keep_prob: As for `doubly_robust`.
        n_decisions: As for `doubly_robust`.

    Returns:
        The estimate in reward units; equals `snips` for a model that predicts 0.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: As for `doubly_robust`.

    Source:
        Robins, Sued, Lei-Gomez and Rotnitzky, Comment: Performance of Double-Robust Estimators,
        Statistical Science 2007.
    """
    r = numbers("reward", reward)
    w = weights(weight, len(r))
    residual, expected, rows = _model(r, w, q_taken, expected_reward, keep_prob, n_decisions)
    ratios = Ratios(columns(expected, residual), columns(rows.decisions, w))
    return settle(ratios, rows, w)


def _model(
    reward: FloatArray,
    weight: FloatArray,
    q_taken: ArrayLike,
    expected_reward: ArrayLike,
    keep_prob: ArrayLike | None,
    n_decisions: float | None,
) -> tuple[FloatArray, FloatArray, Rows]:
    """Reweighed residuals and the model's expectation per row, both of shape (n,)."""
    n = len(reward)
    q = numbers("q_taken", q_taken, n)
    m = numbers("expected_reward", expected_reward, n)
    rows = rows_of(n, keep_prob, n_decisions)
    with np.errstate(over="ignore"):
        return weight * (reward - q), m * rows.decisions, rows
