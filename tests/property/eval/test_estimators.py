"""Properties that hold for any log."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.estimators import (
    clipped_ips,
    direct_method,
    doubly_robust,
    ips,
    self_normalized_dr,
    snips,
)

unit = st.floats(0, 1)
rows = st.lists(st.tuples(unit, st.floats(0.01, 50), unit, unit), min_size=1, max_size=40)


def arrays(log):
    return tuple(np.array(column) for column in zip(*log, strict=True))


def close(left, right, scale=1.0):
    return np.isclose(left, right, rtol=1e-9, atol=1e-9 * scale)


@given(rows)
def test_self_normalised_values_stay_within_the_rewards_seen(log):
    reward, weight, _, _ = arrays(log)
    found = snips(reward, weight)
    if found.value is not None:
        assert reward.min() - 1e-12 <= found.value <= reward.max() + 1e-12


@given(rows, st.floats(-5, 5))
def test_self_normalised_values_move_with_a_shift_of_all_rewards(log, shift):
    reward, weight, q, m = arrays(log)
    plain, moved = snips(reward, weight), snips(reward + shift, weight)
    if plain.value is not None:
        assert close(moved.value, plain.value + shift)
    plain = self_normalized_dr(reward, weight, q, m)
    moved = self_normalized_dr(reward + shift, weight, q, m)
    if plain.value is not None:
        assert close(moved.value, plain.value + shift)


@given(rows, st.floats(0.1, 10))
def test_self_normalised_values_ignore_the_scale_of_the_weights(log, scale):
    reward, weight, _, _ = arrays(log)
    plain, scaled = snips(reward, weight), snips(reward, weight * scale)
    assert plain.status == scaled.status
    if plain.value is not None:
        assert close(scaled.value, plain.value)


@given(rows)
def test_the_logging_policy_as_target_gives_the_mean(log):
    reward, _, q, _ = arrays(log)
    ones = np.ones(len(reward))
    for found in (
        ips(reward, ones),
        clipped_ips(reward, ones, 1.0, 1.0),
        snips(reward, ones),
        doubly_robust(reward, ones, q, q),
        self_normalized_dr(reward, ones, q, q),
    ):
        assert close(found.value, reward.mean())
        assert close(found.ess, len(reward))


@given(rows, st.integers(2, 4))
def test_a_log_repeated_says_the_same(log, times):
    reward, weight, q, m = arrays(log)
    for estimator, columns in (
        (ips, (reward, weight)),
        (snips, (reward, weight)),
        (direct_method, (m,)),
        (doubly_robust, (reward, weight, q, m)),
        (self_normalized_dr, (reward, weight, q, m)),
    ):
        once = estimator(*columns)
        often = estimator(*(np.tile(column, times) for column in columns))
        if once.value is not None and often.value is not None:
            assert close(often.value, once.value, 100)


@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(log, random):
    shuffled = list(log)
    random.shuffle(shuffled)
    for estimator in (doubly_robust, self_normalized_dr):
        one, other = estimator(*arrays(log)), estimator(*arrays(shuffled))
        assert one.status == other.status
        if one.value is not None:
            assert close(other.value, one.value, 100)


@given(rows)
def test_a_model_that_says_nothing_leaves_the_weighted_estimators(log):
    reward, weight, _, _ = arrays(log)
    nothing = np.zeros(len(reward))
    pairs = (
        (doubly_robust(reward, weight, nothing, nothing), ips(reward, weight)),
        (self_normalized_dr(reward, weight, nothing, nothing), snips(reward, weight)),
    )
    for with_model, without in pairs:
        assert with_model.status == without.status
        if without.value is not None:
            assert close(with_model.value, without.value, 100)


@given(rows)
def test_a_model_that_knows_the_rewards_leaves_the_direct_method(log):
    reward, weight, _, m = arrays(log)
    found = doubly_robust(reward, weight, reward, m)
    if found.value is not None:
        assert close(found.value, direct_method(m).value)


@given(rows, st.floats(0, 60))
def test_clipping_takes_away_at_most_what_it_says(log, cap):
    reward, weight, _, _ = arrays(log)
    plain, clipped = ips(reward, weight), clipped_ips(reward, weight, cap, 1.0)
    if plain.value is not None:
        assert -1e-9 <= plain.value - clipped.value <= clipped.bias_bound + 1e-9


@given(rows)
@settings(max_examples=50)
def test_full_keeping_changes_nothing(log):
    reward, weight, q, m = arrays(log)
    kept = np.ones(len(reward))
    for estimator, columns in ((ips, (reward, weight)), (doubly_robust, (reward, weight, q, m))):
        assert estimator(*columns).value == estimator(*columns, keep_prob=kept).value


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_ips_and_dr_average_to_the_truth_over_all_draws(seed):
    """Exact enumeration: the mean over every plan, by its propensity, is the target's value."""
    rng = np.random.default_rng(seed)
    n_plans = 6
    logging, target = rng.dirichlet(np.ones(n_plans), 2) * 0.9 + 0.1 / n_plans
    truth, q = rng.random((2, n_plans))
    m = float(target @ q)
    weight = target / logging
    one = np.ones(1)
    found = np.array([
        (
            ips(truth[a] * one, weight[a] * one).value,
            doubly_robust(truth[a] * one, weight[a] * one, q[a] * one, m * one).value,
        )
        for a in range(n_plans)
    ])
    assert np.allclose(logging @ found, target @ truth)
