"""Variances of differences when comparisons of one prompt, tenant or judge go together."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, issparse
from scipy.special import expit
from scipy.stats import norm, t

from canopy.domain.errors import RangeError
from policy.arrays import BoolArray, FloatArray, IntArray
from training.preferences.bradley_terry import BradleyTerry, difference_variance
from training.preferences.comparisons import Comparisons

_MOST_CELLS: int = 20_000_000
_COLLAPSED: float = 1e-9


@dataclass(frozen=True, slots=True)
class ClusteredVariance:
    """What differences vary by when whole clusters are drawn again.

    Attributes:
        covariance: Shape (n, n). Of the scores less their component's mean; NaN where unknown.
        difference_variance: Shape (n, n). NaN where a difference has none: across components,
            across groups of which one never beat the other, where fewer than two clusters speak
            of an item, and where every comparison falls out as expected, so that nothing varies.
        n_clusters: Shape (n,). Clusters that speak of each item's component.
        n_speaking: Clusters with a comparison.
    """

    covariance: FloatArray
    difference_variance: FloatArray
    n_clusters: IntArray
    n_speaking: int


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of all differences of two scores.

    Attributes:
        level: Their coverage, each by itself.
        lower: Shape (n, n). Of the row's score less the column's; NaN where there is none.
        upper: Shape (n, n).
        score_lower: Shape (n,). Of each score less its component's mean.
        score_upper: Shape (n,).
    """

    level: float
    lower: FloatArray
    upper: FloatArray
    score_lower: FloatArray
    score_upper: FloatArray


def clustered_variance(comparisons: Comparisons, fit: BradleyTerry) -> ClusteredVariance:
    """Sandwich variances, with whole clusters as what is independent.

    Args:
        comparisons: What was fitted.
        fit: The fit of their wins.

    Returns:
        The variances; all NaN where the fit has no scores.

    Source:
        Liang and Zeger, Longitudinal Data Analysis Using Generalized Linear Models, Biometrika
        1986; G / (G - 1) as in Stata's cluster-robust variances.
    """
    n = len(comparisons.items)
    covariance, variance = np.full((n, n), np.nan), np.full((n, n), np.nan)
    n_clusters = np.zeros(n, dtype=np.intp)
    if fit.scores is None or fit.covariance is None or fit.difference_variance is None:
        return ClusteredVariance(covariance, variance, n_clusters, len(comparisons.cluster.used()))
    surplus, speaks = _by_cluster(comparisons, fit.scores)
    of_item = np.asarray(speaks.sum(axis=0)).ravel()
    for members in fit.components:
        rows = np.array(members)
        if not np.isfinite(fit.scores[rows]).all():
            continue
        mine = np.flatnonzero(np.asarray(speaks[:, rows].sum(axis=1)).ravel())
        n_clusters[rows] = len(mine)
        if len(mine) < 2:  # noqa: PLR2004 - one cluster varies by nothing
            continue
        place = np.ix_(members, members)
        found = surplus[mine][:, rows]
        products = found.T @ found
        square = products.toarray() if issparse(products) else products
        # The prior pulls on the sum and on no cluster: without a prior the mean is 0 anyway.
        mean = np.asarray(found.mean(axis=0)).ravel()
        meat = (square - len(mine) * np.outer(mean, mean)) * (len(mine) / (len(mine) - 1))
        covariance[place] = fit.covariance[place] @ meat @ fit.covariance[place]
        variance[place] = difference_variance(covariance[place])
    variance[~_varies(fit, variance, fit.difference_variance, of_item)] = np.nan
    np.fill_diagonal(variance, np.where(np.isfinite(fit.scores), 0.0, np.nan))
    n_speaking = int((np.asarray(speaks.sum(axis=1)) > 0).sum())
    if not np.isfinite(fit.scores).all():
        # Comparisons of items without a score are not counted there.
        n_speaking = len(comparisons.cluster.used())
    return ClusteredVariance(covariance, variance, n_clusters, n_speaking)


def _varies(
    fit: BradleyTerry, variance: FloatArray, fisher: FloatArray, of_item: IntArray
) -> BoolArray:
    """Whether a difference's variance can be read off the clusters at all."""
    group = np.zeros(len(of_item), dtype=np.intp)
    for number, members in enumerate(fit.groups):
        group[list(members)] = number
    is_one = group[:, None] == group
    is_seen = (of_item[:, None] > 1) & (of_item > 1)
    # Comparisons that all fall out as expected vary by nothing: no width is not certainty.
    is_wide = variance > _COLLAPSED * np.nan_to_num(fisher)
    return np.asarray(is_one & is_seen & is_wide)


def _by_cluster(
    comparisons: Comparisons, scores: FloatArray
) -> tuple[FloatArray | csr_matrix, BoolArray | csr_matrix]:
    """Each cluster's wins beyond expectation, and whether it speaks of an item; by item.

    Comparisons of items without a score count for nothing. Both are of shape (n_clusters, n),
    and sparse where that is large.
    """
    n, n_clusters = len(comparisons.items), len(comparisons.cluster.names)
    # 1 - p of the winner, without cancellation.
    surprise = np.nan_to_num(expit(scores - scores[:, None]))
    winner, loser = comparisons.winner, comparisons.loser
    each = surprise.ravel()[comparisons.outcome]
    if comparisons.weight is not None:
        each *= comparisons.weight
    cluster, shape = comparisons.cluster.numbers, (n_clusters, n)
    if n_clusters * n <= _MOST_CELLS:
        rows = cluster.astype(np.int64) * n
        gained = np.bincount(rows + winner, each, n_clusters * n)
        given = np.bincount(rows + loser, each, n_clusters * n)
        # 1 - p is above 0 for whatever has a score, so that a sum of 0 is no comparison.
        seen = (gained > 0) | (given > 0)
        return np.asarray(gained - given, dtype=np.float64).reshape(shape), seen.reshape(shape)
    place = (np.concatenate([cluster, cluster]), np.concatenate([winner, loser]))
    return (
        csr_matrix((np.concatenate([each, -each]), place), shape=shape),
        csr_matrix((np.ones(2 * len(each), dtype=np.bool_), place), shape=shape),
    )


def fisher_intervals(fit: BradleyTerry, *, level: float = 0.95) -> Intervals:
    """Normal intervals as if all comparisons were independent.

    Args:
        fit: The fit.
        level: Coverage, between 0 and 1.

    Raises:
        RangeError: If the level is none.
    """
    _check_level(level)
    n = len(fit.prior_dominated)
    scores = np.full(n, np.nan) if fit.scores is None else fit.scores
    covariance = np.full((n, n), np.nan) if fit.covariance is None else fit.covariance
    quantile = np.full(n, norm.ppf((1 + level) / 2))
    return _around(scores, covariance, difference_variance(covariance), quantile, level)


def clustered_intervals(
    fit: BradleyTerry, variance: ClusteredVariance, *, level: float = 0.95
) -> Intervals:
    """Intervals from clustered variances, by Student's t with a degree less than clusters.

    Args:
        fit: The fit.
        variance: Of `clustered_variance`.
        level: Coverage, between 0 and 1.

    Raises:
        RangeError: If the level is none.
    """
    _check_level(level)
    scores = np.full(len(variance.n_clusters), np.nan) if fit.scores is None else fit.scores
    quantile = t.ppf((1 + level) / 2, np.maximum(variance.n_clusters - 1, 1))
    return _around(
        scores, variance.covariance, variance.difference_variance, np.asarray(quantile), level
    )


def _around(
    scores: FloatArray,
    covariance: FloatArray,
    variance: FloatArray,
    quantile: FloatArray,
    level: float,
) -> Intervals:
    difference = scores[:, None] - scores
    half = quantile[:, None] * np.sqrt(variance)
    own = np.diagonal(covariance).copy()
    # A score without one known difference has no interval of its own either.
    known = np.isfinite(variance) & ~np.eye(len(scores), dtype=np.bool_)
    own[~known.any(axis=1)] = np.nan
    reach = quantile * np.sqrt(own)
    return Intervals(level, difference - half, difference + half, scores - reach, scores + reach)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise RangeError("level", None, level, "a coverage between 0 and 1")
