"""One-sided lower bounds of agreement: whole clusters resampled, the coefficient recomputed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.agreement.agreement import Agreement, AgreementReason
from eval.agreement.coefficients import Coefficient
from eval.intervals.bootstrap import resampled_sums
from eval.intervals.units import Units, units_of
from policy.arrays import FloatArray

BCA_BELOW: Final = 100
"""Clusters under which the percentile is corrected for bias and skewness."""

_LEAST_CLUSTERS: Final = 2

BoundMethod = Literal["percentile", "bca", "exact"]
Labels = Sequence[Any] | np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class LowerBound:
    """What a coefficient is at least, or why nobody knows.

    Attributes:
        value: The bound, in the coefficient's units; None where undefined.
        share_undefined: Share of replicates without a coefficient; each counts as minus infinity.
        level: One-sided coverage.
        n_clusters: Independent units with something to resample.
        n_resamples: Replicates drawn; 0 where none was needed.
        method: `percentile`, `bca` under 100 clusters, or `exact` without any disagreement;
            None without a bound.
        reason: Why there is no bound; None where there is one.
    """

    value: float | None
    share_undefined: float
    level: float
    n_clusters: int
    n_resamples: int
    method: BoundMethod | None
    reason: AgreementReason | None


def lower_bound(
    coefficient: Callable[[Any], Agreement],
    ratings: Sequence[Any],
    cluster: Labels | None = None,
    level: float = 0.95,
    n_resamples: int = 1_000,
    *,
    rng: np.random.Generator,
) -> LowerBound:
    """A one-sided lower bound by the cluster bootstrap.

    Without one disagreement every replicate is perfect too, and resampling would claim certainty
    of three units. There the bound is exact instead: the share of clusters that disagree is at
    most `1 - (1 - level) ** (1 / n_clusters)`, and each may disagree as much as two labels can.

    Args:
        coefficient: Of `coefficient_named`, whose replicates cost one sum each; or any function
            of ratings (n_raters, n_units) to an `Agreement`, called once per replicate.
        ratings: Shape (n_raters, n_units). Labels; None or NaN where missing.
        cluster: Shape (n_units,). What is independent and resampled: the source document or
            tenant of each unit; None makes each unit its own.
        level: One-sided coverage, between 0 and 1.
        n_resamples: Replicates, at least 1; a bound that decides something wants 1,000.
        rng: Source of the draws.

    Returns:
        The bound; None where the coefficient is undefined, there are fewer than two clusters, or
        more replicates are undefined than the bound leaves room for.

    Raises:
        ShapeMismatchError: If the raters or the clusters do not describe the same units.
        RangeError: If a label is not of the scale, a cluster is missing, the level lies outside
            (0, 1), or no replicate is asked for.

    Source:
        Efron, Better Bootstrap Confidence Intervals, JASA 1987; Field and Welsh, Bootstrapping
        Clustered Data, JRSS-B 2007.
    """
    if not 0 < level < 1:
        raise RangeError("level", None, level, "a coverage between 0 and 1")
    if n_resamples < 1:
        raise RangeError("n_resamples", None, n_resamples, "at least 1")
    if isinstance(coefficient, Coefficient):
        source: _Resampling = _Sums(coefficient, ratings, cluster)
    else:
        source = _Calls(coefficient, ratings, cluster)
    found, n_clusters = source.agreement, source.n_clusters
    if found.value is None:
        return LowerBound(None, 0.0, level, n_clusters, 0, None, found.reason)
    if n_clusters < _LEAST_CLUSTERS:
        return LowerBound(None, 0.0, level, n_clusters, 0, None, AgreementReason.TOO_FEW)
    if found.observed_disagreement == 0:
        bound = _without_disagreement(found, n_clusters, level)
        return LowerBound(bound, 0.0, level, n_clusters, 0, "exact", None)
    drawn = source.replicates(n_resamples, rng)
    undefined = np.isnan(drawn)
    tail = 1 - level
    method: BoundMethod = "percentile"
    if n_clusters < BCA_BELOW:
        corrected = _bca_tail(found.value, drawn, source.without_each(), tail)
        if corrected is not None:
            tail, method = corrected, "bca"
    lowest = np.where(undefined, -np.inf, drawn)
    # Between minus infinity and a number nothing can be interpolated.
    value = float(np.quantile(lowest, tail, method="lower" if undefined.any() else "linear"))
    is_finite = bool(np.isfinite(value))
    return LowerBound(
        value=value if is_finite else None,
        share_undefined=float(undefined.mean()),
        level=level,
        n_clusters=n_clusters,
        n_resamples=n_resamples,
        method=method if is_finite else None,
        reason=None if is_finite else AgreementReason.BOUND_UNDEFINED,
    )


def _without_disagreement(found: Agreement, n_clusters: int, level: float) -> float | None:
    largest, expected = found.largest_disagreement, found.expected_disagreement
    if largest is None or not expected:
        return None
    return float(1 - (1 - (1 - level) ** (1 / n_clusters)) * largest / expected)


def _bca_tail(
    value: float, drawn: FloatArray, without_each: FloatArray, tail: float
) -> float | None:
    """The share of replicates to cut off below, corrected; None where it is undefined."""
    below = np.where(np.isnan(drawn), -np.inf, drawn)
    share = (below < value).mean() + (below == value).mean() / 2
    if not 0 < share < 1 or np.isnan(without_each).any():
        return None
    bias = float(ndtri(share))
    pulls = without_each.mean() - without_each
    spread = float(np.square(pulls).sum())
    skew = float((pulls**3).sum() / (6 * spread**1.5)) if spread > 0 else 0.0
    shifted = bias + float(ndtri(tail))
    room = 1 - skew * shifted
    return float(ndtr(bias + shifted / room)) if room > 0 else None


class _Sums:
    """Resampling of a coefficient that is a function of sums: one product for all replicates."""

    def __init__(
        self, coefficient: Coefficient, ratings: Sequence[Any], cluster: Labels | None
    ) -> None:
        read = coefficient.read(ratings)
        units = _clusters(cluster, read.n_units)
        self.agreement = coefficient.agreement(read)
        self.n_clusters = int(np.unique(units.codes[read.is_counted()]).size)
        self._coefficient, self._seen = coefficient, read.seen
        self._sums = units.sums(coefficient.columns(read))

    def replicates(self, n_resamples: int, rng: np.random.Generator) -> FloatArray:
        drawn = resampled_sums(self._sums, rng=rng, n_resamples=n_resamples)
        return self._coefficient.values(drawn, self._seen)

    def without_each(self) -> FloatArray:
        return self._coefficient.values(self._sums.sum(axis=0) - self._sums, self._seen)


class _Calls:
    """Resampling of any function of ratings: one call per replicate."""

    def __init__(
        self,
        coefficient: Callable[[Any], Agreement],
        ratings: Sequence[Any],
        cluster: Labels | None,
    ) -> None:
        self._labels = _table(ratings)
        self._coefficient = coefficient
        units = _clusters(cluster, self._labels.shape[1])
        self.agreement = coefficient(self._labels)
        self.n_clusters = units.n_units
        order = np.argsort(units.codes, kind="stable")
        ends = np.cumsum(np.bincount(units.codes, minlength=units.n_units))[:-1]
        self._members = np.split(order, ends)

    def replicates(self, n_resamples: int, rng: np.random.Generator) -> FloatArray:
        draws = rng.integers(0, self.n_clusters, size=(n_resamples, self.n_clusters))
        return np.array([self._value(drawn) for drawn in draws])

    def without_each(self) -> FloatArray:
        every = np.arange(self.n_clusters)
        return np.array([self._value(np.delete(every, one)) for one in every])

    def _value(self, clusters: np.ndarray[Any, Any]) -> float:
        units = np.concatenate([self._members[one] for one in clusters])
        value = self._coefficient(self._labels[:, units]).value
        return np.nan if value is None else value


_Resampling = _Sums | _Calls


def _table(ratings: Sequence[Any]) -> np.ndarray[Any, Any]:
    # `tolist` of a masked array has None where it is masked.
    plain = [row.tolist() if isinstance(row, np.ndarray) else list(row) for row in ratings]
    rows: list[np.ndarray[Any, Any]] = [np.array(row, dtype=object) for row in plain]
    for number, row in enumerate(rows, 1):
        if row.shape != rows[0].shape or row.ndim != 1:
            raise ShapeMismatchError(f"rater {number}", row.shape, (len(rows[0]),))
    return np.stack(rows) if rows else np.empty((0, 0), dtype=object)


def _clusters(labels: Labels | None, n_units: int) -> Units:
    if labels is not None:
        for row, label in enumerate(labels, 1):
            if label is None or label != label:  # noqa: PLR0124 - only NaN differs from itself
                raise RangeError("cluster", row, label, "the cluster of the unit")
    return units_of(labels, n_units)
