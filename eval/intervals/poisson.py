"""The Poisson bootstrap by unit, for logs that are read in passing.

A unit enters a replicate K times, K from a Poisson distribution of mean 1, instead of as often as
it is drawn. K is a pure function of seed, unit and replicate, so that a unit counts alike wherever
its rows stand: in another batch, another file, or on another machine.
"""

from typing import Any, Final

import numpy as np
from scipy.stats import poisson

from policy.arrays import FloatArray

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_PER_HASH: Final = 4
_ROWS: Final = 8_192
"""Rows whose counts are held at once."""

Keys = np.ndarray[Any, np.dtype[np.uint64]]

COUNTS: Final = poisson.ppf((np.arange(2**16) + 0.5) / 2**16, 1.0).astype(np.uint8)
"""Quantiles of the distribution by sixteen bits: mean and variance are 1 within 1e-4."""


def poisson_counts(keys: Keys, seed: int, n_resamples: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """How often each unit enters each replicate.

    Args:
        keys: Shape (n,). A 64-bit hash of each row's unit.
        seed: Of the draws.
        n_resamples: Replicates.

    Returns:
        Shape (n, n_resamples): equal rows for equal keys.

    Source:
        Chamandy, Muralidharan, Najmi and Naidu, Estimating Uncertainty for Massive Data Streams,
        2012; Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014,
        for the hash.
    """
    n_hashes = -(-n_resamples // _PER_HASH)
    with np.errstate(over="ignore"):
        start = _mixed(keys ^ _mixed(np.uint64(seed) + _GOLDEN))
        steps = np.arange(1, n_hashes + 1, dtype=np.uint64) * _GOLDEN
        hashes = _mixed(start[:, None] + steps)
    sixteen = hashes.view(np.uint16).reshape(len(keys), n_hashes * _PER_HASH)
    return np.asarray(COUNTS[sixteen[:, :n_resamples]])


def poisson_sums(keys: Keys, values: FloatArray, seed: int, n_resamples: int) -> FloatArray:
    """Column sums of every replicate.

    Args:
        keys: Shape (n,). A 64-bit hash of each row's unit.
        values: Shape (n, c).
        seed: Of the draws.
        n_resamples: Replicates.

    Returns:
        Shape (n_resamples, c). Sums of parts of a log add up to those of the whole.
    """
    total = np.zeros((n_resamples, values.shape[1]))
    for start in range(0, len(keys), _ROWS):
        block = slice(start, start + _ROWS)
        counts = poisson_counts(keys[block], seed, n_resamples).astype(np.float64)
        total += counts.T @ values[block]
    return total


def _mixed(bits: Any) -> Any:
    """Sixty-four well-mixed bits of each number."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
        bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
        return bits ^ (bits >> np.uint64(31))
