"""The factored world: a log whose truth can be computed, for demonstrations and benchmarks.

Reward probability is a sigmoid of one context-dependent term per factor and one constant per
pair of levels, so a policy that learns factors can reach the optimum and one that learns plans
one by one cannot.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import yaml

from canopy.domain.episode import EpisodeKind
from canopy.logs import schema
from canopy.logs.tabular import DecisionLog, write_log

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

DISCIPLINE: Final = "factored-world"

_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_OFFSET: Final = -1.5
_PAIR_SCALE: Final = 0.6
_BASE_SCALE: Final = 0.5
_DRIFT_SCALE: Final = 0.3
_TEMPERATURE: Final = 0.7
_UNAVAILABLE: Final = 0.3


@dataclass(frozen=True, slots=True)
class WorldSample:
    """Rows drawn from a world.

    Attributes:
        x: Shape (n, n_features). Context.
        mask: Shape (n, n_plans) bool. True = feasible.
        action: Shape (n,). Index of the plan the logging policy drew.
        propensities: Shape (n, n_plans). The logging policy's distribution.
        reward: Shape (n,). 0 or 1.
        expected_reward: Shape (n, n_plans). The true reward probability of every plan.
    """

    x: FloatArray
    mask: npt.NDArray[np.bool_]
    action: IntArray
    propensities: FloatArray
    reward: FloatArray
    expected_reward: FloatArray


@dataclass(frozen=True, slots=True)
class FactoredWorld:
    """A world with its parameters drawn.

    Attributes:
        levels: Number of levels of each factor.
        seed: What the parameters were drawn with.
        plan_levels: Shape (n_plans, n_factors). Level of every plan, last factor fastest.
        factor_weights: One array of shape (levels, n_features) per factor.
        pair_terms: By factor positions (i, j), j < i: shape (levels_i, levels_j).
        base: Shape (n_plans,). Logits of the logging policy.
        drift: Shape (n_features, n_plans). How context moves those logits.
        plan_ids: Ids by action.
    """

    levels: tuple[int, ...]
    seed: int
    plan_levels: IntArray
    factor_weights: tuple[FloatArray, ...]
    pair_terms: dict[tuple[int, int], FloatArray]
    base: FloatArray
    drift: FloatArray
    plan_ids: tuple[str, ...]

    @classmethod
    def create(
        cls, levels: tuple[int, ...] = (3, 3, 3), *, n_features: int = 16, seed: int = 0
    ) -> "FactoredWorld":
        """Draw a world.

        Args:
            levels: Number of levels of each factor.
            n_features: Length of the context.
            seed: Of the parameters alone; logs have seeds of their own.
        """
        rng = np.random.default_rng(seed)
        # The order of these draws is part of the definition: known values depend on it.
        factor_weights = tuple(rng.standard_normal((n, n_features)) / 4 for n in levels)
        pair_terms = {
            (i, j): _PAIR_SCALE * rng.standard_normal((levels[i], levels[j]))
            for i in range(1, len(levels))
            for j in range(i)
        }
        plan_levels = np.array(list(product(*(range(n) for n in levels))), np.int64)
        n_plans = len(plan_levels)
        base = _BASE_SCALE * rng.standard_normal(n_plans)
        drift = _DRIFT_SCALE * rng.standard_normal((n_features, n_plans)) / 4
        plan_ids = tuple(
            ",".join(f"f{factor}=l{level}" for factor, level in enumerate(row))
            for row in plan_levels.tolist()
        )
        return cls(
            tuple(levels), seed, plan_levels, factor_weights, pair_terms, base, drift, plan_ids
        )

    def catalog_text(self) -> str:
        """The world's catalog as YAML: no doctrine weights, the first plan as default."""
        return yaml.safe_dump(
            {
                "discipline": DISCIPLINE,
                "version": f"{'x'.join(map(str, self.levels))}-seed{self.seed}",
                "factors": {
                    f"f{factor}": {"levels": [f"l{level}" for level in range(n)]}
                    for factor, n in enumerate(self.levels)
                },
                "default": self.plan_ids[0],
            },
            sort_keys=False,
        )

    def reward_probability(self, x: FloatArray) -> FloatArray:
        """True reward probability of every plan.

        Args:
            x: Shape (n, n_features). Context.

        Returns:
            Shape (n, n_plans).
        """
        logit = np.full((len(x), len(self.plan_levels)), _OFFSET)
        for factor, weights in enumerate(self.factor_weights):
            logit += (x @ weights.T)[:, self.plan_levels[:, factor]]
        for (i, j), terms in self.pair_terms.items():
            logit += terms[self.plan_levels[:, i], self.plan_levels[:, j]]
        probability: FloatArray = 1 / (1 + np.exp(-logit))
        return probability

    def logging_propensities(self, x: FloatArray, mask: npt.NDArray[np.bool_]) -> FloatArray:
        """The logging policy's distribution over feasible plans, shape (n, n_plans)."""
        logits = np.where(mask, (self.base + x @ self.drift) / _TEMPERATURE, -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        distribution: FloatArray = weights / weights.sum(axis=1, keepdims=True)
        return distribution

    def sample(self, n: int, seed: int) -> WorldSample:
        """Draw decisions of the logging policy with their rewards."""
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, self.drift.shape[0]))
        mask = rng.random((n, len(self.plan_levels))) >= _UNAVAILABLE
        mask[:, 0] = True
        propensities = self.logging_propensities(x, mask)
        action = _inverse_cdf(propensities, rng.random(n))
        expected = self.reward_probability(x)
        taken = expected[np.arange(n), action]
        reward = (rng.random(n) < taken).astype(np.float64)
        return WorldSample(x, mask, action, propensities, reward, expected)

    def write_log(self, path: Path | str, n: int, seed: int, *, truth: bool = False) -> DecisionLog:
        """Write a log of the world, marked synthetic, one unit per row.

        Args:
            path: Where to.
            n: Rows.
            seed: Of the rows; another seed is another log of the same world.
            truth: Whether to add the true reward probabilities as `q_all`.
        """
        drawn = self.sample(n, seed)
        plans = self.plan_ids
        names = [f"w{seed}-{row}" for row in range(n)]
        columns = {
            schema.DECISION_ID: names,
            schema.UNIT_ID: names,
            schema.TS: [_EPOCH + timedelta(seconds=row) for row in range(n)],
            schema.PLAN: [plans[action] for action in drawn.action.tolist()],
            schema.PROPENSITY: drawn.propensities[np.arange(n), drawn.action],
            schema.REWARD: drawn.reward,
            schema.PROPENSITIES: drawn.propensities,
            schema.FEASIBLE: drawn.mask,
        } | {
            f"{schema.CONTEXT_PREFIX}x{feature}": drawn.x[:, feature]
            for feature in range(drawn.x.shape[1])
        }
        if truth:
            columns[schema.Q_ALL] = drawn.expected_reward
        shape = "x".join(map(str, self.levels))
        return write_log(
            path,
            columns,
            plans=plans,
            catalog_text=self.catalog_text(),
            kind=EpisodeKind.SYNTHETIC,
            source=f"factored world {shape}, world seed {self.seed}, log seed {seed}",
        )


def _inverse_cdf(propensities: FloatArray, u: FloatArray) -> IntArray:
    # Scaled by the row's last sum, so that rounding never draws past the last feasible plan.
    cumulative = propensities.cumsum(axis=1)
    reached = cumulative > (u * cumulative[:, -1])[:, None]
    action: IntArray = reached.argmax(axis=1)
    return action
