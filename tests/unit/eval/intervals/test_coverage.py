"""How often 95 % intervals hold: 1,000 logs of a known world, whose value enumeration gives."""

import numpy as np
import pytest

from eval.estimators import (
    clipped_ips,
    doubly_robust,
    dr_shrinkage,
    ips,
    self_normalized_dr,
    snips,
    switch_dr,
)
from eval.intervals import bootstrap, unit_interval
from eval.intervals.units import units_of

N_RUNS, N = 1_000, 500
LOGGING = np.array([0.4, 0.3, 0.2, 0.1])
TARGET = np.array([0.1, 0.2, 0.3, 0.4])
RATE = np.array([[0.2, 0.4, 0.5, 0.7], [0.6, 0.5, 0.3, 0.2]])
MODEL = np.clip(RATE + np.array([0.1, -0.1, 0.05, -0.05]), 0, 1)
VALUE = float((RATE @ TARGET).mean())


def drawn(rng, n=N):
    x = rng.integers(0, 2, n)
    a = (LOGGING.cumsum() < rng.random((n, 1))).sum(axis=1)
    r = (rng.random(n) < RATE[x, a]).astype(float)
    return r, (TARGET / LOGGING)[a], MODEL[x, a], (MODEL @ TARGET)[x]


UNBIASED = {
    "ips": lambda r, w, q, m: ips(r, w),
    "snips": lambda r, w, q, m: snips(r, w),
    "dr": doubly_robust,
    "sndr": self_normalized_dr,
}
BIASED = {
    "clipped": lambda r, w, q, m: clipped_ips(r, w, 2.0),
    "switch": lambda r, w, q, m: switch_dr(r, w, q, m, 2.0, reward_range=(0, 1)),
    "dros": lambda r, w, q, m: dr_shrinkage(r, w, q, m, 4.0, reward_range=(0, 1)),
}


@pytest.mark.parametrize("name", UNBIASED)
def test_intervals_of_unbiased_estimators_cover_as_often_as_they_say(name):
    rng = np.random.default_rng(0)
    covers = []
    for _ in range(N_RUNS):
        found = unit_interval(UNBIASED[name](*drawn(rng)).contributions)
        covers.append(found.lo <= VALUE <= found.hi)
    assert 0.93 <= np.mean(covers) <= 0.97


@pytest.mark.parametrize("name", ["ips", "snips"])
def test_the_bootstrap_covers_about_as_often(name):
    rng = np.random.default_rng(1)
    covers = []
    for _ in range(N_RUNS):
        ratios = UNBIASED[name](*drawn(rng, 200)).ratios
        found = bootstrap(ratios.numerators, ratios.denominators, rng=rng, n_resamples=200)
        covers.append(found.lo <= VALUE <= found.hi)
    assert 0.92 <= np.mean(covers) <= 0.97


@pytest.mark.parametrize("name", BIASED)
def test_biased_estimators_are_off_by_no_more_than_they_state(name):
    rng = np.random.default_rng(2)
    runs = [BIASED[name](*drawn(rng)) for _ in range(N_RUNS)]
    bias = np.mean([run.value for run in runs]) - VALUE
    stated = np.mean([run.bias_bound for run in runs])
    assert abs(bias) > 0.005, "a bound on a bias that is none shows nothing"
    assert abs(bias) <= stated


@pytest.mark.parametrize(("n_units", "least"), [(30, 0.9), (100, 0.925)])
def test_intervals_by_unit_cover_where_rows_of_a_unit_go_together(n_units, least):
    """About ten rows a unit, a shared context and an effect of the unit on its rewards."""
    rng = np.random.default_rng(3)
    by_unit, by_row = [], []
    for _ in range(N_RUNS):
        codes = np.repeat(np.arange(n_units), 10)
        n = len(codes)
        x, effect = rng.integers(0, 2, n_units), rng.normal(0, 0.2, n_units)
        a = (LOGGING.cumsum() < rng.random((n, 1))).sum(axis=1)
        r = RATE[x[codes], a] + effect[codes] + rng.normal(0, 0.1, n)
        estimate = snips(r, (TARGET / LOGGING)[a])
        for covers, units in ((by_unit, units_of(codes, n)), (by_row, None)):
            found = unit_interval(estimate.contributions, units)
            covers.append(found.lo <= VALUE <= found.hi)
    assert least <= np.mean(by_unit) <= 0.975
    assert np.mean(by_row) < np.mean(by_unit) - 0.03
