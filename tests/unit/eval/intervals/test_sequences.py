"""Confidence sequences: published numbers, how often they are wrong when peeked at, and drift."""

import numpy as np
import pytest
from scipy.optimize import brentq

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.intervals import betting_sequence, prpl_eb_sequence
from eval.intervals.sequences import log_inverse
from eval.intervals.wagers import wager

PUBLISHED = np.tile([0, 1, 1, 0, 1, 1, 1, 0, 1, 1], 10).astype(float)
"""The example of the `confseq` package (MIT), version 0.0.11."""


@pytest.mark.parametrize(
    ("n", "interval"), [(10, (0.265, 0.967)), (50, (0.491, 0.857)), (100, (0.547, 0.824))]
)
def test_hedged_betting_has_its_published_bounds(n, interval):
    assert betting_sequence(PUBLISHED[:n]).interval == pytest.approx(interval, abs=0.002)


@pytest.mark.parametrize(
    ("n", "interval"), [(10, (0, 1)), (50, (0.459268, 0.942723)), (100, (0.535473, 0.861692))]
)
def test_prpl_eb_centred_as_published_has_its_published_bounds(n, interval):
    found = prpl_eb_sequence(PUBLISHED[:n], centring="running_mean")
    assert found.interval == pytest.approx(interval, abs=1e-5)


@pytest.mark.parametrize(
    ("n", "interval"), [(50, (0.461180, 0.932582)), (100, (0.536612, 0.855836))]
)
def test_prpl_eb_centred_with_a_pseudo_row_differs_a_little(n, interval):
    assert prpl_eb_sequence(PUBLISHED[:n]).interval == pytest.approx(interval, abs=1e-5)


def wealth_by_rows(x, mu, alpha):
    """The schedule's wealth against "at most mu", one row after the other."""
    logs, mean, variance = 0.0, 0.5, 0.25
    for row, value in enumerate(x, start=1):
        stake = np.sqrt(2 * np.log(1 / alpha) / (row * np.log1p(row) * variance))
        logs += np.log1p(min(stake, 0.5 / mu) * (value - mu))
        mean = (mean * row + value) / (row + 1)
        variance = (variance * row + (value - mean) ** 2) / (row + 1)
    return logs


def test_the_bound_is_where_the_wealth_of_a_plain_loop_reaches_its_threshold():
    x = np.random.default_rng(3).random(60)
    lower = betting_sequence(x, alpha=0.1).lower[-1]
    ends = [
        brentq(lambda mu, n=n: wealth_by_rows(x[:n], mu, 0.05) - np.log(20), 1e-6, 1)
        for n in range(1, 61)
        if wealth_by_rows(x[:n], 1e-6, 0.05) > np.log(20)
    ]
    assert lower == pytest.approx(max(ends), abs=1e-9)


@pytest.mark.parametrize("bets", ["schedule", "mixture"])
@pytest.mark.parametrize("rate", [0.3, 0.05])
def test_peeked_at_every_row_it_is_wrong_no_more_often_than_it_may_be(bets, rate):
    """Wrong means: at any of 1,000 rows, in any of 1,000 streams, the bounds exclude the mean."""
    rng = np.random.default_rng(0)
    threshold = log_inverse(0.025)
    n_wrong = 0
    for _ in range(1_000):
        x = (rng.random(1_000) < rate).astype(float)
        below = wager(bets, x, threshold).log_wealth(rate).max() >= threshold
        above = wager(bets, 1 - x, threshold).log_wealth(1 - rate).max() >= threshold
        n_wrong += below or above
    assert n_wrong <= 65


def test_the_wealth_at_the_mean_tells_what_the_bounds_tell():
    rng = np.random.default_rng(1)
    threshold = log_inverse(0.2)
    for _ in range(40):
        x = (rng.random(80) < 0.3).astype(float)
        is_wrong = betting_sequence(x, alpha=0.4).lower > 0.3
        wealth = wager("schedule", x, threshold).log_wealth(0.3)
        assert is_wrong.any() == (wealth > threshold).any()


def test_at_a_thousand_rows_it_is_at_most_1_7_times_as_wide_as_the_fixed_interval():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(12):
        x = (rng.random(1_000) < 0.3).astype(float)
        lo, hi = betting_sequence(x, bets="mixture").interval
        ratios.append((hi - lo) / (2 * 1.959964 * x.std() / np.sqrt(1_000)))
    assert np.mean(ratios) <= 1.7


@pytest.mark.parametrize("sequence", [betting_sequence, prpl_eb_sequence])
def test_bounds_never_loosen(sequence):
    found = sequence(np.random.default_rng(0).random(300))
    assert (np.diff(found.lower) >= 0).all()
    assert (np.diff(found.upper) <= 0).all()


@pytest.mark.parametrize("sequence", [betting_sequence, prpl_eb_sequence])
def test_an_empty_set_is_an_alarm_of_drift_and_no_interval(sequence):
    drifted = np.concatenate([np.zeros(300), np.ones(3_000)])
    found = sequence(drifted)
    assert found.status == "drift"
    assert found.drift
    assert found.interval is None
    assert 300 < found.drift_row <= len(drifted)
    assert found.lower[found.drift_row - 1] > found.upper[found.drift_row - 1]
    assert f"after row {found.drift_row}" in found.reason


def test_rows_of_one_unit_are_fed_as_one():
    x = np.repeat(np.random.default_rng(0).random(50), 20)
    by_unit = betting_sequence(x, units=np.repeat(np.arange(50), 20))
    assert by_unit.n == 50
    assert np.allclose(by_unit.lower, betting_sequence(x[::20]).lower)


def test_feeding_rows_of_sticky_units_is_what_raises_false_alarms():
    rng = np.random.default_rng(0)
    wrong = {"rows": 0, "units": 0}
    for _ in range(60):
        level = np.clip(rng.normal(0.3, 0.15, 60), 0, 1)
        rows = (rng.random((60, 60)) < level[:, None]).astype(float).ravel()
        mean = np.clip(np.random.default_rng(7).normal(0.3, 0.15, 100_000), 0, 1).mean()
        threshold = log_inverse(0.025)
        for name, x in {"rows": rows, "units": rows.reshape(60, 60).mean(axis=1)}.items():
            wrong[name] += any(
                wager("schedule", side, threshold).log_wealth(at).max() >= threshold
                for side, at in ((x, mean), (1 - x, 1 - mean))
            )
    assert wrong["units"] <= 6
    assert wrong["rows"] >= 20


@pytest.mark.parametrize("sequence", [betting_sequence, prpl_eb_sequence])
def test_without_rows_there_is_no_interval(sequence):
    found = sequence([])
    assert (found.status, found.n, found.interval) == ("refused", 0, None)
    assert "no data" in found.reason


@pytest.mark.parametrize("sequence", [betting_sequence, prpl_eb_sequence])
@pytest.mark.parametrize(
    ("x", "more", "message"),
    [
        ([0.5, 1.2], {}, "x, row 2"),
        ([np.nan], {}, "x, row 1"),
        ([0.5], {"lo": 1.0}, "hi"),
        ([0.5], {"alpha": 0}, "alpha"),
        ([0.5], {"alpha": 1.5}, "alpha"),
    ],
)
def test_numbers_outside_what_was_declared_are_errors(sequence, x, more, message):
    with pytest.raises(RangeError, match=message):
        sequence(x, **more)


def test_every_row_has_its_unit():
    with pytest.raises(ShapeMismatchError, match="units"):
        betting_sequence([0.5, 0.5], units=["a"])
