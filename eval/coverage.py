"""What a report draws of a log: the spread of the weights, and where both policies' mass lies.

Both add up over parts of a log, so that a log read in passing comes to the same pictures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from eval.targets import TargetPolicy
from eval.usable_rows import UsableRows
from policy.arrays import FloatArray, IntArray
from policy.catalog import Catalog

EDGES: Final[FloatArray] = np.geomspace(1e-6, 1e6, 97)
"""Edges of the bins of weights: eight to a power of ten."""

MAX_PLANS_SHOWN: Final = 40
"""Plans listed one by one where no catalog says their factors."""


@dataclass(frozen=True, slots=True)
class WeightHistogram:
    """How many rows have which weight.

    Attributes:
        counts: Shape (98,). Rows below the first edge, between edges, and from the last on.
        n_zero: Rows of weight 0, which are in no bin.
    """

    counts: IntArray
    n_zero: int

    @classmethod
    def of(cls, weight: FloatArray) -> "WeightHistogram":
        """The histogram of weights of shape (n,)."""
        positive = weight[weight > 0]
        places = np.searchsorted(EDGES, positive, side="right")
        return cls(np.bincount(places, minlength=len(EDGES) + 1), int(len(weight) - positive.size))

    def __add__(self, other: "WeightHistogram") -> "WeightHistogram":
        return WeightHistogram(self.counts + other.counts, self.n_zero + other.n_zero)

    @property
    def n(self) -> int:
        """Rows, those of weight 0 included."""
        return int(self.counts.sum()) + self.n_zero


@dataclass(frozen=True, slots=True)
class PlanMass:
    """How much of both policies' probability lies on each plan.

    Attributes:
        logging: Shape (n_plans,). Sum over decisions of the logging policy's probabilities.
        target: Shape (n_plans,). The same of the target policy.
        is_exact: From whole distributions; else from the plans taken, the target's reweighed.
    """

    logging: FloatArray
    target: FloatArray
    is_exact: bool

    @classmethod
    def of(cls, rows: UsableRows, target: TargetPolicy) -> "PlanMass | None":
        """The mass of some rows; None where the plans are not known."""
        if rows.plans is None or rows.action is None:
            return None
        decisions = rows.decisions
        if rows.logging is not None and target.full is not None:
            return cls(decisions @ rows.logging, decisions @ target.full, is_exact=True)
        taken = [
            np.bincount(rows.action, weights=each, minlength=len(rows.plans)).astype(np.float64)
            for each in (decisions, target.weight(rows))
        ]
        return cls(taken[0], taken[1], is_exact=False)

    def __add__(self, other: "PlanMass") -> "PlanMass":
        return PlanMass(
            self.logging + other.logging,
            self.target + other.target,
            is_exact=self.is_exact and other.is_exact,
        )


@dataclass(frozen=True, slots=True)
class LevelShare:
    """How often both policies take one level of a factor.

    Attributes:
        factor: The factor; `plan` where no catalog says the factors.
        level: The level, or the plan.
        logging: The logging policy's share of decisions, from 0 to 1.
        target: The target policy's share.
        is_exact: Whether the shares come from whole distributions.
    """

    factor: str
    level: str
    logging: float
    target: float
    is_exact: bool


def level_shares(
    mass: PlanMass | None, plans: Sequence[str] | None, catalog: Catalog | None
) -> tuple[LevelShare, ...]:
    """Shares by factor level, in the catalog's order; empty where the plans are not known.

    Args:
        mass: Mass by plan.
        plans: Plan ids in the order of `mass`.
        catalog: Their catalog; None lists the plans that are taken most.
    """
    if mass is None or plans is None or not mass.logging.sum() > 0:
        return ()
    total = (mass.logging.sum(), mass.target.sum() or 1.0)
    shares = np.stack([mass.logging / total[0], mass.target / total[1]])
    if catalog is None or any(catalog.find(plan) is None for plan in plans):
        likeliest = np.argsort(-shares.max(axis=0), kind="stable")[:MAX_PLANS_SHOWN]
        return tuple(
            LevelShare("plan", plans[i], shares[0, i].item(), shares[1, i].item(), mass.is_exact)
            for i in np.sort(likeliest)
        )
    return tuple(_by_level(shares, plans, catalog, is_exact=mass.is_exact))


def _by_level(
    shares: FloatArray, plans: Sequence[str], catalog: Catalog, *, is_exact: bool
) -> Iterator[LevelShare]:
    levels = catalog.levels[[catalog.index(plan) for plan in plans]]
    for position, factor in enumerate(catalog.factors):
        for number, level in enumerate(factor.levels):
            logging, target = shares[:, levels[:, position] == number].sum(axis=1).tolist()
            yield LevelShare(factor.name, level.name, logging, target, is_exact)
