"""Weights for logs that several policies wrote, or whose propensities are unknown.

A row says more when every policy that could have written it is in the denominator: the plan's
probability under their mixture, not under the one that happened to be in charge.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators.checks import numbers, probabilities, require, rows_of
from eval.estimators.distributions import kept
from eval.estimators.estimate import Estimate, settle
from eval.estimators.ratios import Ratios, columns
from policy.arrays import FloatArray

CLASSIFIER_EDGE: Final = 1e-6
"""How near to 0 and 1 a classifier's probability may come; odds beyond say nothing."""

_ROWS_BY_LOGGERS = 2


def balanced_weight(
    target_taken: ArrayLike,
    logging_taken: ArrayLike,
    n_per_logger: ArrayLike,
    *,
    keep_prob: ArrayLike | None = None,
) -> FloatArray:
    """Target probability of the plan taken over its probability under the mixture of loggers.

    For any of the weighted estimators. Inverse propensity scoring with these weights never has
    more variance than with each row's own logger, and needs overlap with the mixture only.

    Args:
        target_taken: Shape (n,), from 0 to 1. Target policy's probability of the plan that was
            logged, under the mask that was logged.
        logging_taken: Shape (n, n_loggers), from 0 to 1. Probability of that plan under EVERY
            logging policy, whichever wrote the row.
        n_per_logger: Shape (n_loggers,), at least 0. Decisions that each of them made, dropped
            ones included; only their proportions matter.
        keep_prob: Shape (n,), in (0, 1]. Probability with which each row was kept; None where
            every row was.

    Returns:
        Shape (n,), at least 0; the keep probability is divided in.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows and loggers.
        RangeError: If a number is no such probability, no logger made a decision, or a plan taken
            has no probability under any; the row is named, from 1.

    Source:
        Agarwal, Basu, Schnabel and Joachims, Effective Evaluation using Logged Bandit Feedback
        from Multiple Loggers, KDD 2017.
    """
    pi = probabilities("target_taken", target_taken)
    each = np.asarray(logging_taken, dtype=np.float64)
    if each.ndim != _ROWS_BY_LOGGERS or len(each) != len(pi):
        raise ShapeMismatchError("logging_taken", each.shape, (len(pi), *each.shape[1:2]))
    for column in each.T:
        probabilities("logging_taken", column)
    made = numbers("n_per_logger", n_per_logger, each.shape[1])
    require("n_per_logger", made, made >= 0, "a count of at least 0")
    if not made.sum() > 0:
        raise RangeError("n_per_logger", None, float(made.sum()), "a logger that made decisions")
    mixture = each @ (made / made.sum())
    require("logging_taken", mixture, mixture > 0, "a plan that some logger can take")
    with np.errstate(over="ignore"):
        return kept(pi / mixture, keep_prob)


def classifier_weight(
    target_probability: ArrayLike, *, keep_prob: ArrayLike | None = None
) -> FloatArray:
    """ESTIMATED importance weights: odds that a logged row came from the target policy.

    Args:
        target_probability: Shape (n,), from 0 to 1. A classifier's probability that context and
            plan of the row are one of the target's draws and not the log's, cross-fitted: from a
            model that did not see the row's unit, and trained on as many draws as logged rows
            (these weighted by 1 / keep probability where rows were dropped).
        keep_prob: As for `balanced_weight`.

    Returns:
        Shape (n,), above 0; probabilities are cut to 1e-6 from 0 and 1 first.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is no probability; the row is named, from 1.

    Source:
        Sondhi, Arbour and Dimmery, Balanced Off-Policy Evaluation in General Action Spaces,
        AISTATS 2020.
    """
    c = probabilities("target_probability", target_probability)
    c = np.clip(c, CLASSIFIER_EDGE, 1 - CLASSIFIER_EDGE)
    return kept(c / (1 - c), keep_prob)


def classifier_balanced(
    reward: ArrayLike,
    target_probability: ArrayLike,
    *,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Self-normalised reweighing by a classifier's odds, for logs without propensities.

    Args:
        reward: Shape (n,). Observed reward of each logged decision.
        target_probability: As for `classifier_weight`.
        keep_prob: As for `balanced_weight`; the value needs the weights alone, `mean_weight`
            needs this.
        n_decisions: Decisions made, dropped rows included, if logged; None takes the sum of
            1 / keep probability.

    Returns:
        The estimate in reward units, its `basis` being `estimated`: it is as good as the
        classifier, which nothing here can check, and never promotes.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is not finite or no probability; the row is named, from 1.

    Source:
        Sondhi, Arbour and Dimmery, Balanced Off-Policy Evaluation in General Action Spaces,
        AISTATS 2020.
    """
    r = numbers("reward", reward)
    numbers("target_probability", target_probability, len(r))
    w = classifier_weight(target_probability, keep_prob=keep_prob)
    rows = rows_of(len(r), keep_prob, n_decisions)
    ratios = Ratios(columns(w * r), columns(w))
    return settle(ratios, rows, w, basis="estimated")
