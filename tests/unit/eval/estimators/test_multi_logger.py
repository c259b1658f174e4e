"""Logs of several policies, and logs without propensities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators import (
    balanced_weight,
    classifier_balanced,
    classifier_weight,
    direct_method,
    importance_weight,
    ips,
    snips,
)


def test_the_denominator_is_the_mixture_of_all_loggers():
    found = balanced_weight([0.6, 0.3], [[0.2, 0.8], [0.5, 0.1]], [300, 100])
    assert found == pytest.approx([0.6 / 0.35, 0.3 / 0.4])


def test_only_the_proportions_of_the_loggers_matter():
    arrays = [0.6, 0.3], [[0.2, 0.8], [0.5, 0.1]]
    assert balanced_weight(*arrays, [0.75, 0.25]) == pytest.approx(
        balanced_weight(*arrays, [300, 100])
    )


def test_one_logger_gives_the_importance_weight():
    target, propensity = np.array([0.6, 0.3]), np.array([0.2, 0.5])
    found = balanced_weight(target, propensity[:, None], [2], keep_prob=[1, 0.5])
    assert found == pytest.approx(importance_weight(target, propensity, keep_prob=[1, 0.5]))


def test_a_logger_that_made_no_decision_changes_nothing():
    found = balanced_weight([0.6], [[0.2, 0.9]], [5, 0])
    assert found == pytest.approx([3.0])


def test_a_plan_that_only_another_logger_takes_is_still_covered():
    # Logger 2 never takes plan 0, logger 1 never plan 1: neither alone supports the target.
    logging = np.array([[1.0, 0.0], [0.0, 1.0]])
    taken = np.array([0] * 20 + [1] * 20)
    weight = balanced_weight(np.full(40, 0.5), logging[:, taken].T, [20, 20])
    assert weight == pytest.approx(np.ones(40))
    assert ips(taken, weight).value == pytest.approx(0.5)


def worlds(seed):
    rng = np.random.default_rng(seed)
    n_plans, n_loggers = 4, 3
    loggers = rng.dirichlet(np.ones(n_plans), n_loggers) * 0.9 + 0.1 / n_plans
    counts = rng.integers(1, 50, n_loggers)
    return loggers, rng.dirichlet(np.ones(n_plans)), counts, rng.random(n_plans)


@given(st.integers(0, 10**6))
@settings(max_examples=200)
def test_balanced_weights_never_vary_more_than_each_loggers_own(seed):
    """Exact: moments of both estimators over all logs of Bernoulli rewards, logger by logger."""
    loggers, target, counts, q = worlds(seed)
    n, plans = counts.sum(), np.arange(len(target))
    balanced = balanced_weight(target, loggers[:, plans].T, counts)

    def moments(weight):
        """Mean and variance of the sum over rows; weight is (n_loggers, n_plans)."""
        mean = (loggers * weight * q).sum(axis=1)
        second = (loggers * np.square(weight) * q).sum(axis=1)
        return counts @ mean / n, counts @ (second - np.square(mean)) / n**2

    own = np.array([importance_weight(target, logger) for logger in loggers])
    for weight in (own, np.tile(balanced, (len(counts), 1))):
        assert moments(weight)[0] == pytest.approx(target @ q)
    assert moments(np.tile(balanced, (len(counts), 1)))[1] <= moments(own)[1] * (1 + 1e-12)


def test_odds_of_a_perfect_classifier_are_the_importance_weights():
    weight = np.array([0.2, 1.0, 5.0, 0.7])
    assert classifier_weight(weight / (1 + weight)) == pytest.approx(weight)
    reward = [1, 0, 1, 0.5]
    found = classifier_balanced(reward, weight / (1 + weight), keep_prob=[1, 1, 0.5, 1])
    assert found.value == pytest.approx(snips(reward, weight / [1, 1, 0.5, 1]).value)


def test_certain_classifiers_give_finite_weights():
    found = classifier_weight([0, 1])
    assert found == pytest.approx([1e-6, 1e6], rel=1e-3)


def test_estimated_weights_are_labelled_so():
    assert classifier_balanced([1, 0], [0.5, 0.5]).basis == "estimated"
    assert ips([1, 0], [1, 1]).basis == "logged"
    assert direct_method([1, 0]).basis == "model"


def test_a_classifier_trained_on_draws_recovers_the_value():
    rng = np.random.default_rng(3)
    logging, target, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6]), np.array([1, 0.2, 0])
    n = 30_000
    taken, drawn, held_out = (rng.choice(3, n, p=p) for p in (logging, target, logging))
    # With one context a classifier is a share per plan; it never saw the rows it is used on.
    from_log, from_target = (np.bincount(plans, minlength=3) for plans in (taken, drawn))
    probability = from_target / (from_log + from_target)
    reward = (rng.random(n) < q[held_out]).astype(float)
    found = classifier_balanced(reward, probability[held_out])
    assert found.value == pytest.approx(target @ q, abs=0.01)
    assert found.mean_weight == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: balanced_weight([0.5], [[0.5]], [0]), RangeError, "n_per_logger"),
        (lambda: balanced_weight([0.5], [[0.5, 0.5]], [1, -1]), RangeError, "n_per_logger, row 2"),
        (lambda: balanced_weight([0.5], [[0.5]], [1, 1]), ShapeMismatchError, "n_per_logger"),
        (
            lambda: balanced_weight([0.5, 0.5], [[0.5, 1], [0.0, 1]], [1, 0]),
            RangeError,
            "logging_taken, row 2: expected a plan that some logger can take",
        ),
        (lambda: balanced_weight([0.5], [[1.5]], [1]), RangeError, "logging_taken, row 1"),
        (lambda: balanced_weight([1.5], [[0.5]], [1]), RangeError, "target_taken, row 1"),
        (lambda: balanced_weight([0.5], [0.5], [1]), ShapeMismatchError, "logging_taken"),
        (lambda: balanced_weight([0.5], [[0.5], [1]], [1]), ShapeMismatchError, r"shape \(2, 1\)"),
        (lambda: classifier_weight([np.nan]), RangeError, "target_probability, row 1"),
        (lambda: classifier_weight([1.01]), RangeError, "target_probability, row 1: .* 0 to 1"),
        (lambda: classifier_balanced([1, 1], [0.5]), ShapeMismatchError, "target_probability"),
    ],
)
def test_what_is_no_probability_or_count_raises(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_no_rows_are_no_data():
    assert "no data" in classifier_balanced([], []).reason
    assert balanced_weight([], np.empty((0, 2)), [3, 4]).shape == (0,)
