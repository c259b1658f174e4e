"""Intervals from fits of whole clusters drawn again: the cluster bootstrap."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.special import expit

from canopy.domain.errors import RangeError
from policy.arrays import BoolArray, FloatArray, IntArray
from training.preferences.bradley_terry import BradleyTerry
from training.preferences.clustered import Intervals
from training.preferences.comparisons import Comparisons
from training.preferences.games import Games

Counts = npt.NDArray[np.float32] | csr_matrix

_DENSE: Final = 100_000_000
_CELLS: Final = 8_000_000
_MAX_STEPS: Final = 30
_SHORT: Final = 1e-7
_LONGEST: Final = 4.0


@dataclass(frozen=True, slots=True)
class ResampledIntervals:
    """Percentile intervals over replicates of a fit.

    Attributes:
        intervals: Of differences and scores; NaN where too many replicates have no value for
            the percentile to be one.
        n_resamples: Replicates drawn.
        n_undefined: Replicates whose scores do not exist, because the clusters drawn leave an
            item never beaten or never beating. They count as infinitely far on both sides.
        n_clusters: Clusters drawn from.
    """

    intervals: Intervals
    n_resamples: int
    n_undefined: int
    n_clusters: int


def resampled_intervals(
    comparisons: Comparisons,
    fit: BradleyTerry,
    *,
    rng: np.random.Generator,
    n_resamples: int = 1_000,
    level: float = 0.95,
) -> ResampledIntervals:
    """Draw as many clusters as there are, with replacement, and fit again; many times.

    Args:
        comparisons: What was fitted.
        fit: The fit of their wins.
        rng: Source of the draws.
        n_resamples: Replicates, at least 1.
        level: Coverage, between 0 and 1.

    Returns:
        The intervals; differences across components have none.

    Raises:
        RangeError: If the level or the number of replicates is none.
    """
    if n_resamples < 1:
        raise RangeError("n_resamples", None, n_resamples, "at least 1 replicate")
    if not 0 < level < 1:
        raise RangeError("level", None, level, "a coverage between 0 and 1")
    n = len(comparisons.items)
    drawn = np.full((n_resamples, n), np.nan)
    undefined = np.zeros(n_resamples, dtype=np.bool_)
    scores = np.full(n, np.nan) if fit.scores is None else fit.scores
    counts, games = _by_cluster(comparisons)
    n_clusters = counts.shape[0]
    if n_clusters > 1:
        batch = max(1, _CELLS // max(n * n, len(games.first), 1))
        for start in range(0, n_resamples, batch):
            rows = np.arange(start, min(start + batch, n_resamples))
            times = rng.multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), len(rows))
            for members in map(np.array, fit.components):
                if not np.isfinite(scores[members]).all() or len(members) == 1:
                    continue
                found, lost = _replicates(
                    counts, games, times.astype(np.float32), members, scores[members], fit.prior
                )
                drawn[np.ix_(rows, members)] = found
                undefined[rows] |= lost
    return ResampledIntervals(
        _percentiles(drawn, fit, level), n_resamples, int(undefined.sum()), n_clusters
    )


def _by_cluster(comparisons: Comparisons) -> tuple[Counts, Games]:
    """What each cluster that has comparisons counts for each pair: first's wins, second's wins."""
    games = Games.of(comparisons.wins)
    n, m = games.n, len(games.first)
    place = np.zeros(n * n, dtype=np.int64)
    place[games.first * n + games.second] = np.arange(m)
    place[games.second * n + games.first] = np.arange(m, 2 * m)
    column = place[comparisons.outcome]
    n_names = len(comparisons.cluster.names)
    used = np.bincount(comparisons.cluster.numbers, minlength=n_names) > 0
    row = (np.cumsum(used) - 1)[comparisons.cluster.numbers]
    shape = (int(used.sum()), 2 * m)
    if shape[0] * shape[1] <= _DENSE:
        cells = np.bincount(row * (2 * m) + column, comparisons.weight, shape[0] * shape[1])
        # Exact in float32 up to 16 million, and half wins too.
        return cells.astype(np.float32).reshape(shape), games
    weight = np.ones(len(row)) if comparisons.weight is None else comparisons.weight
    return csr_matrix((weight.astype(np.float32), (row, column)), shape=shape), games


def _replicates(
    counts: Counts,
    games: Games,
    times: npt.NDArray[np.float32],
    members: IntArray,
    start: FloatArray,
    prior: float,
) -> tuple[FloatArray, BoolArray]:
    """Scores of one component in each replicate, and where they do not exist."""
    number = np.full(games.n, -1)
    number[members] = np.arange(len(members))
    pairs = np.flatnonzero(number[games.first] >= 0)
    m = len(games.first)
    first, second = number[games.first[pairs]], number[games.second[pairs]]
    mine = counts[:, np.concatenate([pairs, m + pairs])]
    drawn = np.asarray((mine.T @ times.T).T if isinstance(mine, csr_matrix) else times @ mine)
    won, lost = drawn[:, : len(pairs)].astype(float), drawn[:, len(pairs) :].astype(float)
    exists = np.ones(len(drawn), dtype=np.bool_)
    if prior == 0:
        exists = _is_strongly_connected(first, second, won, lost, len(members))
    scores = np.full((len(drawn), len(members)), np.nan)
    scores[exists] = _newton(first, second, won[exists], lost[exists], start, prior)
    return scores, ~exists


def _is_strongly_connected(
    first: IntArray, second: IntArray, won: FloatArray, lost: FloatArray, n: int
) -> BoolArray:
    """Shape (replicates,). Whether every item can be reached from every other along wins."""
    beats = np.zeros((len(won), n, n), dtype=np.float32)
    beats[:, first, second] = won > 0
    beats[:, second, first] = lost > 0
    found = np.ones(len(won), dtype=np.bool_)
    for along in (beats, beats.transpose(0, 2, 1)):
        reached = np.zeros((len(won), 1, n), dtype=np.float32)
        reached[:, 0, 0] = 1
        n_reached = 0
        while n_reached < reached.sum():
            n_reached = int(reached.sum())
            reached = ((reached + reached @ along) > 0).astype(np.float32)
        found &= reached.all(axis=(1, 2))
    return found


def _newton(
    first: IntArray,
    second: IntArray,
    won: FloatArray,
    lost: FloatArray,
    start: FloatArray,
    prior: float,
) -> FloatArray:
    """Shape (replicates, n). Scores of many replicates at once, each less its mean.

    Raises:
        ArithmeticError: If a replicate does not settle within the steps allowed.
    """
    n, rows = len(start), np.arange(len(first))
    ones = np.ones(len(first))
    signs = csr_matrix((
        np.concatenate([ones, -ones]),
        (np.concatenate([first, second]), np.tile(rows, 2)),
    ))
    ends = abs(signs)
    scores = np.tile(start, (len(won), 1))
    active = np.arange(len(won))
    for _ in range(_MAX_STEPS):
        if not len(active):
            return np.asarray(scores - scores.mean(axis=1, keepdims=True))
        mine = scores[active]
        chance = expit(mine[:, first] - mine[:, second])
        played = won[active] + lost[active]
        gradient = (signs @ (won[active] - played * chance).T).T - prior * mine
        information = played * chance * (1 - chance)
        matrix = np.zeros((len(active), n, n))
        matrix[:, first, second] = -information
        matrix += matrix.transpose(0, 2, 1)
        own = (ends @ information.T).T
        matrix[:, np.arange(n), np.arange(n)] = own + prior
        matrix += np.maximum(own.max(axis=1), prior)[:, None, None] / n
        step = np.linalg.solve(matrix, gradient[..., None])[..., 0]
        size = np.abs(step).max(axis=1)
        scores[active] = mine + step / np.maximum(1, size / _LONGEST)[:, None]
        active = active[size > _SHORT * np.maximum(1, np.abs(mine).max(axis=1))]
    raise ArithmeticError(f"A replicate did not settle within {_MAX_STEPS} steps.")


def _percentiles(drawn: FloatArray, fit: BradleyTerry, level: float) -> Intervals:
    """Percentile intervals; a replicate without a value lies beyond both ends."""
    n = drawn.shape[1]
    lower, upper = np.full((n, n), np.nan), np.full((n, n), np.nan)
    # Rounded: one half of 1 - .95 is a trifle above .025, which would skip a replicate.
    tails = round((1 - level) / 2, 12), round((1 + level) / 2, 12)
    for members in fit.components:
        mine = list(members)
        for place, item in enumerate(mine):
            others = mine[place + 1 :]
            low, high = _ends(drawn[:, [item]] - drawn[:, others], tails)
            lower[item, others], upper[item, others] = low, high
            lower[others, item], upper[others, item] = -high, -low
    low, high = _ends(drawn, tails)
    known = ~np.isnan(drawn).all(axis=0)
    lower[np.diag_indices(n)] = upper[np.diag_indices(n)] = np.where(known, 0.0, np.nan)
    return Intervals(level, lower, upper, low, high)


def _ends(values: FloatArray, tails: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    missing = np.isnan(values)
    # By the inverse of the distribution function: between a number and infinity there is none.
    low = np.quantile(np.where(missing, -np.inf, values), tails[0], axis=0, method="inverted_cdf")
    high = np.quantile(np.where(missing, np.inf, values), tails[1], axis=0, method="inverted_cdf")
    return np.where(np.isfinite(low), low, np.nan), np.where(np.isfinite(high), high, np.nan)
