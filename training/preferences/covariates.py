"""Scores with what is beside the point held equal, such as the length of a text."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, hstack

from canopy.domain.errors import InputError
from policy.arrays import FloatArray
from training.preferences.bradley_terry import difference_variance, fit_bradley_terry
from training.preferences.comparisons import Comparisons
from training.preferences.pair_regression import RegressionStatus, fit_pair_regression


@dataclass(frozen=True, slots=True)
class CovariateEffect:
    """What one covariate does.

    Attributes:
        name: The covariate.
        coefficient: Log-odds of winning per standard deviation of the difference; None where
            it cannot be told from the items.
        std_err: Its standard error, clustered where there are clusters.
        scale: That standard deviation, in the covariate's own units.
    """

    name: str
    coefficient: float | None
    std_err: float | None
    scale: float


@dataclass(frozen=True, slots=True)
class ControlledScores:
    """Scores at equal covariates.

    Attributes:
        status: Of the regression; `separated` where the covariates explain every comparison.
        scores: Shape (n,), summing to 0 within each component; None unless fitted.
        difference_variance: Shape (n, n). Clustered where there are at least two clusters, else
            by Fisher information; NaN across components.
        effects: What each covariate does.
    """

    status: RegressionStatus
    scores: FloatArray | None
    difference_variance: FloatArray | None
    effects: tuple[CovariateEffect, ...]


def fit_with_covariates(comparisons: Comparisons, *, prior: float = 0.0) -> ControlledScores:
    """Fit scores and the effects of the comparisons' covariates together.

    Args:
        comparisons: Comparisons with covariates.
        prior: Precision of a normal prior on each score; the covariates have none.

    Returns:
        The fit.

    Raises:
        InputError: If there is no covariate, or one that is the same on both sides throughout.
        RangeError: If the prior is negative.
    """
    if not comparisons.covariates:
        raise InputError("covariates", "are none.", "Name one, such as length.")
    scales = {}
    for name, column in comparisons.covariates.items():
        scale = float(np.sqrt(np.mean(column**2))) if len(column) else 0.0
        if scale == 0:
            raise InputError(
                f"covariate {name}", "never differs between the two sides.", "Leave it out."
            )
        scales[name] = scale
    n, m = len(comparisons.items), len(comparisons)
    rows = np.tile(np.arange(m), 2)
    columns = np.concatenate([comparisons.winner, comparisons.loser])
    signs = csr_matrix((np.repeat([1.0, -1.0], m), (rows, columns)), shape=(m, n))
    beside = np.column_stack([comparisons.covariates[name] / scales[name] for name in scales])
    weight = np.ones(m) if comparisons.weight is None else comparisons.weight
    found = fit_pair_regression(
        hstack([signs, csr_matrix(beside)]).tocsr(),
        weight,
        np.zeros(m),
        prior=np.concatenate([np.full(n, prior), np.zeros(len(scales))]),
        cluster=comparisons.cluster.numbers,
    )
    if found.coefficients is None or found.covariance is None:
        unknown = tuple(CovariateEffect(name, None, None, scales[name]) for name in scales)
        return ControlledScores(found.status, None, None, unknown)
    covariance = found.covariance if found.clustered is None else found.clustered
    known = found.is_identified(np.eye(n + len(scales))[n:])
    effects = tuple(
        CovariateEffect(
            name,
            float(found.coefficients[n + place]) if known[place] else None,
            float(np.sqrt(covariance[n + place, n + place])) if known[place] else None,
            scale,
        )
        for place, (name, scale) in enumerate(scales.items())
    )
    scores, variance = np.full(n, np.nan), np.full((n, n), np.nan)
    of_differences = difference_variance(covariance[:n, :n])
    for members in fit_bradley_terry(comparisons.wins, prior).components:
        place = list(members)
        scores[place] = found.coefficients[place] - found.coefficients[place].mean()
        variance[np.ix_(members, members)] = of_differences[np.ix_(members, members)]
    return ControlledScores(found.status, scores, variance, effects)
