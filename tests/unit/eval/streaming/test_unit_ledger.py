"""Sums by unit that stop growing, and Poisson counts that are a function of the unit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval.intervals.poisson import poisson_counts, poisson_sums
from eval.unit_ledger import Limits, UnitLedger, unit_keys

KEYS = np.random.default_rng(0).integers(0, 2**63, 20_000).astype(np.uint64)


def test_counts_are_poisson_of_mean_1():
    counts = poisson_counts(KEYS, 7, 16)
    observed = np.bincount(counts.ravel(), minlength=9)[:6]
    expected = stats.poisson.pmf(np.arange(6), 1) * counts.size
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4
    assert counts.mean() == pytest.approx(1, abs=0.01)
    assert counts.var() == pytest.approx(1, abs=0.02)


def test_counts_are_a_function_of_seed_unit_and_replicate():
    assert np.array_equal(poisson_counts(KEYS, 7, 8), poisson_counts(KEYS, 7, 16)[:, :8])
    assert np.array_equal(poisson_counts(KEYS, 7, 8)[::-1], poisson_counts(KEYS[::-1], 7, 8))
    assert (poisson_counts(KEYS, 7, 8) != poisson_counts(KEYS, 8, 8)).mean() > 0.5


def test_replicates_and_units_are_not_correlated():
    counts = poisson_counts(KEYS, 1, 40).astype(float)
    between = np.corrcoef(counts.T) - np.eye(40)
    assert np.abs(between).max() < 5 / np.sqrt(len(KEYS))
    neighbours = np.arange(20_000, dtype=np.uint64)
    counts = poisson_counts(neighbours, 1, 4).astype(float)
    assert abs(np.corrcoef(counts[:-1, 0], counts[1:, 0])[0, 1]) < 0.04


def test_the_spread_of_replicates_is_that_of_resampled_units():
    values = np.random.default_rng(1).random((20_000, 1))
    sums = poisson_sums(KEYS, values, 3, 2_000)
    assert sums.mean() == pytest.approx(values.sum(), rel=0.002)
    assert sums.std() == pytest.approx(np.sqrt((values**2).sum()), rel=0.06)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(-5, 5)), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(1, 60),
)
def test_what_is_kept_does_not_depend_on_how_rows_came(rows, most_units, cut):
    """Batches of any size, units apart or merged: the same totals, and replicates that add up."""
    keys = unit_keys(np.array([f"u{unit}" for unit, _ in rows], dtype=object))
    values = np.array([[1.0, float(value)] for _, value in rows])
    limits = Limits(most_units=most_units, groups=4, n_resamples=8, seed=5)
    at_once, in_parts = UnitLedger(2, limits), UnitLedger(2, limits)
    at_once.add(keys, values)
    for part in (slice(0, cut), slice(cut, None)):
        in_parts.add(keys[part], values[part])
    assert at_once.is_merged == in_parts.is_merged == (len(set(keys.tolist())) > most_units)
    assert np.allclose(at_once.sums, in_parts.sums)
    assert np.allclose(at_once.sums.sum(axis=0), values.sum(axis=0))
    if at_once.is_merged:
        assert np.allclose(at_once.replicates, in_parts.replicates)
        assert np.allclose(at_once.replicates, poisson_sums(keys, values, 5, 8))
    else:
        assert at_once.n_units == len(set(keys.tolist()))


def test_a_unit_is_one_whatever_the_type_of_its_label():
    texts = unit_keys(np.array(["1", "2", "1"], dtype=object))
    assert texts[0] == texts[2] != texts[1]
    assert np.array_equal(texts, unit_keys(np.array([1, 2, 1])))


def test_nothing_added_is_nothing_kept():
    ledger = UnitLedger(3, Limits())
    ledger.add(np.empty(0, dtype=np.uint64), np.empty((0, 3)))
    assert ledger.sums.shape == (0, 3)
    assert ledger.n_units == 0
