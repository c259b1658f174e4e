"""Wealth of a gambler who bets that a mean is larger than claimed, and the bound it proves.

A claim "the mean is at most mu" is tested by betting against it, row by row, with stakes fixed
before the row is seen. Under the claim the wealth is a nonnegative supermartingale that starts at
1, so by Ville's inequality it ever reaches 1 / alpha with probability at most alpha: claims whose
gambler got that rich are rejected, at whatever row one looks. Wealth falls in mu, so the rejected
claims lie below one number, the running lower bound.

Source:
    Waudby-Smith and Ramdas, Estimating Means of Bounded Random Variables by Betting, JRSS-B 2024;
    Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, Anytime-Valid Off-Policy Inference for
    Contextual Bandits, 2022.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.optimize import brentq

from policy.arrays import BoolArray, FloatArray

Bets = Literal["mixture", "schedule"]

SHARES: Final[FloatArray] = 0.002 * 450 ** (np.arange(16) / 15)
"""Shares of the wealth that the mixture stakes: from .2 % to 90 %, spread evenly in logarithm."""

HALF: Final[FloatArray] = np.array([0.5])
"""Share of the wealth that a schedule stakes at most."""

LEAST_MEAN: Final = 1e-9
"""Means closer to 0 are not told from 0."""

EVERY_ROW: Final = 2_000
"""Rows after each of which the bound is brought up to date."""

_PER_LOG: Final = 256
"""Updates of the bound for each e-fold of rows beyond: every 0.4 % of the rows."""

_BLOCK: Final = 64
_PRODUCT: Final = 16
_SAFE_FACTOR: Final = 1e15
"""Factors up to this can be multiplied `_PRODUCT` at a time without overflow."""

_STEP: Final = 1e-3
_TOLERANCE: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Wager:
    """Bets on values whose mean may lie above a claimed mu, for every mu in (0, 1] at once.

    Row i multiplies the wealth of bet j by `1 + min(stakes[i], shares[j] / mu) (values[i] - mu)`,
    at least `1 - shares[j]`; the wealth is the mean over bets.

    Attributes:
        values: Shape (n,), at least 0, with a mean in [0, 1] given the past.
        stakes: Shape (n,), at least 0. Largest stake per unit, fixed before each row; infinite
            where the shares alone decide.
        shares: Shape (n_bets,), in (0, 1). Share of the wealth that can be lost in one row.
    """

    values: FloatArray
    stakes: FloatArray
    shares: FloatArray

    def log_wealth(self, mu: float) -> FloatArray:
        """Logarithm of the wealth after each row, under the claim "at most mu".

        Args:
            mu: Claimed mean, in (0, 1].

        Returns:
            Shape (n,).
        """
        logs = np.log(self._factors(mu, 0, len(self.values)))
        return log_mean_exp(np.cumsum(logs, axis=1))

    def running_lower(self, log_threshold: float) -> FloatArray:
        """The largest claim rejected so far, after each row.

        Args:
            log_threshold: Logarithm of the wealth that rejects a claim: -log(alpha).

        Returns:
            Shape (n,), in [0, 1] and never falling; 0 where nothing was rejected. Up to row 2,000
            it is brought up to date at every row, from there every 0.4 % of the rows and at the
            last one: between, the older bound still holds.
        """
        n = len(self.values)
        lower = np.zeros(n)
        looked = _looked_at(n)
        level, done = 0.0, 0
        logs = np.zeros(len(self.shares))
        while done < n and level < 1:
            stop = min(done + _BLOCK, n)
            mu = max(level, LEAST_MEAN)
            paths = logs[:, None] + np.cumsum(np.log(self._factors(mu, done, stop)), axis=1)
            rises = (log_mean_exp(paths) >= log_threshold) & looked[done:stop]
            if not rises.any():
                lower[done:stop], logs, done = level, paths[:, -1], stop
                continue
            rise = done + int(np.argmax(rises)) + 1
            lower[done:rise] = level
            level = self._rejected(rise, mu, log_threshold)
            lower[rise - 1 :] = level
            logs, done = self._logs_at(max(level, LEAST_MEAN), rise), rise
        return lower

    def final_lower(self, log_threshold: float) -> float:
        """The last entry of `running_lower`, without those before: one search instead of many.

        Args:
            log_threshold: As for `running_lower`.
        """

        # Wealth falls in mu at every row, so the largest over the rows does too.
        def surplus(claim: float) -> float:
            return float(self.log_wealth(claim).max()) - log_threshold

        if not len(self.values) or surplus(LEAST_MEAN) <= 0:
            return 0.0
        return _end_of_rejected(surplus, LEAST_MEAN)

    def _rejected(self, n_rows: int, mu: float, log_threshold: float) -> float:
        def surplus(claim: float) -> float:
            logs = self._logs_at(claim, n_rows)
            return float(log_mean_exp(logs[:, None])[0]) - log_threshold

        return _end_of_rejected(surplus, mu)

    def _logs_at(self, mu: float, n_rows: int) -> FloatArray:
        """Logarithm of each bet's wealth after some rows, of shape (n_bets,)."""
        factors = self._factors(mu, 0, n_rows)
        if factors.max() < _SAFE_FACTOR:
            # A logarithm per group of rows instead of one per row: several times quicker.
            factors = np.multiply.reduceat(factors, np.arange(0, n_rows, _PRODUCT), axis=1)
        return np.asarray(np.log(factors).sum(axis=1), dtype=np.float64)

    def _factors(self, mu: float, start: int, stop: int) -> FloatArray:
        stakes = np.minimum(self.stakes[start:stop], (self.shares / mu)[:, None])
        return np.asarray(1 + stakes * (self.values[start:stop] - mu), dtype=np.float64)


def _end_of_rejected(surplus: Callable[[float], float], mu: float) -> float:
    """The largest claim whose surplus of evidence is not below 0, searched upwards from `mu`.

    Evidence at `mu` suffices. The end is rounded to the side of what is rejected, so that the
    bound never promises more than the wealth proves.
    """
    below, step = mu, _STEP
    above = min(1.0, mu + step)
    while surplus(above) >= 0:
        if above >= 1:
            return 1.0
        below, step = above, 4 * step
        above = min(1.0, above + step)
    if surplus(below) <= 0:
        return below
    root = float(brentq(surplus, below, above, xtol=_TOLERANCE, rtol=1e-12))
    return max(below, root - 2 * _TOLERANCE)


def wager(bets: Bets, values: FloatArray, log_threshold: float) -> Wager:
    """The wager of a name.

    Args:
        bets: `mixture` or `schedule`.
        values: Shape (n,), as for `Wager`.
        log_threshold: Logarithm of the wealth that rejects; the schedule's stakes follow it.
    """
    return mixture(values) if bets == "mixture" else schedule(values, log_threshold)


def mixture(values: FloatArray) -> Wager:
    """Sixteen constant shares of the wealth, averaged: no tuning, and the narrowest over time."""
    return Wager(values, np.full(len(values), np.inf), SHARES)


def schedule(values: FloatArray, log_threshold: float) -> Wager:
    """Stakes that fall with the rows and the spread seen so far."""
    return Wager(values, stakes(values, log_threshold), HALF)


def fixed_length(values: FloatArray, log_threshold: float, n_rows: int) -> Wager:
    """Stakes that are best at a number of rows known in advance.

    Args:
        values: Shape (n,), as for `Wager`.
        log_threshold: Logarithm of the wealth that rejects.
        n_rows: How many rows there will be.
    """
    spread = past_variance(values)
    wanted = np.sqrt(2 * log_threshold / (max(n_rows, 1) * spread))
    return Wager(values, wanted, HALF)


def stakes(values: FloatArray, log_threshold: float) -> FloatArray:
    """The schedule's stake of each row, from earlier rows only.

    Returns:
        Shape (n,): `sqrt(2 log_threshold / (i log(1 + i) s2))`, s2 the variance of rows before i.
    """
    row = np.arange(1, len(values) + 1)
    wanted = 2 * log_threshold / (row * np.log1p(row) * past_variance(values))
    return np.asarray(np.sqrt(wanted), dtype=np.float64)


def past_mean(values: FloatArray) -> FloatArray:
    """Mean of the rows before each, with one pseudo-row at 1/2; shape (n,)."""
    row = np.arange(1, len(values) + 1)
    return np.asarray((0.5 + np.cumsum(values) - values) / row, dtype=np.float64)


def past_variance(values: FloatArray) -> FloatArray:
    """Variance of the rows before each, with one pseudo-row that deviates by 1/2; shape (n,)."""
    n = len(values)
    row = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(values)) / (row + 1)
    through = (0.25 + np.cumsum(np.square(values - means))) / (row + 1)
    return np.concatenate([[0.25], through])[:n]


def log_mean_exp(logs: FloatArray) -> FloatArray:
    """Logarithm of the mean of exponentials over the first axis."""
    if len(logs) == 1:
        return np.asarray(logs[0], dtype=np.float64)
    most = logs.max(axis=0)
    mean = np.exp(logs - most).mean(axis=0)
    return np.asarray(most + np.log(mean), dtype=np.float64)


def _looked_at(n_rows: int) -> BoolArray:
    row = np.arange(1, n_rows + 1)
    steps = np.floor(_PER_LOG * np.log(np.maximum(row, EVERY_ROW) / EVERY_ROW))
    looked: BoolArray = (row <= EVERY_ROW) | (np.diff(steps, prepend=0) > 0)
    looked[-1:] = True
    return looked
