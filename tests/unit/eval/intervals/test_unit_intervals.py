"""Intervals by unit: hand-worked numbers, every resample counted, and coverage in a known world."""

from itertools import product

import numpy as np
import pytest

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators import doubly_robust, ips, self_normalized_dr, snips
from eval.estimators.ratios import ratio_sum
from eval.intervals.bootstrap import (
    bootstrap,
    default_resamples,
    percentile_interval,
    resampled_sums,
)
from eval.intervals.unit_t import unit_ess, unit_interval
from eval.intervals.units import units_of

REWARD = np.array([1, 0, 0.5, 0.25, 1])
WEIGHT = np.array([0.7 / 0.5, 0.1 / 0.6, 0.6 / 0.25, 0.5 / 0.4, 0.4 / 0.8])
Q = np.array([0.8, 0.1, 0.6, 0.2, 0.7])
EXPECTED = np.array([0.64, 0.47, 0.5, 0.55, 0.49])
UNITS = list("AABBC")


def generator(seed=1):
    return np.random.Generator(np.random.SFC64(seed))


@pytest.mark.parametrize(
    ("estimate", "std_err"),
    [
        (ips(REWARD, WEIGHT), 0.058114),
        (snips(REWARD, WEIGHT), 0.179329),
        (doubly_robust(REWARD, WEIGHT, Q, EXPECTED), 0.088771),
        (self_normalized_dr(REWARD, WEIGHT, Q, EXPECTED), 0.092826),
    ],
)
def test_the_error_by_unit_is_the_hand_worked_one(estimate, std_err):
    found = unit_interval(estimate.contributions, UNITS)
    assert found.std_err == pytest.approx(std_err, abs=1e-6)
    assert found.value == pytest.approx(estimate.value)
    assert found.n_units == 3
    # Three units leave two degrees of freedom.
    assert found.hi - found.value == pytest.approx(4.302653 * found.std_err, rel=1e-6)


def test_rows_that_are_units_of_their_own_give_the_plain_error():
    values = generator().normal(size=500)
    found = unit_interval(values)
    assert found.std_err == pytest.approx(values.std(ddof=1) / np.sqrt(500))


def test_one_unit_has_no_error():
    found = unit_interval([1.0, 2.0], ["a", "a"])
    assert (found.value, found.std_err, found.lo, found.hi) == (1.5, None, None, None)


def test_effective_sample_size_counts_units():
    assert unit_ess(WEIGHT, UNITS) == pytest.approx(2.039083, abs=1e-6)
    assert unit_ess(WEIGHT) == pytest.approx(3.418340, abs=1e-6)
    assert unit_ess(np.ones(6), [1, 1, 1, 1, 1, 2]) == pytest.approx(36 / 26)


@pytest.mark.parametrize(
    ("estimate", "mean", "spread", "lo", "hi"),
    [
        (snips(REWARD, WEIGHT), 0.659288, 0.184446, 0.414384, 1.0),
        (doubly_robust(REWARD, WEIGHT, Q, EXPECTED), 0.580076, 0.070592, 0.436250, 0.686667),
    ],
)
def test_the_bootstrap_samples_the_27_resamples_of_three_units(estimate, mean, spread, lo, hi):
    ratios = estimate.ratios
    grouped = units_of(UNITS, 5)
    tops, bottoms = grouped.sums(ratios.numerators), grouped.sums(ratios.denominators)
    every = [list(draw) for draw in product(range(3), repeat=3)]
    values = np.array([float(ratio_sum(tops[d].sum(0), bottoms[d].sum(0))) for d in every])
    assert (values.mean(), values.std()) == pytest.approx((mean, spread), abs=1e-6)
    assert (values.min(), values.max()) == pytest.approx((lo, hi), abs=1e-6)

    found = bootstrap(
        ratios.numerators, ratios.denominators, UNITS, rng=generator(), n_resamples=20_000
    )
    assert (found.lo, found.hi) == pytest.approx((lo, hi), abs=1e-6)
    assert found.mean == pytest.approx(mean, abs=4 * spread / np.sqrt(20_000))
    assert set(found.values.round(9)) == set(values.round(9))


def test_a_ratio_is_recomputed_and_not_averaged():
    # Rows divided by the full sample's mean weight would spread from .9 to 1.1 here.
    weight = np.tile([0.5, 1.5], 50)
    found = bootstrap(weight * 1.0, weight, rng=generator(), n_resamples=200)
    assert (found.lo, found.hi) == pytest.approx((1.0, 1.0))


def test_replicates_without_weight_are_counted_against_both_ends():
    weight = np.array([1.0, 0.0, 0.0])
    found = bootstrap(weight, weight, rng=generator(), n_resamples=1000)
    assert found.n_undefined == pytest.approx(1000 * (2 / 3) ** 3, abs=60)
    assert (found.lo, found.hi) == (None, None)
    assert found.mean == pytest.approx(1.0)


def test_few_undefined_replicates_widen_the_interval():
    values = np.append(np.linspace(0, 1, 999), np.nan)
    found = percentile_interval(values, n_units=50)
    assert found.n_undefined == 1
    assert found.lo < np.quantile(values[:-1], 0.025)
    assert found.hi > np.quantile(values[:-1], 0.975)


def test_counts_are_multinomial():
    sums = resampled_sums(np.eye(7), rng=generator(), n_resamples=4000)
    assert (sums.sum(axis=1) == 7).all()
    assert sums.mean(axis=0) == pytest.approx(np.ones(7), abs=0.06)
    assert sums.var() == pytest.approx(1 - 1 / 7, abs=0.03)


def test_the_seed_fixes_the_draws_and_estimators_share_them():
    columns = generator(3).normal(size=(40, 2))
    both = resampled_sums(columns, rng=generator(), n_resamples=50)
    alone = resampled_sums(columns[:, :1], rng=generator(), n_resamples=50)
    assert both[:, 0] == pytest.approx(alone[:, 0])


def test_resamples_are_as_many_as_stay_quick():
    assert [default_resamples(n) for n in (0, 30, 10_000, 20_000, 10**7)] == [
        5000, 5000, 5000, 2500, 1000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: units_of(["a"], 2), ShapeMismatchError, "units"),
        (lambda: bootstrap([1.0], [1.0, 1.0], rng=generator()), ShapeMismatchError, "denominators"),
        (lambda: bootstrap([[[1.0]]], [1.0], rng=generator()), ShapeMismatchError, "numerators"),
        (lambda: bootstrap([np.nan], [1.0], rng=generator()), RangeError, "numerators, row 1"),
        (lambda: bootstrap([], [], rng=generator()), RangeError, "units"),
        (
            lambda: bootstrap([1.0], [1.0], rng=generator(), n_resamples=0),
            RangeError,
            "n_resamples",
        ),
        (lambda: percentile_interval(np.ones(3), n_units=3, level=1.0), RangeError, "level"),
        (lambda: unit_ess([-1.0]), RangeError, "weight, row 1"),
    ],
)
def test_impossible_requests_raise(call, error, message):
    with pytest.raises(error, match=message):
        call()


def logs_with_unit_effects(rng, n_logs, n_units, n_rows):
    """Logs of a world whose value is known: rewards and weights share each unit's effect."""
    for _ in range(n_logs):
        effect = np.repeat(rng.normal(0, 0.2, n_units), n_rows)
        chance = np.clip(0.3 + 0.1 * np.repeat(rng.normal(0, 1, n_units), n_rows), 0.05, 0.95)
        taken = rng.random(len(chance)) < chance
        # The target takes plan 1 half the time; plan 1 earns 1 on average, plan 0 nothing.
        weight = np.where(taken, 0.5 / chance, 0.5 / (1 - chance))
        reward = taken + effect + rng.normal(0, 0.3, len(chance))
        yield reward, weight, np.repeat(np.arange(n_units), n_rows), 0.5


def test_the_unit_interval_covers_as_promised_where_row_intervals_do_not():
    rng = generator(2024)
    hits = {"ips": 0, "snips": 0, "rows": 0}
    n_logs = 500
    for reward, weight, units, value in logs_with_unit_effects(rng, n_logs, 60, 8):
        for name, estimator in (("ips", ips), ("snips", snips)):
            found = unit_interval(estimator(reward, weight).contributions, units)
            hits[name] += found.lo <= value <= found.hi
        rows = unit_interval(snips(reward, weight).contributions)
        hits["rows"] += rows.lo <= value <= rows.hi
    assert 0.92 <= hits["ips"] / n_logs <= 0.98
    assert 0.92 <= hits["snips"] / n_logs <= 0.98
    assert hits["rows"] / n_logs < 0.90


def test_the_bootstrap_covers_as_promised():
    rng = generator(7)
    hits, n_logs = 0, 300
    for reward, weight, units, value in logs_with_unit_effects(rng, n_logs, 120, 4):
        ratios = snips(reward, weight).ratios
        found = bootstrap(ratios.numerators, ratios.denominators, units, rng=rng, n_resamples=400)
        hits += found.lo <= value <= found.hi
    assert 0.92 <= hits / n_logs <= 0.98
