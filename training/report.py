"""What a trained policy does, in numbers: where it moves share, and how forecasts held up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from policy.arrays import FloatArray
from policy.catalog import Catalog
from training.data.rows import TrainingRows

N_BINS: Final = 10


@dataclass(frozen=True, slots=True)
class LevelShare:
    """How often a level is taken.

    Attributes:
        factor: Name of the factor.
        level: Name of the level.
        logged: Share of logged decisions.
        served: Share under the policy in the same contexts, its floor included.
    """

    factor: str
    level: str
    logged: float
    served: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """Forecasts against what came, in bins of about equal size.

    Attributes:
        predicted: Shape (n_bins,). Mean forecast.
        observed: Shape (n_bins,). Mean outcome.
        n: Shape (n_bins,). Rows.
        what: What was forecast.
    """

    predicted: FloatArray
    observed: FloatArray
    n: FloatArray
    what: str

    @property
    def error(self) -> float:
        """Mean distance of forecast and outcome, weighted by rows."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.n))


def level_shares(
    catalog: Catalog, served: FloatArray, rows: TrainingRows
) -> tuple[LevelShare, ...]:
    """Share of every level, logged and served, on the same rows.

    Args:
        catalog: The plans.
        served: Shape (n_plans,): sum over the rows of the policy's distribution, each times the
            decisions it stands for.
        rows: The logged decisions.
    """
    stands_for = 1.0 / rows.keep_prob
    total = stands_for.sum()
    per_plan = served / total
    taken = np.bincount(rows.action, stands_for, minlength=catalog.n_plans) / total
    shares = []
    for position, factor in enumerate(catalog.factors):
        of_plan = catalog.levels[:, position]
        logged = np.bincount(of_plan, taken, minlength=len(factor.levels))
        chosen = np.bincount(of_plan, per_plan, minlength=len(factor.levels))
        shares += [
            LevelShare(factor.name, level.name, float(before), float(after))
            for level, before, after in zip(factor.levels, logged, chosen, strict=True)
        ]
    return tuple(shares)


def reliability(predicted: FloatArray, observed: FloatArray, what: str) -> Reliability:
    """Sort rows by forecast, cut them into bins, and compare the means.

    Args:
        predicted: Shape (n,), n at least 1.
        observed: Shape (n,).
        what: What was forecast.
    """
    order = np.argsort(predicted, kind="stable")
    parts = [part for part in np.array_split(order, N_BINS) if len(part)]
    return Reliability(
        predicted=np.array([predicted[part].mean() for part in parts]),
        observed=np.array([observed[part].mean() for part in parts]),
        n=np.array([float(len(part)) for part in parts]),
        what=what,
    )


def imitation(distribution: FloatArray, rows: TrainingRows) -> Reliability:
    """How often a plan was taken against the probability that the head gives it.

    Args:
        distribution: Shape (n, n_plans), without floor.
        rows: The logged decisions.
    """
    taken = np.zeros(distribution.shape)
    taken[np.arange(len(rows)), rows.action] = 1.0
    return reliability(
        distribution[rows.feasible], taken[rows.feasible], "probability that a plan is taken"
    )


def share_document(shares: tuple[LevelShare, ...]) -> dict[str, Mapping[str, Mapping[str, float]]]:
    """Shares by factor and level, as JSON carries them."""
    document: dict[str, dict[str, Mapping[str, float]]] = {}
    for share in shares:
        document.setdefault(share.factor, {})[share.level] = {
            "logged": share.logged,
            "served": share.served,
        }
    return dict(document)
