"""Bradley-Terry scores from counts of wins, with a verdict on whether the data say anything.

P(i beats j) = 1 / (1 + exp(-(score_i - score_j))). Without a prior the scores exist only where
every item can be reached from every other along wins; where that fails, the fit says which items
it concerns instead of returning the number at which its iterations happened to stop.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray

FitStatus = Literal["connected", "separated", "disconnected", "no_data"]

_TOLERANCE: Final = 1e-9
_MAX_STEPS: Final = 200
_ROUNDING: Final = 1e-13
_MATRIX: Final = 2
_LEAST_ITEMS: Final = 2


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """Scores, and what they rest on.

    Attributes:
        status: `connected`: one scale for all items. `separated`: items fall into groups that
            never lost to, or never beat, the others, so that only their order is known.
            `disconnected`: some items were never compared, even through others. `no_data`.
        scores: Shape (n,), summing to 0 within each component; NaN for items of a component that
            is separated, where there is no prior. None where no item has a score.
        components: Items that were compared, through others if need be; the largest first.
        groups: Items within which every one can be reached from every other along wins, from the
            strongest to the weakest within each component; one group a component is what a scale
            without a prior needs.
        difference_variance: Shape (n, n). Variance of each difference of two scores, by Fisher
            information; NaN across components and where there is no score. None without scores.
        prior_dominated: Shape (n, n). True where a difference owes more to the prior than to the
            data; all False without a prior.
        gradient: Largest component of the gradient left, in wins: the certificate of the fit.
        prior: The prior's precision.
    """

    status: FitStatus
    scores: FloatArray | None
    components: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    difference_variance: FloatArray | None
    prior_dominated: BoolArray
    gradient: float
    prior: float


def fit_bradley_terry(wins: ArrayLike, prior: float = 0.0) -> BradleyTerry:
    """Fit Bradley-Terry scores by Newton's method.

    Args:
        wins: Shape (n, n), at least 0; row i, column j: how often i beat j. Half wins are
            allowed. The diagonal is 0.
        prior: Precision of an independent normal prior on each score, centred at 0; at least 0.
            It acts on every item alike, so that items that nobody compared move nothing.

    Returns:
        The fit, with its status whatever the prior.

    Raises:
        ShapeMismatchError: If the table is not square.
        RangeError: If an entry is negative or not finite, an item beat itself, or the prior is
            negative.

    Source:
        Bradley and Terry, Rank Analysis of Incomplete Block Designs, Biometrika 1952; Ford,
        Solution of a Ranking Problem from Binary Comparisons, 1957, for existence.
    """
    table = _checked(wins)
    if not 0 <= prior < np.inf:
        raise RangeError("prior", None, prior, "a finite number of at least 0")
    n = len(table)
    components = _components(table)
    groups = tuple(group for members in components for group in _groups(table, members))
    scores, variance = np.full(n, np.nan), np.full((n, n), np.nan)
    dominated = np.zeros((n, n), dtype=np.bool_)
    gradient = 0.0
    for members in components:
        if prior == 0 and (len(members) < _LEAST_ITEMS or len(_groups(table, members)) > 1):
            continue
        place = np.ix_(members, members)
        found, left = _newton(table[place], prior)
        scores[list(members)] = found
        variance[place], dominated[place] = _differences(table[place], found, prior)
        gradient = max(gradient, left)
    has_scores = bool(np.isfinite(scores).any())
    return BradleyTerry(
        status=_status(table, components, groups),
        scores=scores if has_scores else None,
        components=components,
        groups=groups,
        difference_variance=variance if has_scores else None,
        prior_dominated=dominated,
        gradient=gradient,
        prior=prior,
    )


def _checked(wins: ArrayLike) -> FloatArray:
    table = np.asarray(wins, dtype=np.float64)
    if table.ndim != _MATRIX or table.shape[0] != table.shape[1]:
        raise ShapeMismatchError("wins", table.shape, (len(np.atleast_1d(table)),) * 2)
    for row, column in np.argwhere(~(np.isfinite(table) & (table >= 0)))[:1]:
        raise RangeError("wins", int(row) + 1, float(table[row, column]), "counts of at least 0")
    for item in np.flatnonzero(np.diagonal(table) != 0)[:1]:
        raise RangeError(
            "wins", int(item) + 1, float(table[item, item]), "no comparison of an item with itself"
        )
    return table


def _components(table: FloatArray) -> tuple[tuple[int, ...], ...]:
    _, labels = connected_components(csr_matrix(table), directed=True, connection="weak")
    members = [tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]
    return tuple(sorted(members, key=lambda one: (-len(one), one)))


def _groups(table: FloatArray, members: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Strongly connected items of a component, the strongest first."""
    mine = table[np.ix_(members, members)]
    n, labels = connected_components(csr_matrix(mine), directed=True, connection="strong")
    beats = np.zeros((n, n), dtype=np.bool_)
    winners, losers = np.nonzero(mine)
    beats[labels[winners], labels[losers]] = True
    np.fill_diagonal(beats, val=False)
    order: list[int] = []
    left = set(range(n))
    while left:
        # Wins between groups run one way, so that some group was never beaten by those left.
        best = min(g for g in left if not any(beats[other, g] for other in left))
        order.append(best)
        left.remove(best)
    return [tuple(members[i] for i in np.flatnonzero(labels == group).tolist()) for group in order]


def _status(
    table: FloatArray,
    components: tuple[tuple[int, ...], ...],
    groups: tuple[tuple[int, ...], ...],
) -> FitStatus:
    if not table.any():
        return "no_data"
    if len(components) > 1:
        return "disconnected"
    return "connected" if len(groups) == 1 else "separated"


def _newton(wins: FloatArray, prior: float) -> tuple[FloatArray, float]:
    played = wins + wins.T
    won = wins.sum(axis=1)
    n = len(wins)
    scores = np.zeros(n)
    limit = _TOLERANCE * max(1.0, float(played.sum(axis=1).max()))
    value = _log_likelihood(wins, scores, prior)
    for _ in range(_MAX_STEPS):
        chance = expit(scores[:, None] - scores)
        gradient = won - (played * chance).sum(axis=1) - prior * scores
        left = float(np.abs(gradient).max())
        information = _information(played, chance) + prior * np.eye(n)
        # Without a prior the mean of the scores is free: any multiple of ones may be added.
        scale = float(np.diagonal(information).max())
        step = np.linalg.solve(information + np.full((n, n), scale / n), gradient)
        # A small gradient alone is not enough: far apart, scores move long for next to none.
        if left <= limit and np.abs(step).max() <= _TOLERANCE * max(1.0, np.abs(scores).max()):
            return scores - scores.mean(), left
        scores, value = _ascend(wins, scores, step, value, prior)
    raise ArithmeticError(f"Bradley-Terry did not settle within {_MAX_STEPS} steps.")


def _ascend(
    wins: FloatArray, scores: FloatArray, step: FloatArray, value: float, prior: float
) -> tuple[FloatArray, float]:
    """The longest halving of a step that does not lower the likelihood, rounding apart."""
    length = 1.0
    slack = _ROUNDING * max(1.0, abs(value))
    while length > _TOLERANCE:
        moved = scores + length * step
        reached = _log_likelihood(wins, moved, prior)
        if reached >= value - slack:
            return moved, reached
        length /= 2
    # Only rounding is left to gain.
    return scores + step, value


def _log_likelihood(wins: FloatArray, scores: FloatArray, prior: float) -> float:
    # log(1 + e^-z), never log(1 - p): p rounds to 1 from a difference of 37 on.
    losses = np.logaddexp(0, scores - scores[:, None])
    return float(-(wins * losses).sum() - prior / 2 * (scores @ scores))


def _information(played: FloatArray, chance: FloatArray) -> FloatArray:
    weights = played * chance * (1 - chance)
    return np.asarray(np.diag(weights.sum(axis=1)) - weights)


def _differences(
    wins: FloatArray, scores: FloatArray, prior: float
) -> tuple[FloatArray, BoolArray]:
    """Variances of differences, and where the prior says more than the data."""
    n = len(wins)
    chance = expit(scores[:, None] - scores)
    data = _information(wins + wins.T, chance)
    gauge = np.full((n, n), max(float(np.diagonal(data).max()), prior) / n)
    variance = _of_pairs(np.linalg.inv(data + prior * np.eye(n) + gauge))
    if prior == 0:
        return variance, np.zeros((n, n), dtype=np.bool_)
    with np.errstate(divide="ignore"):
        informed = 1 / _of_pairs(np.asarray(np.linalg.pinv(data, hermitian=True)))
    # The prior alone leaves a difference a variance of 2 / prior.
    return variance, np.asarray((informed < prior / 2) & ~np.eye(n, dtype=np.bool_))


def _of_pairs(covariance: FloatArray) -> FloatArray:
    own = np.diagonal(covariance)
    return np.asarray(np.maximum(own[:, None] + own - 2 * covariance, 0.0))
