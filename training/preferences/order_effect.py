"""Scores and order bias fitted together, on every verdict that could be read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix, hstack
from scipy.stats import chi2

from policy.arrays import FloatArray
from training.preferences.bradley_terry import (
    FitStatus,
    checked_wins,
    difference_variance,
    fit_bradley_terry,
)
from training.preferences.games import Games
from training.preferences.pair_regression import fit_pair_regression
from training.preferences.pair_table import PairTable
from training.preferences.swaps import A, B


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """Scores whose differences are the log-odds of one verdict, were sides of no account.

    Attributes:
        status: As of `fit_bradley_terry`; `separated` too where the order explains every verdict.
        scores: Shape (n,), summing to 0 within each component; None where they do not exist.
        difference_variance: Shape (n, n). By Fisher information; NaN across components.
        b: On the scale of the scores: the side shown first wins with odds e^b higher. None where
            the order cannot be told from the items.
        std_err: Its standard error.
        likelihood_ratio: Twice the log-likelihood gained over no effect.
        p_value: Of the ratio, against no effect.
    """

    status: FitStatus
    scores: FloatArray | None
    difference_variance: FloatArray | None
    b: float | None
    std_err: float | None
    likelihood_ratio: float | None
    p_value: float | None


def count_orders(pairs: PairTable) -> tuple[FloatArray, FloatArray]:
    """Decisive verdicts by who was shown first.

    Args:
        pairs: What was judged, in one order or both.

    Returns:
        Two arrays of shape (n, n); row i, column j: how often i, shown first, beat j; and how
        often j, shown second, beat i.
    """
    first = pairs.count(A, None) + pairs.count(None, B).T
    second = pairs.count(B, None) + pairs.count(None, A).T
    return first, second


def fit_order_effect(first_wins: ArrayLike, second_wins: ArrayLike) -> OrderEffect:
    """Fit P(first wins) = 1 / (1 + exp(-(score_first - score_second + b))).

    Args:
        first_wins: Shape (n, n). Row i, column j: how often i, shown first, beat j.
        second_wins: Shape (n, n). Row i, column j: how often j, shown second, beat i.

    Returns:
        The fit. Its standard errors take all verdicts for independent, which two of one pair
        are only given the pair: read them as a diagnostic.

    Raises:
        ShapeMismatchError: If the tables are not square or differ in size.
        RangeError: If an entry is negative or not finite, or an item met itself.

    Source:
        Davidson and Beaver, On Extending the Bradley-Terry Model to Incorporate Within-Pair
        Order Effects, Biometrics 1977.
    """
    first, second = checked_wins(first_wins), checked_wins(second_wins)
    plain = fit_bradley_terry(first + second.T)
    n = len(first)
    rows, columns = np.nonzero(first + second)
    m = len(rows)
    signs = csr_matrix(
        (np.repeat([1.0, -1.0], m), (np.tile(np.arange(m), 2), np.concatenate([rows, columns]))),
        shape=(m, n),
    )
    design = hstack([signs, csr_matrix(np.ones((m, 1)))]).tocsr()
    won, lost = first[rows, columns], second[rows, columns]
    start = np.zeros(n + 1)
    if plain.scores is not None:
        start[:n] = np.nan_to_num(plain.scores)
    found = fit_pair_regression(design, won, lost, start=start)
    if found.coefficients is None or found.covariance is None:
        status: FitStatus = "no_data" if found.status == "no_data" else "separated"
        return OrderEffect(status, None, None, None, None, None, None)
    scores, variance = np.full(n, np.nan), np.full((n, n), np.nan)
    of_differences = difference_variance(found.covariance[:n, :n])
    for members in plain.components:
        place = list(members)
        scores[place] = found.coefficients[place] - found.coefficients[place].mean()
        variance[np.ix_(members, members)] = of_differences[np.ix_(members, members)]
    order = np.eye(n + 1)[[n]]
    b = std_err = ratio = p_value = None
    if found.is_identified(order)[0]:
        b, std_err = float(found.coefficients[n]), float(np.sqrt(found.covariance[n, n]))
        ratio = _likelihood_ratio(found.log_likelihood, first + second.T, plain.scores)
        p_value = None if ratio is None else float(chi2.sf(ratio, 1))
    return OrderEffect(plain.status, scores, variance, b, std_err, ratio, p_value)


def _likelihood_ratio(
    with_order: float | None, wins: FloatArray, scores: FloatArray | None
) -> float | None:
    if with_order is None or scores is None or not np.isfinite(scores).all():
        return None
    return max(0.0, 2 * (with_order - Games.of(wins).likelihood(scores, 0.0).value))
