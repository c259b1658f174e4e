"""Estimators that weigh levels of factors instead of whole plans.

Where the reward depends on some factors only, plans that share their levels need not be told
apart. Their weight is the ratio of two JOINT sums over those plans. A product of ratios, one per
factor, is another number: it ignores that policies choose factors together.
"""

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import ShapeMismatchError
from eval.estimators.checks import require
from eval.estimators.distributions import actions, at, distributions, kept, took
from eval.estimators.estimate import Estimate
from eval.estimators.inverse_propensity import ips
from eval.estimators.model_based import doubly_robust
from policy.arrays import FloatArray, IntArray

_PLANS_BY_FACTORS = 2


def marginal_weight(
    target: ArrayLike,
    logging: ArrayLike,
    factor_levels: ArrayLike,
    taken: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    keep_prob: ArrayLike | None = None,
) -> FloatArray:
    """Target over logging probability of the taken plan's levels in the chosen factors.

    Args:
        target: Shape (n, n_plans). Target policy's distributions under the logged masks.
        logging: Shape (n, n_plans). Logging policy's distributions.
        factor_levels: Shape (n_plans, n_factors). Levels of every plan in the chosen factors,
            and only those: all of a catalog's factors give the importance weight, none gives 1.
        taken: Shape (n,). Index of the plan taken.
        mask: Shape (n, n_plans). True where a plan was feasible; None takes the policies' word.
        keep_prob: Shape (n,), in (0, 1]. Probability with which each row was kept; None where
            every row was.

    Returns:
        Shape (n,), at least 0; the keep probability is divided in.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows and plans.
        RangeError: If a distribution is none or leaves the mask, a level is NaN, or a plan taken
            had no probability; the row is named, from 1.

    Source:
        Saito and Joachims, Off-Policy Evaluation for Large Action Spaces via Embeddings,
        ICML 2022.
    """
    pi_e = distributions("target", target, mask=mask)
    pi_b = distributions("logging", logging, pi_e.shape, mask=mask)
    action = actions(taken, *pi_e.shape)
    took("logging", at(pi_b, action))
    tuples = level_tuples(factor_levels, pi_e.shape[1])
    if tuples.max(initial=0) == 0:
        return kept(np.ones(len(action)), keep_prob)
    weight = np.empty(len(action))
    found = tuples[action]
    for level_tuple in np.unique(found):
        rows = np.flatnonzero(found == level_tuple)
        plans = np.flatnonzero(tuples == level_tuple)
        shared = np.ix_(rows, plans)
        weight[rows] = pi_e[shared].sum(axis=1) / pi_b[shared].sum(axis=1)
    return kept(weight, keep_prob)


def unsupported_mass(
    target: ArrayLike,
    logging: ArrayLike,
    factor_levels: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
) -> FloatArray:
    """Target's probability on what the logging policy never takes.

    Args:
        target: As for `marginal_weight`.
        logging: As for `marginal_weight`.
        factor_levels: As for `marginal_weight`: counts level combinations never taken; None
            counts plans.
        mask: As for `marginal_weight`.

    Returns:
        Shape (n,), from 0 to 1. No weighted estimator sees the rewards of this part.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows and plans.
        RangeError: If a distribution is none or leaves the mask, or a level is NaN.
    """
    pi_e = distributions("target", target, mask=mask)
    pi_b = distributions("logging", logging, pi_e.shape, mask=mask)
    if factor_levels is None:
        return np.asarray(np.where(pi_b > 0, 0.0, pi_e).sum(axis=1))
    tuples = level_tuples(factor_levels, pi_e.shape[1])
    mass = np.zeros(len(pi_e))
    for level_tuple in np.unique(tuples):
        plans = tuples == level_tuple
        mass += np.where((pi_b[:, plans] > 0).any(axis=1), 0.0, pi_e[:, plans].sum(axis=1))
    return mass


def marginalized_ips(
    reward: ArrayLike,
    weight: ArrayLike,
    *,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Inverse propensity scoring over levels: unbiased if the reward depends on them only.

    Args:
        reward: Shape (n,). Observed reward of each logged decision.
        weight: Shape (n,), at least 0. Of `marginal_weight`.
        keep_prob: Shape (n,), in (0, 1]. Probability with which each row was kept; None where
            every row was.
        n_decisions: Decisions made, dropped rows included, if logged; None takes the sum of
            1 / keep probability.

    Returns:
        The estimate in reward units; ESS, mean and largest weight are those of the levels.
        Refused without rows, weight or overlap.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is not finite, a weight is negative, or a keep probability lies
            outside (0, 1]; the row is named, from 1.

    Source:
        Saito and Joachims, Off-Policy Evaluation for Large Action Spaces via Embeddings,
        ICML 2022.
    """
    return ips(reward, weight, keep_prob=keep_prob, n_decisions=n_decisions)


def marginal_dr(
    reward: ArrayLike,
    weight: ArrayLike,
    q_taken: ArrayLike,
    expected_reward: ArrayLike,
    *,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Doubly robust over levels: the model need only tell plans of equal levels apart.

    Args:
        reward: Shape (n,). Observed reward of each logged decision.
        weight: Shape (n,), at least 0. Of `marginal_weight`.
        q_taken: Shape (n,). Model's reward of the plan taken.
        expected_reward: Shape (n,). Model's reward under the target policy, over all plans.
        keep_prob: As for `marginalized_ips`.
        n_decisions: As for `marginalized_ips`.

    Returns:
        The estimate in reward units, unbiased where the model's differences between plans of the
        same levels are right; ESS, mean and largest weight are those of the levels.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: As for `marginalized_ips`.

    Source:
        Saito, Ren and Joachims, Off-Policy Evaluation for Large Action Spaces via Conjunct
        Effect Modeling, ICML 2023: OffCEM, its clusters being the combinations of levels.
    """
    return doubly_robust(
        reward, weight, q_taken, expected_reward, keep_prob=keep_prob, n_decisions=n_decisions
    )


def level_tuples(factor_levels: ArrayLike, n_plans: int) -> IntArray:
    """Number of each plan's combination of levels, shape (n_plans,), from 0.

    Args:
        factor_levels: Shape (n_plans, n_factors); no factor at all makes all plans alike.
        n_plans: Plans there are.

    Raises:
        ShapeMismatchError: If it is no matrix with a row per plan.
        RangeError: If a level is NaN or infinite: such levels equal nothing.
    """
    levels = np.asarray(factor_levels, dtype=np.float64)
    if levels.ndim != _PLANS_BY_FACTORS or len(levels) != n_plans:
        raise ShapeMismatchError("factor_levels", levels.shape, (n_plans, *levels.shape[1:2]))
    for column in levels.T:
        require("factor_levels", column, np.isfinite(column), "the number of a level")
    if not levels.shape[1]:
        return np.zeros(n_plans, dtype=np.intp)
    _, numbered = np.unique(levels, axis=0, return_inverse=True)
    return np.asarray(numbered, dtype=np.intp).reshape(n_plans)
