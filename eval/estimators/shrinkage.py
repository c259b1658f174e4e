"""Estimators that leave large weights to the reward model, or make them smaller.

All trade variance for a bias. What is cut or shrunk is the ratio of target to logging probability,
never the keep probability: that is known, and may depend on the reward. Limits of a parameter are
branches, so that an infinite one is exactly the estimator it stands for.
"""

from collections.abc import Callable
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import InputError, RangeError
from eval.estimators.checks import declared_range, numbers, rows_of, weights
from eval.estimators.distributions import actions, at, distributions, needed, took
from eval.estimators.estimate import Estimate, most_bias, settle
from eval.estimators.ratios import Ratios, columns
from policy.arrays import FloatArray

Shrinkage = Literal["optimistic", "pessimistic"]

_SHRINKAGES: Final = ("optimistic", "pessimistic")


def switch_dr(
    reward: ArrayLike,
    weight: ArrayLike,
    q_taken: ArrayLike,
    expected_reward: ArrayLike,
    tau: float,
    *,
    reward_range: tuple[float, float] | None = None,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Doubly robust where the weight is at most `tau`, the reward model alone elsewhere.

    Args:
        reward: Shape (n,). Observed reward of each logged decision.
        weight: Shape (n,), at least 0. Target probability over propensity; where rows were
            dropped, over propensity times keep probability.
        q_taken: Shape (n,). Model's reward of the plan taken.
        expected_reward: Shape (n,). Model's reward under the target policy.
        tau: Largest ratio of target to logging probability that is trusted, at least 0;
            infinite gives `doubly_robust`, 0 gives `direct_method`.
        reward_range: Smallest and largest reward that can occur; None states no bias bound.
        keep_prob: Shape (n,), in (0, 1]. Probability with which each row was kept; None where
            every row was.
        n_decisions: Decisions made, dropped rows included, if logged; None takes the sum of
            1 / keep probability.

    Returns:
        The estimate in reward units, with the diagnostics of the raw weights. `bias_bound`, where
        a range is declared, is the most that the model can be wrong on what it was left with.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is not finite, a weight is negative, a keep probability lies
            outside (0, 1], a reward lies outside its range, or `tau` is negative or NaN; the row
            is named, from 1.

    Source:
        Wang, Agarwal and Dudik, Optimal and Adaptive Off-policy Evaluation in Contextual
        Bandits, ICML 2017: its SWITCH-DR. The sum over plans that the reward model takes over
        cancels there, so that the weight of the plan taken is all that is needed.
    """
    _at_least_0("tau", tau)
    return _shrunk_dr(
        reward, weight, q_taken, expected_reward,
        lambda ratio: np.where(ratio <= tau, ratio, 0.0),
        reward_range, keep_prob, n_decisions,
    )  # fmt: skip


def dr_shrinkage(
    reward: ArrayLike,
    weight: ArrayLike,
    q_taken: ArrayLike,
    expected_reward: ArrayLike,
    lam: float,
    *,
    shrinkage: Shrinkage = "optimistic",
    reward_range: tuple[float, float] | None = None,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Doubly robust with shrunk weights.

    Args:
        reward: As for `switch_dr`.
        weight: As for `switch_dr`.
        q_taken: As for `switch_dr`.
        expected_reward: As for `switch_dr`.
        lam: At least 0; infinite gives `doubly_robust`, 0 gives `direct_method`.
        shrinkage: `optimistic` replaces the ratio w of target to logging probability by
            lam w / (w^2 + lam), which never exceeds sqrt(lam) / 2; `pessimistic` by min(w, lam).
        reward_range: As for `switch_dr`.
        keep_prob: As for `switch_dr`.
        n_decisions: As for `switch_dr`.

    Returns:
        The estimate in reward units, with the diagnostics of the raw weights; `bias_bound` as for
        `switch_dr`.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: As for `switch_dr`, or if `lam` is negative or NaN.
        InputError: If the shrinkage is unknown.

    Source:
        Su, Dimakopoulou, Krishnamurthy and Dudik, Doubly Robust Off-policy Evaluation with
        Shrinkage, ICML 2020.
    """
    _at_least_0("lam", lam)
    if shrinkage not in _SHRINKAGES:
        raise InputError(
            "shrinkage", f"expected one of {', '.join(_SHRINKAGES)}, got {shrinkage!r}.",
            "Name one of them.",
        )  # fmt: skip
    shrink = _optimistic if shrinkage == "optimistic" else np.minimum
    return _shrunk_dr(
        reward, weight, q_taken, expected_reward,
        lambda ratio: np.asarray(shrink(ratio, lam)),
        reward_range, keep_prob, n_decisions,
    )  # fmt: skip


def sub_gaussian_ips(
    reward: ArrayLike,
    weight: ArrayLike,
    lam: float,
    *,
    reward_range: tuple[float, float] | None = None,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Inverse propensity scoring whose weights are harmonic means with 1: tails as of a Gaussian.

    Args:
        reward: As for `switch_dr`.
        weight: As for `switch_dr`.
        lam: From 0 to 1: the ratio w of target to logging probability becomes
            w / (1 - lam + lam w), at most 1 / lam. 0 gives `ips`, 1 the mean reward of the plans
            that the target takes at all.
        reward_range: As for `switch_dr`.
        keep_prob: As for `switch_dr`.
        n_decisions: As for `switch_dr`.

    Returns:
        The estimate in reward units, with the diagnostics of the raw weights; `bias_bound`, where
        a range is declared, is the most that the change of weights can have changed.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: As for `switch_dr`, or if `lam` lies outside [0, 1].

    Source:
        Metelli, Russo and Restelli, Subgaussian and Differentiable Importance Sampling for
        Off-Policy Evaluation and Learning, NeurIPS 2021.
    """
    if not 0 <= lam <= 1:
        raise RangeError("lam", None, lam, "a number from 0 to 1")
    r = numbers("reward", reward)
    w = weights(weight, len(r))
    reach = None
    if reward_range is not None:
        lo, hi = declared_range(r, reward_range)
        reach = max(hi, -lo)
    rows = rows_of(len(r), keep_prob, n_decisions)
    with np.errstate(over="ignore"):
        used = rows.reshaped(w, lambda ratio: _harmonic(ratio, lam))
        ratios = Ratios(columns(used * r), columns(rows.decisions))
        bound = None if reach is None else most_bias(w, used, reach, rows)
    return settle(ratios, rows, w, bias_bound=bound)


def switch(
    reward: ArrayLike,
    target: ArrayLike,
    logging: ArrayLike,
    taken: ArrayLike,
    q_all: ArrayLike,
    tau: float,
    *,
    mask: ArrayLike | None = None,
    keep_prob: ArrayLike | None = None,
    n_decisions: float | None = None,
) -> Estimate:
    """Reweighed rewards of plans whose weight is at most `tau`, the model's word on the others.

    Same expectation as `switch_dr` and more variance; for comparison with published tables.

    Args:
        reward: As for `switch_dr`.
        target: Shape (n, n_plans). Target policy's distributions under the logged masks.
        logging: Shape (n, n_plans). Logging policy's distributions; a plan that it never takes
            has an infinite weight.
        taken: Shape (n,). Index of the plan taken.
        q_all: Shape (n, n_plans). Model's reward of every plan; anything, NaN included, where the
            target has no probability or the weight is at most `tau`.
        tau: As for `switch_dr`; infinite gives `ips`, 0 gives `direct_method`.
        mask: Shape (n, n_plans). True where a plan was feasible; None takes the policies' word.
        keep_prob: As for `switch_dr`.
        n_decisions: As for `switch_dr`.

    Returns:
        The estimate in reward units, with the diagnostics of the raw weights.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: As for `switch_dr`, or if a distribution is none or leaves the mask, or a plan
            taken had no probability.

    Source:
        Wang, Agarwal and Dudik, Optimal and Adaptive Off-policy Evaluation in Contextual
        Bandits, ICML 2017.
    """
    _at_least_0("tau", tau)
    r = numbers("reward", reward)
    pi_e = distributions("target", target, mask=mask)
    pi_b = distributions("logging", logging, pi_e.shape, mask=mask)
    numbers("reward", r, len(pi_e))
    action = actions(taken, *pi_e.shape)
    rows = rows_of(len(r), keep_prob, n_decisions)
    propensity = took("logging", at(pi_b, action))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        is_modelled = (pi_e > 0) & (pi_e / pi_b > tau)
        ratio = at(pi_e, action) / propensity
        weight = ratio if rows.keep_prob is None else ratio / rows.keep_prob
        modelled = (pi_e * needed("q_all", q_all, is_modelled)).sum(axis=1)
        reweighed = np.where(ratio <= tau, weight, 0.0) * r
        ratios = Ratios(columns(reweighed + modelled * rows.decisions), columns(rows.decisions))
    return settle(ratios, rows, weights(weight, len(r)))


def _shrunk_dr(
    reward: ArrayLike,
    weight: ArrayLike,
    q_taken: ArrayLike,
    expected_reward: ArrayLike,
    shape: Callable[[FloatArray], FloatArray],
    reward_range: tuple[float, float] | None,
    keep_prob: ArrayLike | None,
    n_decisions: float | None,
) -> Estimate:
    """Doubly robust with the ratios of target to logging probability replaced."""
    r = numbers("reward", reward)
    n = len(r)
    w = weights(weight, n)
    q = numbers("q_taken", q_taken, n)
    m = numbers("expected_reward", expected_reward, n)
    reach = None
    if reward_range is not None:
        lo, hi = declared_range(r, reward_range)
        reach = np.maximum(hi - q, q - lo)
    rows = rows_of(n, keep_prob, n_decisions)
    with np.errstate(over="ignore"):
        used = rows.reshaped(w, shape)
        ratios = Ratios(columns(m * rows.decisions + used * (r - q)), columns(rows.decisions))
        bound = None if reach is None else most_bias(w, used, reach, rows)
    return settle(ratios, rows, w, bias_bound=bound)


def _optimistic(ratio: FloatArray, lam: float) -> FloatArray:
    if lam == np.inf:
        return ratio
    if lam == 0:
        return np.zeros_like(ratio)
    # lam w / (w^2 + lam), written so that neither product overflows before it cancels.
    with np.errstate(over="ignore"):
        return np.asarray(ratio / (1 + ratio * (ratio / lam)))


def _harmonic(ratio: FloatArray, lam: float) -> FloatArray:
    # At lam = 1 a weight of 0 would be 0 / 0; 0 is its limit from below.
    return np.divide(ratio, 1 - lam + lam * ratio, out=np.zeros_like(ratio), where=ratio > 0)


def _at_least_0(name: str, value: float) -> None:
    if not value >= 0:
        raise RangeError(name, None, value, "at least 0")
