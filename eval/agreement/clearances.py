"""Whether a judge may be trusted: agreement with gold, bounded below, against a floor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from canopy.domain.errors import RangeError
from eval.agreement.agreement import Agreement, AgreementReason
from eval.agreement.coefficients import Coefficient
from eval.agreement.lower_bounds import Labels, LowerBound, lower_bound
from eval.agreement.many_raters import gwet_coefficient
from eval.agreement.ratings import Ratings

MIN_CLUSTERS: Final = 10
"""Least independent units behind a clearance: below, no resampled bound holds its level."""


@dataclass(frozen=True, slots=True)
class Clearance:
    """The verdict on agreement: the lower bound reaches the floor, or why it does not.

    Attributes:
        coefficient: Short name of the coefficient.
        agreement: Its value.
        bound: Its lower bound.
        floor: What the bound must reach, fixed before looking.
        is_cleared: Whether it does, and nothing else stands against it.
        reason: Why it is not cleared; None where it is.
        raw_agreement: Share of agreeing pairs of ratings; None without a unit.
        ac1: Gwet's AC1, shown beside: it does not collapse under skew, and passes a constant
            judge. None where undefined.
        fewest: Ratings of the label given least often, over the whole scale.
    """

    coefficient: str
    agreement: Agreement
    bound: LowerBound
    floor: float
    is_cleared: bool
    reason: AgreementReason | None
    raw_agreement: float | None
    ac1: float | None
    fewest: int


def clearance(
    coefficient: Coefficient,
    ratings: Sequence[Any],
    *,
    floor: float,
    rng: np.random.Generator,
    cluster: Labels | None = None,
    level: float = 0.95,
    n_resamples: int = 1_000,
    min_clusters: int = MIN_CLUSTERS,
    min_per_label: int = 0,
) -> Clearance:
    """Test agreement against a floor that was fixed before looking.

    Args:
        coefficient: Of `coefficient_named`.
        ratings: Shape (n_raters, n_units). Labels; None or NaN where missing.
        floor: Least lower bound that clears, in [-1, 1].
        rng: Source of the draws.
        cluster: Shape (n_units,). What is independent; None makes each unit its own.
        level: One-sided coverage of the bound, between 0 and 1.
        n_resamples: Replicates, at least 1.
        min_clusters: Least independent units that may clear anything.
        min_per_label: Least ratings of every label of the scale that may clear anything.

    Returns:
        The verdict. Nothing undefined clears, and no rater who gives one label only.

    Raises:
        ShapeMismatchError: If the raters or the clusters do not describe the same units.
        RangeError: If the floor lies outside [-1, 1], or as for `lower_bound`.
    """
    if not -1 <= floor <= 1:
        raise RangeError("floor", None, floor, "a coefficient in [-1, 1]")
    read = coefficient.read(ratings)
    found = coefficient.agreement(read)
    bound = lower_bound(coefficient, ratings, cluster, level, n_resamples, rng=rng)
    beside = gwet_coefficient(coefficient.scale.labels).agreement(read)
    fewest = _fewest(read, len(coefficient.scale.labels))
    reason = _objection(found, bound)
    if reason is None:
        if bound.n_clusters < min_clusters:
            reason = AgreementReason.TOO_FEW
        elif fewest < min_per_label:
            reason = AgreementReason.RARE_LABEL
        elif bound.value is None or bound.value < floor:
            reason = AgreementReason.BELOW_FLOOR
    disagreement = beside.observed_disagreement
    return Clearance(
        coefficient=coefficient.name,
        agreement=found,
        bound=bound,
        floor=floor,
        is_cleared=reason is None,
        reason=reason,
        raw_agreement=None if disagreement is None else 1 - disagreement,
        ac1=beside.value,
        fewest=fewest,
    )


def _objection(found: Agreement, bound: LowerBound) -> AgreementReason | None:
    if found.value is None or found.reason is AgreementReason.CONSTANT_RATER:
        return found.reason
    return bound.reason


def _fewest(ratings: Ratings, n_labels: int) -> int:
    counts = ratings.counts[ratings.is_counted()].sum(axis=0)
    return int(counts.min(initial=np.inf)) if len(counts) == n_labels else 0
