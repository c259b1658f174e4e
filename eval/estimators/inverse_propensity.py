"""Estimators that reweigh logged rewards and assume nothing about unlogged ones."""

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError
from eval.estimators.checks import numbers, require, rows_of, weights
from eval.estimators.estimate import Estimate, most_bias, settle
from eval.estimators.ratios import Ratios, columns


def ips(
    reward: ArrayLike,
    weight: ArrayLike,
    *,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Inverse propensity scoring: unbiased under overlap, with the variance of the weights.

    Args:
        reward: Shape (n,). Observed reward of each logged decision.
        weight: Shape (n,), at least 0. Target probability over propensity; where rows were
            dropped, over propensity times keep probability.
        keep_prob: Shape (n,), in (0, 1]. Probability with which each row was kept; None where
            every row was.
        n_decisions: Decisions made, dropped rows included, if logged; None takes the sum of
            1 / keep probability.

    Returns:
        The estimate in reward units; refused without rows, weight or overlap.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is not finite, a weight is negative, or a keep probability lies
            outside (0, 1]; the row is named, from 1.

    Source:
        Horvitz and Thompson, A Generalization of Sampling Without Replacement, JASA 1952.
    """
    r = numbers("reward", reward)
    w = weights(weight, len(r))
    rows = rows_of(len(r), keep_prob, n_decisions)
    with np.errstate(over="ignore"):
        ratios = Ratios(columns(w * r), columns(rows.decisions))
    return settle(ratios, rows, w)


def clipped_ips(
    reward: ArrayLike,
    weight: ArrayLike,
    cap: float,
    reward_max: float = 1.0,
    *,
    reward_min: float = 0.0,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Inverse propensity scoring with weights cut at `cap`: less variance, a bias towards 0.

    Args:
        reward: Shape (n,). Observed reward of each logged decision, from `reward_min` to
            `reward_max`.
        weight: As for `ips`.
        cap: Largest ratio of target to logging probability used, at least 0. The keep probability
            is not cut: it is known, and no policy's doing.
        reward_max: Largest reward that can occur.
        reward_min: Smallest reward that can occur.
        keep_prob: As for `ips`.
        n_decisions: As for `ips`.

    Returns:
        The estimate in reward units; `bias_bound` is the most that clipping can have changed.
        ESS, mean and largest weight are those of the raw weights.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: As for `ips`, or if the cap is negative or a reward lies outside its range.

    Source:
        Ionides, Truncated Importance Sampling, JCGS 2008.
    """
    r = numbers("reward", reward)
    w = weights(weight, len(r))
    if not cap >= 0:
        raise RangeError("cap", None, cap, "at least 0")
    require("reward", r, r <= reward_max, f"at most reward_max = {reward_max:g}")
    require("reward", r, r >= reward_min, f"at least reward_min = {reward_min:g}")
    rows = rows_of(len(r), keep_prob, n_decisions)
    with np.errstate(over="ignore", invalid="ignore"):
        used = rows.reshaped(w, lambda ratio: np.minimum(ratio, cap))
        ratios = Ratios(columns(used * r), columns(rows.decisions))
        bound = most_bias(w, used, max(reward_max, -reward_min), rows)
    return settle(ratios, rows, w, bias_bound=bound)


def snips(
    reward: ArrayLike,
    weight: ArrayLike,
    *,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Self-normalised inverse propensity scoring: stays within the rewards seen.

    Args:
        reward: Shape (n,). Observed reward of each logged decision.
        weight: As for `ips`.
        keep_prob: As for `ips`; the value needs the weights alone, `mean_weight` needs this.
        n_decisions: As for `ips`.

    Returns:
        The estimate in reward units; it moves with a constant added to all rewards.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: As for `ips`.

    Source:
        Swaminathan and Joachims, The Self-Normalized Estimator for Counterfactual Learning,
        NeurIPS 2015.
    """
    r = numbers("reward", reward)
    w = weights(weight, len(r))
    rows = rows_of(len(r), keep_prob, n_decisions)
    with np.errstate(over="ignore"):
        ratios = Ratios(columns(w * r), columns(w))
    return settle(ratios, rows, w)
