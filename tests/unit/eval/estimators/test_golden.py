"""The hand-worked log: values, diagnostics and dropped rows."""

import numpy as np
import pytest

from eval.estimators import (
    clipped_ips,
    direct_method,
    doubly_robust,
    ips,
    self_normalized_dr,
    snips,
)

TOLERANCE = 1e-6


def test_every_estimator_gives_the_hand_worked_value(golden):
    r, w = golden.reward, golden.weight
    found = {
        "ips": ips(r, w),
        "clipped": clipped_ips(r, w, 1.0, 1.0),
        "snips": snips(r, w),
        "dm": direct_method(golden.expected),
        "dr": doubly_robust(r, w, *golden.model),
        "sndr": self_normalized_dr(r, w, *golden.model),
    }
    expected = {
        "ips": 0.6825,
        "clipped": 0.45,
        "snips": 0.596939,
        "dm": 0.53,
        "dr": 0.577167,
        "sndr": 0.571254,
    }
    assert {name: e.value for name, e in found.items()} == pytest.approx(expected, abs=TOLERANCE)
    assert {e.status for e in found.values()} == {"ok"}
    assert {e.reason for e in found.values()} == {None}


def test_diagnostics_are_those_of_the_raw_weights(golden):
    for found in (ips(golden.reward, golden.weight), clipped_ips(golden.reward, golden.weight, 1)):
        assert found.ess == pytest.approx(3.418340, abs=TOLERANCE)
        assert found.mean_weight == pytest.approx(1.143333, abs=TOLERANCE)
        assert found.max_weight == pytest.approx(2.4)
        assert found.n == 5


def test_the_direct_method_has_no_weight_diagnostics(golden):
    found = direct_method(golden.expected)
    assert (found.ess, found.mean_weight, found.max_weight) == (None, None, None)


def test_dropped_rows_are_divided_by_the_decisions_they_stand_for(golden):
    r, w, k = golden.reward, golden.weight / golden.keep, golden.keep
    found = {
        "ips": ips(r, w, keep_prob=k),
        "snips": snips(r, w, keep_prob=k),
        "dm": direct_method(golden.expected, keep_prob=k),
        "dr": doubly_robust(r, w, *golden.model, keep_prob=k),
        "sndr": self_normalized_dr(r, w, *golden.model, keep_prob=k),
    }
    expected = {
        "ips": 0.483333,
        "snips": 0.451557,
        "dm": 0.53,
        "dr": 0.575185,
        "sndr": 0.572215,
    }
    assert {name: e.value for name, e in found.items()} == pytest.approx(expected, abs=TOLERANCE)
    assert found["ips"].ess == pytest.approx(2.805260, abs=TOLERANCE)
    assert found["ips"].mean_weight == pytest.approx(1.070370, abs=TOLERANCE)


def test_a_logged_number_of_decisions_replaces_its_estimate(golden):
    r, w, k = golden.reward, golden.weight / golden.keep, golden.keep
    assert ips(r, w, keep_prob=k, n_decisions=10).value == pytest.approx((w * r).sum() / 10)
    assert direct_method(golden.expected, keep_prob=k, n_decisions=10).value == pytest.approx(0.53)


def test_contributions_average_to_the_value_whatever_the_estimator(golden):
    r, w, k = golden.reward, golden.weight / golden.keep, golden.keep
    for found in (
        ips(r, w, keep_prob=k),
        clipped_ips(r, w, 1, keep_prob=k),
        snips(r, w, keep_prob=k),
        direct_method(golden.expected, keep_prob=k),
        doubly_robust(r, w, *golden.model, keep_prob=k),
        self_normalized_dr(r, w, *golden.model, keep_prob=k),
    ):
        assert found.contributions.shape == (5,)
        assert found.contributions.mean() == pytest.approx(found.value)


def test_contributions_of_ips_are_the_reweighed_rewards(golden):
    found = ips(golden.reward, golden.weight)
    assert found.contributions == pytest.approx(golden.weight * golden.reward)


def test_clipping_reports_the_most_it_can_have_taken_away(golden):
    found = clipped_ips(golden.reward, golden.weight, 1.0, 1.0)
    lost = np.maximum(golden.weight - 1, 0).mean()
    assert found.bias_bound == pytest.approx(lost)
    assert ips(golden.reward, golden.weight).value - found.value <= found.bias_bound
    assert clipped_ips(golden.reward, golden.weight, np.inf).bias_bound == 0
