"""Scores of plans made of their levels and pairs of levels, beside the free ones.

What two plans share counts for neither, so that verdicts on some plans speak of others too, of
plans nobody judged included.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix
from scipy.stats import chi2

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray, IntArray
from training.preferences.bradley_terry import checked_wins, difference_variance, fit_bradley_terry
from training.preferences.games import Games
from training.preferences.pair_regression import RegressionStatus, fit_pair_regression


@dataclass(frozen=True, slots=True)
class FactoredScores:
    """Scores that are sums over levels and pairs of levels.

    Attributes:
        status: Of the regression.
        scores: Shape (n_plans,), less their mean; None unless fitted. Only differences that
            `is_identified` marks mean anything.
        difference_variance: Shape (n_plans, n_plans). By Fisher information; NaN where not
            identified.
        is_identified: Shape (n_plans, n_plans). Whether data or prior tell the difference.
        n_coefficients: Identified dimensions of the levels and pairs.
        log_likelihood: Of the verdicts; None unless fitted.
        likelihood_ratio: Twice what the free scores gain over these; None where those do not
            exist, or a prior is at work.
        degrees: Dimensions that the free scores have more.
        p_value: Of the ratio: small where levels and pairs do not explain the verdicts.
    """

    status: RegressionStatus
    scores: FloatArray | None
    difference_variance: FloatArray | None
    is_identified: BoolArray
    n_coefficients: int
    log_likelihood: float | None
    likelihood_ratio: float | None
    degrees: int | None
    p_value: float | None


def level_features(levels: IntArray, *, with_pairs: bool = True) -> FloatArray:
    """Indicators of each plan's levels, and of its pairs of levels.

    Args:
        levels: Shape (n_plans, n_factors). Level position of each plan in each factor.
        with_pairs: Whether to add the pairs of levels of two factors.

    Returns:
        Shape (n_plans, n_indicators); combinations that no plan has get no column.
    """
    n_plans, n_factors = levels.shape
    groups: list[tuple[int, ...]] = [(factor,) for factor in range(n_factors)]
    if with_pairs:
        groups += list(combinations(range(n_factors), 2))
    columns = []
    for group in groups:
        kinds, number = np.unique(levels[:, list(group)], axis=0, return_inverse=True)
        columns.append(np.eye(len(kinds))[np.asarray(number).ravel()])
    return np.hstack(columns) if columns else np.zeros((n_plans, 0))


def fit_factored(
    wins: ArrayLike, levels: IntArray, *, with_pairs: bool = True, prior: float = 0.0
) -> FactoredScores:
    """Fit scores of all plans by their levels.

    Args:
        wins: Shape (n_plans, n_plans). Row i, column j: how often plan i beat plan j.
        levels: Shape (n_plans, n_factors). Level position of each plan in each factor.
        with_pairs: Whether pairs of levels have a term of their own.
        prior: Precision of a normal prior on each term, at least 0. Without one, a term that
            the verdicts cannot tell from others leaves differences unidentified.

    Returns:
        The fit.

    Raises:
        ShapeMismatchError: If wins and levels are not of the same plans.
        RangeError: If an entry or the prior is negative, or a plan beat itself.
    """
    table = checked_wins(wins)
    if len(levels) != len(table):
        raise ShapeMismatchError("levels", levels.shape, (len(table), levels.shape[-1]))
    if not 0 <= prior < np.inf:
        raise RangeError("prior", None, prior, "a finite number of at least 0")
    features = level_features(np.asarray(levels), with_pairs=with_pairs)
    games = Games.of(table)
    design = csr_matrix(features[games.first] - features[games.second])
    found = fit_pair_regression(design, games.won, games.lost, prior=prior)
    # A difference is told where the basis carries all of it; its part beyond is a distance.
    beyond = features - features @ found.identified @ found.identified.T
    identified = np.asarray(np.isclose(_distance(beyond), 0.0, atol=1e-6), dtype=np.bool_)
    n_coefficients = found.identified.shape[1]
    if found.coefficients is None or found.covariance is None:
        return FactoredScores(
            found.status, None, None, identified, n_coefficients, None, None, None, None
        )
    scores = features @ found.coefficients
    variance = difference_variance(features @ found.covariance @ features.T)
    ratio = degrees = p_value = None
    free = fit_bradley_terry(table)
    if prior == 0 and free.scores is not None and found.log_likelihood is not None:
        judged = [m for m in free.components if len(m) > 1]
        if all(np.isfinite(free.scores[list(m)]).all() for m in judged):
            reached = games.likelihood(np.nan_to_num(free.scores), 0.0).value
            ratio = max(0.0, 2 * (reached - found.log_likelihood))
            degrees = sum(len(m) - 1 for m in judged) - n_coefficients
            p_value = float(chi2.sf(ratio, degrees)) if degrees > 0 else None
    return FactoredScores(
        status=found.status,
        scores=scores - scores.mean(),
        difference_variance=np.where(identified, variance, np.nan),
        is_identified=identified,
        n_coefficients=n_coefficients,
        log_likelihood=found.log_likelihood,
        likelihood_ratio=ratio,
        degrees=degrees,
        p_value=p_value,
    )


def _distance(points: FloatArray) -> FloatArray:
    """Shape (n, n). Distance of any two rows."""
    return np.asarray(np.sqrt(difference_variance(points @ points.T)))
