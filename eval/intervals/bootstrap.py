"""The bootstrap by unit: resample whole units and recompute the whole estimator.

Units are summed first, so a replicate costs one weighted sum of the unit sums, whatever the
number of rows. Counts are exact multinomial draws up to 4,096 units; above, each unit's count is
Poisson of mean 1, several times quicker: what differs is that the number of units drawn varies by
its own root, which sums of ratios divide out. Several estimators share the draws.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators.checks import require
from eval.estimators.ratios import ratio_sum
from eval.intervals.poisson import COUNTS
from eval.intervals.units import Units, units_of
from policy.arrays import FloatArray

_CHUNK: Final = 100_000
"""Draws made at once: enough to hide the calls, few enough to stay in the cache."""

_ROWS: Final = 8
"""Least number of replicates summed at once."""

MOST_MULTINOMIAL: Final = 4_096
"""Units up to which counts are exact multinomial draws."""

_SINGLE_COUNTS: Final = COUNTS.astype(np.float32)
_POISSON_CHUNK: Final = 400_000
_PER_DRAW: Final = 4

MAX_RESAMPLES: Final = 5_000
MIN_RESAMPLES: Final = 1_000
_DRAWS: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Percentile interval of a resampled estimator.

    Attributes:
        lo: Lower end, in reward units; None where too many replicates are undefined.
        hi: Upper end, likewise.
        mean: Mean of the defined replicates; None without any.
        std: Their standard deviation; None without any.
        level: Nominal coverage.
        n_units: Units resampled.
        n_resamples: Replicates drawn.
        n_undefined: Replicates with a denominator of 0. They count against both ends.
        values: Shape (n_resamples,). The replicates; NaN where undefined.
    """

    lo: float | None
    hi: float | None
    mean: float | None
    std: float | None
    level: float
    n_units: int
    n_resamples: int
    n_undefined: int
    values: FloatArray = field(repr=False)


def bootstrap(
    numerators: ArrayLike,
    denominators: ArrayLike,
    units: Units | Sequence[Any] | np.ndarray[Any, Any] | None = None,
    *,
    rng: np.random.Generator,
    n_resamples: int | None = None,
    level: float = 0.95,
) -> Bootstrap:
    """Resample units and recompute a sum of ratios of sums.

    Args:
        numerators: Shape (n,) or (n, n_ratios), in reward units; `Estimate.ratios` holds them.
        denominators: The same shape.
        units: Shape (n,). Unit of each row; None makes each row its own.
        rng: Source of the draws.
        n_resamples: Replicates; None takes `default_resamples`.
        level: Coverage wanted, between 0 and 1.

    Returns:
        The percentile interval and the replicates.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows.
        RangeError: If a number is not finite, there are no rows, or the level is none.
    """
    tops = _matrix("numerators", numerators)
    bottoms = _matrix("denominators", denominators)
    if bottoms.shape != tops.shape:
        raise ShapeMismatchError("denominators", bottoms.shape, tops.shape)
    grouped = units_of(units, len(tops))
    sums = resampled_sums(
        grouped.sums(np.hstack([tops, bottoms])), rng=rng, n_resamples=n_resamples
    )
    n_ratios = tops.shape[1]
    values = ratio_sum(sums[:, :n_ratios], sums[:, n_ratios:])
    return percentile_interval(values, n_units=grouped.n_units, level=level)


def percentile_interval(values: FloatArray, *, n_units: int, level: float = 0.95) -> Bootstrap:
    """The interval that holds the middle of the replicates.

    Args:
        values: Shape (n_resamples,). Replicates, in reward units; not finite where undefined.
        n_units: Units that were resampled.
        level: Coverage wanted, between 0 and 1.

    Raises:
        RangeError: If the level lies outside (0, 1).
    """
    if not 0 < level < 1:
        raise RangeError("level", None, level, "a coverage between 0 and 1")
    values = np.where(np.isfinite(values), values, np.nan)
    defined = values[np.isfinite(values)]
    n_undefined = len(values) - len(defined)
    tail = (1 - level) / 2
    # An undefined replicate could have been anything: it goes below for one end, above for the
    # other, so that the interval widens by it and ends nowhere when the tail is full of them.
    below, above = (np.where(np.isnan(values), fill, values) for fill in (-np.inf, np.inf))
    kinds: tuple[Any, Any] = ("linear", "linear") if not n_undefined else ("lower", "higher")
    lo = float(np.quantile(below, tail, method=kinds[0]))
    hi = float(np.quantile(above, 1 - tail, method=kinds[1]))
    return Bootstrap(
        lo=lo if np.isfinite(lo) else None,
        hi=hi if np.isfinite(hi) else None,
        mean=float(defined.mean()) if defined.size else None,
        std=float(defined.std()) if defined.size else None,
        level=level,
        n_units=n_units,
        n_resamples=len(values),
        n_undefined=n_undefined,
        values=values,
    )


def resampled_sums(
    unit_sums: FloatArray, *, rng: np.random.Generator, n_resamples: int | None = None
) -> FloatArray:
    """Column sums of units drawn with replacement, as many as there are.

    Args:
        unit_sums: Shape (n_units, c). Columns already summed by unit; every estimator whose
            replicates should share their draws brings its own columns.
        rng: Source of the draws.
        n_resamples: Replicates; None takes `default_resamples`.

    Returns:
        Shape (n_resamples, c).

    Raises:
        RangeError: If there is no unit to draw, or no replicate is asked for.
    """
    n_units = len(unit_sums)
    wanted = default_resamples(n_units) if n_resamples is None else n_resamples
    if n_units == 0 or wanted < 1:
        name = "n_resamples" if n_units else "units"
        raise RangeError(name, None, min(n_units, wanted), "at least 1")
    if n_units > MOST_MULTINOMIAL:
        return _poisson_sums(unit_sums, wanted, rng)
    drawn = [counts @ unit_sums for counts in _counts(n_units, wanted, rng)]
    return np.concatenate(drawn)


def _poisson_sums(unit_sums: FloatArray, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    n_units = len(unit_sums)
    # Single precision for the products: their rounding is a thousandth of the replicates' noise.
    # Columns are scaled, so that none of them overflows or vanishes.
    scale = np.abs(unit_sums).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    values = (unit_sums / scale).astype(np.float32)
    at_once = max(1, _POISSON_CHUNK // n_units)
    n_hashes = -(-n_units // _PER_DRAW)
    found = np.empty((n_resamples, unit_sums.shape[1]))
    counts = np.empty((at_once, n_units), dtype=np.float32)
    for start in range(0, n_resamples, at_once):
        n = min(at_once, n_resamples - start)
        bits = rng.integers(0, 2**64, size=(n, n_hashes), dtype=np.uint64).view(np.uint16)
        # Sixteen bits never leave the table: `clip` only spares the check.
        np.take(_SINGLE_COUNTS, bits[:, :n_units], out=counts[:n], mode="clip")
        found[start : start + n] = counts[:n] @ values
    return np.asarray(found * scale, dtype=np.float64)


def default_resamples(n_units: int) -> int:
    """Replicates that stay quick: 5,000 up to 10,000 units, fewer beyond, never under 1,000."""
    return max(MIN_RESAMPLES, min(MAX_RESAMPLES, _DRAWS // max(n_units, 1)))


def _counts(n_units: int, n_resamples: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    # Uniform draws and a histogram: exact multinomial counts, and several times quicker than
    # numpy's own multinomial, which draws a binomial per unit. Histograms stay in the cache;
    # some are gathered, so that one pass over the unit sums serves them all.
    at_once = max(1, _CHUNK // n_units)
    gathered = max(_ROWS, at_once)
    for start in range(0, n_resamples, gathered):
        counts = np.empty((min(gathered, n_resamples - start), n_units))
        for row in range(0, len(counts), at_once):
            part = counts[row : row + at_once]
            drawn = rng.integers(0, n_units, size=part.shape, dtype=np.uint32)
            drawn += (np.arange(len(part), dtype=np.uint32) * np.uint32(n_units))[:, None]
            part[:] = np.bincount(drawn.ravel(), minlength=part.size).reshape(part.shape)
        yield counts


def _matrix(name: str, values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    matrix = array[:, None] if array.ndim == 1 else array
    if matrix.ndim != 2:  # noqa: PLR2004 - rows by ratios
        raise ShapeMismatchError(name, array.shape, (len(array), 1))
    for column in matrix.T:
        require(name, column, np.isfinite(column), "a finite number")
    return matrix
