"""How much judging a question needs, settled before any of it is paid for."""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Final

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from canopy.domain.errors import RangeError

CALLS_PER_PAIR: Final = 2
"""Each pair is judged in both orders."""

_EVEN: Final = 0.5
_BLOCK: Final = 4_096


@dataclass(frozen=True, slots=True)
class ExactPairs:
    """Decisive pairs by the exact binomial test of a win rate against 1/2.

    Attributes:
        n: Least decisive pairs at which the test has the power.
        critical_wins: Wins out of `n` from which the test rejects 1/2.
        power: Its power there, at least what was asked for.
    """

    n: int
    critical_wins: int
    power: float


@dataclass(frozen=True, slots=True)
class PairPlan:
    """What it takes to tell a win rate from 1/2.

    Attributes:
        approximate: Decisive pairs by the normal approximation.
        exact: The same by the exact test, which the rest builds on.
        design_effect: Factor for pairs that come in clusters.
        survival: Share of pairs whose winner survives the swap.
        pairs: Pairs to judge.
        calls: Judge calls, two a pair.
    """

    approximate: int
    exact: ExactPairs
    design_effect: float
    survival: float
    pairs: int
    calls: int


@dataclass(frozen=True, slots=True)
class ItemPlan:
    """What it takes to clear a floor on kappa.

    Attributes:
        independent: Items if each were its own cluster.
        design_effect: Factor for items that come in clusters.
        items: Items to rate by both raters.
    """

    independent: int
    design_effect: float
    items: int


def decisive_pairs(
    win_rate: float, *, alpha: float = 0.05, power: float = 0.8, is_two_sided: bool = False
) -> int:
    """Decisive pairs that tell a win rate from 1/2, by the normal approximation.

    Args:
        win_rate: True share of wins among decisive pairs, in (1/2, 1].
        alpha: Error allowed where the truth is 1/2, in (0, 1/2).
        power: Chance of telling, in [1/2, 1).
        is_two_sided: Whether `alpha` is shared with the other direction.

    Returns:
        The least whole number of pairs.

    Raises:
        RangeError: If an argument lies outside its range.

    Source:
        Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions, 2003.
    """
    return ceil(_normal_pairs(win_rate, _tail(alpha, is_two_sided=is_two_sided), power))


def exact_decisive_pairs(
    win_rate: float, *, alpha: float = 0.05, power: float = 0.8, is_two_sided: bool = False
) -> ExactPairs:
    """Decisive pairs that tell a win rate from 1/2, by the exact binomial test.

    Power rises in a saw-tooth, since wins are whole: the least number with the power is given,
    and a few larger ones lack it. Stop at this one, with these critical wins.

    Args:
        win_rate: As for `decisive_pairs`.
        alpha: As for `decisive_pairs`.
        power: As for `decisive_pairs`.
        is_two_sided: As for `decisive_pairs`; the critical wins are those of the upper side.

    Returns:
        The number, the wins that reject, and the power.

    Raises:
        RangeError: If an argument lies outside its range.
    """
    tail = _tail(alpha, is_two_sided=is_two_sided)
    near = _normal_pairs(win_rate, tail, power)
    # The exact test is conservative, so nothing far below the approximation can have the power.
    start = max(1, int(near - 6 * sqrt(near)))
    while True:
        n = np.arange(start, start + _BLOCK)
        critical = np.asarray(binom.isf(tail, n, _EVEN)) + 1
        reached = np.asarray(binom.sf(critical - 1, n, win_rate))
        enough = np.flatnonzero(reached >= power)
        if enough.size:
            first = enough[0]
            return ExactPairs(int(n[first]), int(critical[first]), float(reached[first]))
        start += _BLOCK


def kappa_items(
    kappa: float, floor: float, *, chance: float = 0.5, alpha: float = 0.05, power: float = 0.8
) -> int:
    """Items rated twice that clear a floor on kappa, by the normal approximation.

    Args:
        kappa: True coefficient, in (floor, 1].
        floor: What the lower bound must reach, in [-1, 1).
        chance: Agreement by chance, in [0, 1); `chance_agreement` gives it for two labels.
        alpha: One minus the coverage of the lower bound, in (0, 1/2).
        power: Chance of clearing, in [1/2, 1).

    Returns:
        The least whole number of independent items; chance agreement is taken as known, so few
        items of a rare label want some more.

    Raises:
        RangeError: If an argument lies outside its range.

    Source:
        Cohen, A Coefficient of Agreement for Nominal Scales, EPM 1960, for the variance.
    """
    _require("floor", floor, -1 <= floor < 1, "a coefficient in [-1, 1)")
    _require("kappa", kappa, floor < kappa <= 1, f"more than the floor of {floor:g}, at most 1")
    _require("chance", chance, 0 <= chance < 1, "a share in [0, 1)")
    tail = _tail(alpha, is_two_sided=False)
    _require_power(power)
    agreeing = chance + kappa * (1 - chance)
    _require("chance", chance, agreeing >= 0, "chance that leaves agreement of at least 0")
    spread = agreeing * (1 - agreeing) / (1 - chance) ** 2
    z = float(ndtri(power) - ndtri(tail))
    return max(1, ceil(spread * (z / (kappa - floor)) ** 2))


def chance_agreement(minority: float) -> float:
    """Chance agreement of two raters on two labels with the same frequencies.

    Args:
        minority: Share of either label, in [0, 1].

    Raises:
        RangeError: If it is no share.
    """
    _require("minority", minority, 0 <= minority <= 1, "a share in [0, 1]")
    return minority**2 + (1 - minority) ** 2


def design_effect(cluster_size: float, icc: float) -> float:
    """How many more rows clustered ones must be, to be worth as many independent ones.

    Args:
        cluster_size: Rows of a cluster on average, at least 1.
        icc: Correlation within a cluster, in [0, 1].

    Returns:
        A factor of at least 1.

    Raises:
        RangeError: If an argument lies outside its range.

    Source:
        Kish, Survey Sampling, 1965.
    """
    _require("cluster_size", cluster_size, 1 <= cluster_size < np.inf, "at least 1")
    _require("icc", icc, 0 <= icc <= 1, "a correlation in [0, 1]")
    return 1 + (cluster_size - 1) * icc


def plan_pairs(
    win_rate: float,
    *,
    survival: float = 1.0,
    cluster_size: float = 1.0,
    icc: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
    is_two_sided: bool = False,
) -> PairPlan:
    """Pairs and judge calls that tell a win rate from 1/2.

    Args:
        win_rate: True share of wins among pairs that survive the swap, in (1/2, 1].
        survival: Share of pairs whose winner survives the swap, in (0, 1].
        cluster_size: Pairs of one prompt or tenant on average, at least 1.
        icc: Correlation of their outcomes, in [0, 1].
        alpha: As for `decisive_pairs`.
        power: As for `decisive_pairs`.
        is_two_sided: As for `decisive_pairs`.

    Raises:
        RangeError: If an argument lies outside its range.
    """
    _require("survival", survival, 0 < survival <= 1, "a share in (0, 1]")
    effect = design_effect(cluster_size, icc)
    exact = exact_decisive_pairs(win_rate, alpha=alpha, power=power, is_two_sided=is_two_sided)
    pairs = _whole(exact.n * effect / survival)
    approximate = decisive_pairs(win_rate, alpha=alpha, power=power, is_two_sided=is_two_sided)
    return PairPlan(approximate, exact, effect, survival, pairs, CALLS_PER_PAIR * pairs)


def plan_items(
    kappa: float,
    floor: float,
    *,
    chance: float = 0.5,
    cluster_size: float = 1.0,
    icc: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> ItemPlan:
    """Items that clear a floor on kappa.

    Args:
        kappa: As for `kappa_items`.
        floor: As for `kappa_items`.
        chance: As for `kappa_items`.
        cluster_size: Items of one document or tenant on average, at least 1.
        icc: Correlation of agreement within it, in [0, 1].
        alpha: As for `kappa_items`.
        power: As for `kappa_items`.

    Raises:
        RangeError: If an argument lies outside its range.
    """
    independent = kappa_items(kappa, floor, chance=chance, alpha=alpha, power=power)
    effect = design_effect(cluster_size, icc)
    return ItemPlan(independent, effect, _whole(independent * effect))


def _normal_pairs(win_rate: float, tail: float, power: float) -> float:
    _require("win_rate", win_rate, _EVEN < win_rate <= 1, "a share in (1/2, 1]")
    _require_power(power)
    z = -ndtri(tail) / 2 + ndtri(power) * sqrt(win_rate * (1 - win_rate))
    return float((z / (win_rate - _EVEN)) ** 2)


def _tail(alpha: float, *, is_two_sided: bool) -> float:
    _require("alpha", alpha, 0 < alpha < _EVEN, "an error in (0, 1/2)")
    return alpha / 2 if is_two_sided else alpha


def _require_power(power: float) -> None:
    _require("power", power, _EVEN <= power < 1, "a chance in [1/2, 1)")


def _require(name: str, number: float, holds: bool, expected: str) -> None:  # noqa: FBT001 - reads as a claim
    if not holds:
        raise RangeError(name, None, number, expected)


def _whole(number: float) -> int:
    """The least whole number above, not counting what rounding added."""
    return ceil(round(number, 9))
