"""Bounds for a number of rows fixed in advance; whoever peeks needs a sequence instead."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from canopy.domain.errors import RangeError
from eval.estimators.checks import numbers, require
from eval.intervals.sequences import declared, log_inverse

_LEAST_ROWS: Final = 2


@dataclass(frozen=True, slots=True)
class Bound:
    """One-sided bounds on a mean.

    Attributes:
        lower: The mean lies above with probability 1 - alpha, in the values' units; None where
            no bound is honest.
        upper: The mean lies below with probability 1 - alpha; None likewise. Both together hold
            with probability 1 - 2 alpha.
        estimate: The mean of the values; None without any.
        alpha: Error allowed on each side.
        n: Values used.
        reason: Why there is no bound; None where there is one.
    """

    lower: float | None
    upper: float | None
    estimate: float | None
    alpha: float
    n: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class RateInterval:
    """An interval for a rate.

    Attributes:
        rate: Successes per trial; None without trials.
        lo: Lower end, a rate; None without trials.
        hi: Upper end, a rate; None without trials.
        level: Least coverage.
        n: Trials.
    """

    rate: float | None
    lo: float | None
    hi: float | None
    level: float
    n: int


def empirical_bernstein(x: ArrayLike, lo: float, hi: float, alpha: float = 0.05) -> Bound:
    """A bound on a mean that needs a range declared in advance and nothing else.

    Args:
        x: Shape (n,), within [lo, hi]. Independent values, one per unit, of which there are as
            many as was planned.
        lo: Least value that can occur: declared, since a range read off the values proves
            nothing.
        hi: Largest value that can occur.
        alpha: Error allowed on each side, in (0, 1).

    Returns:
        Bounds within [lo, hi]; refused below two values.

    Raises:
        ShapeMismatchError: If `x` is no vector.
        RangeError: If a value lies outside the range, the range is none, or alpha is not in
            (0, 1).

    Source:
        Maurer and Pontil, Empirical Bernstein Bounds and Sample-Variance Penalization, COLT 2009,
        theorem 4.
    """
    values = numbers("x", x)
    declared(lo, hi)
    within = (values >= lo) & (values <= hi)
    require("x", values, within, f"a value in the declared {lo:g} to {hi:g}")
    log_term = log_inverse(alpha) + np.log(2)
    n = len(values)
    if n < _LEAST_ROWS:
        estimate = float(values.mean()) if n else None
        return Bound(None, None, estimate, alpha, n, f"{n} values have no spread to judge by.")
    estimate = float(values.mean())
    margin = float(
        np.sqrt(2 * values.var(ddof=1) * log_term / n) + 7 * (hi - lo) * log_term / (3 * (n - 1))
    )
    lower, upper = max(lo, estimate - margin), min(hi, estimate + margin)
    return Bound(lower, upper, estimate, alpha, n, None)


def clopper_pearson(successes: int, n: int, *, level: float = 0.95) -> RateInterval:
    """The exact interval for a rate: it covers at least as often as it says, for any rate.

    Args:
        successes: How many trials succeeded, from 0 to n.
        n: Independent trials.
        level: Least coverage, in (0, 1).

    Returns:
        The interval; without trials its ends are None, never 0 and 1.

    Raises:
        RangeError: If there are fewer than 0 successes or more than trials, or the level is none.

    Source:
        Clopper and Pearson, The Use of Confidence or Fiducial Limits, Biometrika 1934.
    """
    if not 0 < level < 1:
        raise RangeError("level", None, level, "a coverage between 0 and 1")
    if n < 0:
        raise RangeError("n", None, n, "at least 0 trials")
    if not 0 <= successes <= n:
        raise RangeError("successes", None, successes, f"between 0 and the {n} trials")
    if n == 0:
        return RateInterval(None, None, None, level, 0)
    tail = (1 - level) / 2
    failures = n - successes
    lo = float(betaincinv(successes, failures + 1, tail)) if successes else 0.0
    hi = float(betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return RateInterval(successes / n, lo, hi, level, n)
