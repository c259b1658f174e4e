"""Why a plan scores what it scores: the share of every factor, and of every pair of factors."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray, IntArray
from policy.artifact import Artifact
from policy.masks import check_mask


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one factor, or one pair of factors, adds to a plan's score.

    Attributes:
        factors: Names of the one or two factors.
        levels: The plan's level in each.
        logit: The term's share of the score, before the temperature divides it.
        against_mean: `logit` less its mean over the feasible plans: what the plan gains by
            this choice, in the same unit.
    """

    factors: tuple[str, ...]
    levels: tuple[str, ...]
    logit: float
    against_mean: float


def contributions(
    artifact: Artifact,
    context: Mapping[str, object] | FloatArray,
    action: int,
    mask: BoolArray,
) -> tuple[Contribution, ...]:
    """The terms of a plan's score in one context.

    Args:
        artifact: The policy.
        context: What was known before choosing, or its features, shape (width,).
        action: The plan to explain, feasible or not.
        mask: Shape (n_plans,): True = feasible; at least one.

    Returns:
        One term per factor, then one per interacting pair; their logits sum to the plan's
        score before temperature, and what they gain to its lead over the mean feasible plan.

    Raises:
        FeatureError: If a context value has a wrong type.
        RangeError: If there is no such plan, or no feasible one, or the mask is not boolean.
        ShapeMismatchError: If features or mask do not fit the policy.
    """
    catalog, head = artifact.catalog, artifact.head
    feasible = check_mask(mask, (catalog.n_plans,))
    if not feasible.any():
        raise RangeError("mask", None, 0, "at least one feasible plan")
    if not 0 <= action < catalog.n_plans:
        raise RangeError("action", None, action, f"0 to {catalog.n_plans - 1}")
    features = artifact.schema.encode(context) if isinstance(context, Mapping) else context
    if features.shape != (head.n_features,):
        raise ShapeMismatchError("features", features.shape, (head.n_features,))
    inputs = np.append(features, 1.0)
    chosen = catalog.levels[feasible]
    taken = catalog.levels[action]
    terms = []
    for key in (*((f,) for f in range(len(head.sizes))), *head.pairs):
        name = f"factor.{key[0]}" if len(key) == 1 else f"pair.{key[0]}.{key[1]}"
        table = np.einsum("...j,j->...", head.weights[name], inputs)
        logit = float(table[tuple(taken[list(key)])])
        terms.append(
            Contribution(
                factors=tuple(catalog.factors[f].name for f in key),
                levels=tuple(catalog.factors[f].levels[taken[f]].name for f in key),
                logit=logit,
                against_mean=logit - _mean(table, chosen, key),
            )
        )
    return tuple(terms)


def _mean(table: FloatArray, chosen: IntArray, key: tuple[int, ...]) -> float:
    """The mean of a term over plans, from their levels of shape (n, n_factors)."""
    cells = np.ravel_multi_index(tuple(chosen[:, f] for f in key), table.shape)
    counts = np.bincount(cells, minlength=table.size)
    return float(np.einsum("k,k->", table.reshape(-1), counts / len(chosen)))
