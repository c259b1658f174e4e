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

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray
from training.preferences.games import Games, Gauged, Likelihood

FitStatus = Literal["connected", "separated", "disconnected", "no_data"]

_TOLERANCE: Final = 1e-9
_SHORT: Final = 1e-6
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
        covariance: Shape (n, n). Of the scores less their component's mean, by Fisher
            information; NaN across components and where there is no score. None without scores.
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
    covariance: FloatArray | None
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
    table = checked_wins(wins)
    if not 0 <= prior < np.inf:
        raise RangeError("prior", None, prior, "a finite number of at least 0")
    n = len(table)
    components = _components(table)
    groups: tuple[tuple[int, ...], ...] = components
    if len(components) != 1 or not is_strongly_connected(table):
        groups = tuple(group for members in components for group in _groups(table, members))
    scores, covariance = np.full(n, np.nan), np.full((n, n), np.nan)
    dominated = np.zeros((n, n), dtype=np.bool_)
    gradient = 0.0
    grouped = {group[0]: len(group) for group in groups}
    for members in components:
        # One group that is the whole component: a scale without a prior needs no less.
        is_one = len(members) >= _LEAST_ITEMS and grouped.get(members[0]) == len(members)
        if prior == 0 and not is_one:
            continue
        place = np.ix_(members, members)
        games = Games.of(table[place])
        found, at = _ascended(games, prior)
        scores[list(members)] = found - found.mean()
        covariance[place] = Gauged.of(games.information(at.information), prior).covariance()
        dominated[place] = _dominated(games, at.information, prior)
        gradient = max(gradient, float(np.abs(at.gradient).max()))
    has_scores = bool(np.isfinite(scores).any())
    return BradleyTerry(
        status=_status(table, components, groups),
        scores=scores if has_scores else None,
        components=components,
        groups=groups,
        covariance=covariance if has_scores else None,
        difference_variance=difference_variance(covariance) if has_scores else None,
        prior_dominated=dominated,
        gradient=gradient,
        prior=prior,
    )


def checked_wins(wins: ArrayLike) -> FloatArray:
    """A table of wins as an array.

    Args:
        wins: Shape (n, n).

    Raises:
        ShapeMismatchError: If it is not square.
        RangeError: If an entry is negative or not finite, or an item beat itself.
    """
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


def is_strongly_connected(table: FloatArray) -> bool:
    """Whether every item can be reached from every other along wins.

    Args:
        table: Shape (n, n). Of `checked_wins`.
    """
    for along in (table > 0, table.T > 0):
        reached = np.zeros(len(table), dtype=np.bool_)
        reached[:1] = True
        n_reached = 0
        while n_reached < int(reached.sum()):
            n_reached = int(reached.sum())
            reached |= along[reached].any(axis=0)
        if not reached.all():
            return False
    return True


def _components(table: FloatArray) -> tuple[tuple[int, ...], ...]:
    if len(table) and is_strongly_connected(table + table.T):
        return (tuple(range(len(table))),)
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


def _ascended(games: Games, prior: float) -> tuple[FloatArray, Likelihood]:
    """Scores where the gradient is as good as 0, and the likelihood there.

    Raises:
        ArithmeticError: If there are none within the steps allowed.
    """
    scores = games.start if prior == 0 else np.zeros(games.n)
    at = games.likelihood(scores, prior)
    limit = _TOLERANCE * max(1.0, games.most_games)
    for _ in range(_MAX_STEPS):
        step = Gauged.of(games.information(at.information), prior).solve(at.gradient)
        scores, at = _climbed(games, scores, step, at, prior)
        # A small gradient alone is not enough: far apart, scores move long for next to none.
        # A small step is: Newton's next one would be about its square.
        is_short = np.abs(step).max() <= _SHORT * max(1.0, np.abs(scores).max())
        if is_short and np.abs(at.gradient).max() <= limit:
            return scores, at
    raise ArithmeticError(f"Bradley-Terry did not settle within {_MAX_STEPS} steps.")


def _climbed(
    games: Games, scores: FloatArray, step: FloatArray, at: Likelihood, prior: float
) -> tuple[FloatArray, Likelihood]:
    """The longest halving of a step that does not lower the likelihood, rounding apart."""
    length = 1.0
    slack = _ROUNDING * max(1.0, abs(at.value))
    while length > _TOLERANCE:
        moved = scores + length * step
        reached = games.likelihood(moved, prior)
        if reached.value >= at.value - slack:
            return moved, reached
        length /= 2
    # Only rounding is left to gain.
    return scores + step, games.likelihood(scores + step, prior)


def _dominated(games: Games, information: FloatArray, prior: float) -> BoolArray:
    """Where the prior says more of a difference than the data."""
    if prior == 0:
        return np.zeros((games.n, games.n), dtype=np.bool_)
    data = np.asarray(np.linalg.pinv(games.information(information), hermitian=True))
    with np.errstate(divide="ignore"):
        informed = 1 / difference_variance(data)
    # The prior alone leaves a difference a variance of 2 / prior.
    return np.asarray((informed < prior / 2) & ~np.eye(games.n, dtype=np.bool_))


def difference_variance(covariance: FloatArray) -> FloatArray:
    """Variances of all differences.

    Args:
        covariance: Shape (n, n).

    Returns:
        Shape (n, n).
    """
    own = np.diagonal(covariance)
    return np.asarray(np.maximum(own[:, None] + own - 2 * covariance, 0.0))
