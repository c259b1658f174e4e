"""Bounds for a fixed number of rows: by formula, against scipy, and how often they are wrong."""

import numpy as np
import pytest
from scipy import stats

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.intervals import clopper_pearson, empirical_bernstein


def test_empirical_bernstein_is_the_published_formula():
    x = np.array([0.1, 0.9, 0.4, 0.4, 0.6, 0.2] * 50)
    n, log_term = len(x), np.log(2 / 0.05)
    margin = np.sqrt(2 * np.var(x, ddof=1) * log_term / n) + 7 * log_term / (3 * (n - 1))
    found = empirical_bernstein(x, 0, 1, 0.05)
    assert found.lower == pytest.approx(x.mean() - margin, abs=1e-12)
    assert found.upper == pytest.approx(x.mean() + margin, abs=1e-12)


def test_its_bounds_move_with_the_scale_and_stay_in_the_range():
    x = np.random.default_rng(0).random(400)
    plain, scaled = empirical_bernstein(x, 0, 1), empirical_bernstein(10 * x - 3, -3, 7)
    assert scaled.lower == pytest.approx(10 * plain.lower - 3)
    assert scaled.upper == pytest.approx(10 * plain.upper - 3)
    few = empirical_bernstein(x[:3], 0, 1)
    assert (few.lower, few.upper) == (0, 1)


def test_a_range_declared_wider_only_widens():
    x = np.random.default_rng(0).random(400)
    assert empirical_bernstein(x, 0, 5).lower < empirical_bernstein(x, 0, 1).lower


def test_it_is_wrong_at_most_as_often_as_it_may_be():
    rng = np.random.default_rng(0)
    wrong = [
        empirical_bernstein(rng.random(200) ** 8, 0, 1, 0.1).lower > 1 / 9 for _ in range(1_000)
    ]
    assert np.mean(wrong) <= 0.1


@pytest.mark.parametrize(("x", "n"), [([], 0), ([0.5], 1)])
def test_too_few_values_are_a_refusal_and_no_range(x, n):
    found = empirical_bernstein(x, 0, 1)
    assert (found.lower, found.upper, found.n) == (None, None, n)
    assert "no spread" in found.reason


@pytest.mark.parametrize(
    ("x", "lo", "hi", "alpha", "message"),
    [
        ([0.5, 1.5], 0, 1, 0.05, "x, row 2: expected a value in the declared 0 to 1"),
        ([0.5, np.nan], 0, 1, 0.05, "x, row 2"),
        ([0.5, 0.5], 1, 1, 0.05, "hi"),
        ([0.5, 0.5], 0, np.inf, 0.05, "hi"),
        ([0.5, 0.5], 0, 1, 0.0, "alpha"),
        ([0.5, 0.5], 0, 1, 1.0, "alpha"),
    ],
)
def test_a_range_that_rewards_leave_is_an_error_and_no_silent_clip(x, lo, hi, alpha, message):
    with pytest.raises(RangeError, match=message):
        empirical_bernstein(x, lo, hi, alpha)


def test_a_matrix_is_no_list_of_values():
    with pytest.raises(ShapeMismatchError):
        empirical_bernstein([[0.5, 0.5]], 0, 1)


@pytest.mark.parametrize("n", [1, 7, 100])
def test_clopper_pearson_is_scipys_exact_interval(n):
    for successes in range(n + 1):
        mine = clopper_pearson(successes, n)
        theirs = stats.binomtest(successes, n).proportion_ci(method="exact")
        assert (mine.lo, mine.hi) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.3, 0.5, 0.97, 1.0])
def test_clopper_pearson_covers_at_least_as_often_as_it_says(rate):
    """By enumeration of every outcome, not by drawing."""
    n = 40
    found = [clopper_pearson(k, n, level=0.9) for k in range(n + 1)]
    covers = [interval.lo <= rate <= interval.hi for interval in found]
    assert stats.binom.pmf(np.arange(n + 1), n, rate) @ covers >= 0.9


def test_without_trials_there_is_no_rate_and_no_range():
    assert clopper_pearson(0, 0) == clopper_pearson(0, 0)
    found = clopper_pearson(0, 0)
    assert (found.rate, found.lo, found.hi, found.n) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("successes", "n", "level", "name"),
    [(-1, 3, 0.95, "successes"), (4, 3, 0.95, "successes"), (0, -1, 0.95, "n"), (1, 3, 1, "level")],
)
def test_counts_that_cannot_be_are_errors(successes, n, level, name):
    with pytest.raises(RangeError, match=name):
        clopper_pearson(successes, n, level=level)
