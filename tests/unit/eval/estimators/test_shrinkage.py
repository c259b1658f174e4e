"""Switching and shrinking: hand-worked values, limits, dropped rows and what is refused."""

import numpy as np
import pytest

from canopy.domain.errors import InputError, RangeError, ShapeMismatchError
from eval.estimators import (
    clipped_ips,
    direct_method,
    doubly_robust,
    dr_shrinkage,
    ips,
    sub_gaussian_ips,
    switch,
    switch_dr,
)
from eval.intervals import bootstrap, unit_interval

INF = np.inf


@pytest.mark.parametrize(
    ("tau", "plain", "dr"),
    [
        (0.2, 0.528000, 0.526667),
        (1, 0.426000, 0.556667),
        (2, 0.636500, 0.625167),
        (0, 0.530000, 0.530000),
        (INF, 0.682500, 0.577167),
    ],
)
def test_switching_gives_the_hand_worked_values(golden, tau, plain, dr):
    r, w = golden.reward, golden.weight
    assert switch_dr(r, w, *golden.model, tau).value == pytest.approx(dr, abs=1e-6)
    found = switch(r, golden.target, golden.logging, golden.action, golden.q_all, tau)
    assert found.value == pytest.approx(plain, abs=1e-6)


def test_shrinking_gives_the_hand_worked_values(golden):
    r, w = golden.reward, golden.weight
    found = dr_shrinkage(r, w, *golden.model, 4)
    assert found.value == pytest.approx(0.581825, abs=1e-6)
    assert sub_gaussian_ips(r, w, 0.5).value == pytest.approx(0.563399, abs=1e-6)


def shapes(golden, **keywords):
    """Every estimator of the module, and the weights it should have used, on some log."""
    r, w, k = golden.reward, golden.weight, keywords.get("keep_prob", 1)
    used = w / k
    return {
        "switch_dr": (switch_dr(r, used, *golden.model, 2, **keywords), np.where(w <= 2, w, 0)),
        "optimistic": (
            dr_shrinkage(r, used, *golden.model, 4, **keywords),
            4 * w / (np.square(w) + 4),
        ),
        "pessimistic": (
            dr_shrinkage(r, used, *golden.model, 1, shrinkage="pessimistic", **keywords),
            np.minimum(w, 1),
        ),
        "sub_gaussian": (sub_gaussian_ips(r, used, 0.5, **keywords), w / (0.5 + 0.5 * w)),
    }


def test_dropped_rows_are_divided_by_the_decisions_they_stand_for(golden):
    k = golden.keep
    q, m = golden.model
    for name, (found, used) in shapes(golden, keep_prob=k).items():
        residual = golden.reward - (0 if name == "sub_gaussian" else q)
        model = 0 if name == "sub_gaussian" else m
        expected = ((model + used * residual) / k).sum() / 9
        assert found.value == pytest.approx(expected), name


def test_a_logged_number_of_decisions_replaces_its_estimate(golden):
    k = golden.keep
    plain = sub_gaussian_ips(golden.reward, golden.weight / k, 0.5, keep_prob=k)
    found = sub_gaussian_ips(golden.reward, golden.weight / k, 0.5, keep_prob=k, n_decisions=18)
    assert found.value == pytest.approx(plain.value / 2)


def test_plain_switching_knows_dropped_rows_too(golden):
    k = golden.keep
    arrays = golden.target, golden.logging, golden.action, golden.q_all
    assert switch(golden.reward, *arrays, INF, keep_prob=k).value == pytest.approx(
        0.483333, abs=1e-6
    )
    assert switch(golden.reward, *arrays, 0, keep_prob=k).value == pytest.approx(0.53)


def test_a_keep_probability_that_follows_the_reward_does_not_move_the_switch():
    # The model is right: whatever is trusted, the answer must be the model's. Had the keep
    # probability moved the switch, failures alone would have lost their correction.
    reward, keep = np.repeat([1.0, 0.0], [12, 3]), np.repeat([1.0, 0.25], [12, 3])
    half = np.full(15, 0.5)
    for estimator, limit in ((switch_dr, 2), (dr_shrinkage, 3)):
        found = estimator(reward, 1.5 / keep, half, half, limit, keep_prob=keep)
        assert found.value == pytest.approx(0.5)


def test_limits_are_the_estimators_they_stand_for(golden):
    r, w, k = golden.reward, golden.weight, golden.keep
    for keywords in ({}, {"keep_prob": k}):
        used = w if not keywords else w / k
        dr = doubly_robust(r, used, *golden.model, **keywords).value
        dm = direct_method(golden.expected, **keywords).value
        plain = ips(r, used, **keywords).value
        assert switch_dr(r, used, *golden.model, INF, **keywords).value == dr
        assert switch_dr(r, used, *golden.model, 0, **keywords).value == pytest.approx(dm)
        for kind in ("optimistic", "pessimistic"):
            keywords_of_kind = {"shrinkage": kind, **keywords}
            at_most = dr_shrinkage(r, used, *golden.model, INF, **keywords_of_kind)
            at_least = dr_shrinkage(r, used, *golden.model, 0, **keywords_of_kind)
            assert at_most.value == dr
            assert at_least.value == pytest.approx(dm)
        assert sub_gaussian_ips(r, used, 0, **keywords).value == plain


def test_a_full_harmonic_weight_is_one_where_the_target_goes_at_all():
    found = sub_gaussian_ips([1, 0, 1, 1], [0, 2, 2.5, 0.1], 1)
    assert found.value == pytest.approx(0.5)


def test_shrinking_by_a_cap_with_an_empty_model_is_clipping(golden):
    nothing = np.zeros(5)
    found = dr_shrinkage(
        golden.reward, golden.weight, nothing, nothing, 1, shrinkage="pessimistic",
        reward_range=(0, 1),
    )  # fmt: skip
    clipped = clipped_ips(golden.reward, golden.weight, 1)
    assert found.value == pytest.approx(clipped.value)
    assert found.bias_bound == pytest.approx(clipped.bias_bound)


def test_a_cap_on_dropped_rows_cuts_the_policies_ratio(golden):
    k = golden.keep
    found = clipped_ips(golden.reward, golden.weight / k, 1, keep_prob=k)
    used = np.minimum(golden.weight, 1)
    assert found.value == pytest.approx((used * golden.reward / k).sum() / 9)
    assert found.bias_bound == pytest.approx(((golden.weight - used) / k).sum() / 9)
    everything = clipped_ips(golden.reward, golden.weight / k, INF, keep_prob=k)
    assert everything.value == ips(golden.reward, golden.weight / k, keep_prob=k).value
    assert everything.bias_bound == 0


def test_diagnostics_are_those_of_the_raw_weights(golden):
    for found, _ in shapes(golden).values():
        assert found.ess == pytest.approx(3.418340, abs=1e-6)
        assert found.mean_weight == pytest.approx(1.143333, abs=1e-6)
        assert found.max_weight == pytest.approx(2.4)
    arrays = golden.target, golden.logging, golden.action, golden.q_all
    assert switch(golden.reward, *arrays, 1).ess == pytest.approx(3.418340, abs=1e-6)


def test_a_bias_bound_is_stated_only_for_a_declared_range(golden):
    r, w = golden.reward, golden.weight
    q, m = golden.model
    assert switch_dr(r, w, q, m, 2).bias_bound is None
    found = switch_dr(r, w, q, m, 2, reward_range=(0, 1))
    # Row 3 alone weighs more than 2; its prediction .6 can be wrong by .6 at most.
    assert found.bias_bound == pytest.approx(2.4 * 0.6 / 5)
    assert switch_dr(r, w, q, m, INF, reward_range=(0, 1)).bias_bound == 0
    used = w / (0.5 + 0.5 * w)
    found = sub_gaussian_ips(r, w, 0.5, reward_range=(-3, 1))
    assert found.bias_bound == pytest.approx(3 * np.abs(w - used).mean())


def test_clipping_of_costs_is_bounded_by_the_lowest_reward():
    found = clipped_ips([-2, 1, -1], [3, 1, 1], 1, reward_max=1, reward_min=-2)
    assert found.bias_bound == pytest.approx(2 * 2 / 3)


def test_the_error_by_unit_agrees_with_resampling_units():
    rng = np.random.default_rng(5)
    n, units = 3_000, np.repeat(np.arange(300), 10)
    effect = np.repeat(rng.normal(0, 0.2, 300), 10)
    w, q, m = rng.exponential(size=n), rng.random(n), rng.random(n)
    r = q + effect + rng.normal(0, 0.2, n)
    for found in (
        switch_dr(r, w, q, m, 1.5),
        dr_shrinkage(r, w, q, m, 4),
        sub_gaussian_ips(r, w, 0.3),
    ):
        ratios = found.ratios
        drawn = bootstrap(ratios.numerators, ratios.denominators, units, rng=rng, n_resamples=2_000)
        expected = unit_interval(found.contributions, units).std_err
        assert drawn.std == pytest.approx(expected, rel=0.08)
        assert expected > 1.1 * unit_interval(found.contributions).std_err


SHRUNK = {
    "switch_dr": lambda r, w: switch_dr(r, w, np.zeros(len(r)), np.zeros(len(r)), 2),
    "dr_shrinkage": lambda r, w: dr_shrinkage(r, w, np.zeros(len(r)), np.zeros(len(r)), 2),
    "sub_gaussian_ips": lambda r, w: sub_gaussian_ips(r, w, 0.5),
}


@pytest.mark.parametrize("estimator", SHRUNK.values(), ids=SHRUNK)
@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        ([], "no data"),
        ([0, 0, 0, 0], "every weight is 0"),
        ([1e21, 1, 1], "worth 1.0, fewer than 1.5"),
        ([1e300, 1, 1], "too little overlap"),
        ([9.0] + [0.01] * 99, "fewer than 10"),
    ],
)
def test_weights_that_say_nothing_are_refused_however_they_are_shrunk(estimator, weight, reason):
    found = estimator(np.full(len(weight), 0.5), np.array(weight, float))
    assert (found.status, found.value) == ("refused", None)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: switch_dr([1], [1], [1], [1], -1), RangeError, "tau: .* got -1"),
        (lambda: switch_dr([1], [1], [1], [1], np.nan), RangeError, "tau: .* got nan"),
        (lambda: dr_shrinkage([1], [1], [1], [1], -1), RangeError, "lam: .* got -1"),
        (lambda: dr_shrinkage([1], [1], [1], [1], 1, shrinkage="mild"), InputError, "optimistic"),
        (lambda: sub_gaussian_ips([1], [1], 1.5), RangeError, "lam: .* got 1.5"),
        (lambda: sub_gaussian_ips([1], [1], np.nan), RangeError, "lam: .* got nan"),
        (lambda: sub_gaussian_ips([1, np.nan], [1, 1], 0.5), RangeError, "reward, row 2"),
        (lambda: sub_gaussian_ips([1, 1], [1, -1], 0.5), RangeError, "weight, row 2"),
        (lambda: sub_gaussian_ips([1, 1], [1], 0.5), ShapeMismatchError, "weight"),
        (lambda: switch_dr([1, 1], [1, 1], [1], [1, 1], 1), ShapeMismatchError, "q_taken"),
        (lambda: switch_dr([1], [1], [1], [np.inf], 1), RangeError, "expected_reward, row 1"),
        (
            lambda: switch_dr([0, 2], [1, 1], [1, 1], [1, 1], 1, reward_range=(0, 1)),
            RangeError,
            "reward, row 2: expected a reward within the declared 0 to 1",
        ),
        (
            lambda: switch_dr([0], [1], [1], [1], 1, reward_range=(1, 0)),
            RangeError,
            "reward_range.* got 0",
        ),
        (
            lambda: sub_gaussian_ips([0], [1], 0.5, reward_range=(0, np.inf)),
            RangeError,
            "reward_range.* got inf",
        ),
        (lambda: sub_gaussian_ips([1], [1], 0.5, keep_prob=[0]), RangeError, "keep_prob, row 1"),
        (lambda: clipped_ips([-1], [1], 1), RangeError, "at least reward_min = 0"),
    ],
)
def test_what_has_no_meaning_raises(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"target": [[0.5, 0.6]]}, RangeError, "target, row 1: expected a sum of 1"),
        ({"target": [[1.0]]}, ShapeMismatchError, "logging"),
        ({"logging": [[0.0, 1.0]]}, RangeError, "logging, row 1: expected a probability above 0"),
        ({"q_all": [[np.nan, 0.1]]}, RangeError, "q_all, row 1: expected a finite number"),
        ({"taken": [2]}, RangeError, "taken, row 1: expected a plan from 0 to 1"),
        ({"mask": [[0, 1]]}, RangeError, "target, row 1: expected 0 where a plan is masked"),
        ({"reward": [1, 0]}, ShapeMismatchError, "reward"),
    ],
)
def test_plain_switching_refuses_arrays_that_do_not_fit(changes, error, message):
    sound = {
        "reward": [1], "target": [[0.5, 0.5]], "logging": [[0.1, 0.9]], "taken": [0],
        "q_all": [[0.2, 0.1]], "tau": 2.0,
    }  # fmt: skip
    assert switch(**sound).value == pytest.approx(0.5 * 0.2)
    with pytest.raises(error, match=message):
        switch(**(sound | changes))


def test_a_plan_that_is_never_logged_is_left_to_the_model():
    found = switch([1.0, 0.0], [[0.5, 0.5]] * 2, [[1, 0]] * 2, [0, 0], [[9, 0.4]] * 2, 1e9)
    assert found.value == pytest.approx(0.5 * 0.5 + 0.5 * 0.4)
