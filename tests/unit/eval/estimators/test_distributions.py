"""What estimators need of whole distributions: the logged plan and mask, nothing filled in."""

import numpy as np
import pytest

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators import direct_method, expected_reward, importance_weight, ips, renormalized


def test_the_weight_is_the_targets_probability_of_the_logged_plan():
    # A plan drawn anew from the target would most often be the other one, with weight 1.8.
    assert importance_weight([0.1], [0.5]) == pytest.approx([0.2])


def test_the_hand_worked_weights_come_out(golden):
    rows = np.arange(5)
    taken, p = (d[rows, golden.action] for d in (golden.target, golden.logging))
    assert importance_weight(taken, p) == pytest.approx(golden.weight)
    weight = importance_weight(taken, p, keep_prob=golden.keep)
    found = ips(golden.reward, weight, keep_prob=golden.keep)
    assert found.value == pytest.approx(0.483333, abs=1e-6)


def test_a_masked_plan_needs_no_prediction(golden):
    assert np.isnan(golden.q_all[3, 2])
    found = expected_reward(golden.target, golden.q_all, mask=golden.logging > 0)
    assert found == pytest.approx(golden.expected)
    assert direct_method(found).value == pytest.approx(0.53)


def test_a_target_is_renormalised_over_the_plans_that_were_feasible():
    found = renormalized([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], [[1, 1, 0], [0, 1, 0]])
    assert found == pytest.approx(np.array([[0.625, 0.375, 0], [0, 1, 0]]))


def test_renormalising_leaves_the_callers_array_alone():
    target = np.array([[0.5, 0.5]])
    renormalized(target, [[True, False]])
    assert target.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: importance_weight([-0.105], [0.5]), RangeError, "target_taken, row 1"),
        (lambda: importance_weight([0.5, 1.2], [0.5, 0.5]), RangeError, "target_taken, row 2"),
        (lambda: importance_weight([0.5], [2.15]), RangeError, r"propensity, row 1.*\(0, 1\]"),
        (lambda: importance_weight([0.5], [0]), RangeError, "propensity, row 1: .* got 0"),
        (lambda: importance_weight([0.5], [None]), RangeError, "propensity, row 1: .* got nan"),
        (lambda: importance_weight([0.5], [0.5], keep_prob=[0]), RangeError, "keep_prob, row 1"),
        (lambda: importance_weight([0.5, 0.5], [0.5]), ShapeMismatchError, "target_taken"),
        (lambda: renormalized([[1, 0]], [[0, 1]]), RangeError, "target, row 1: .* feasible plans"),
        (lambda: renormalized([[1, 0]], [[0, 0]]), RangeError, "mask, row 1: .* one feasible plan"),
        (lambda: renormalized([[1, 0]], [[2, 1]]), RangeError, "mask, row 1: .* True or False"),
        (lambda: renormalized([[1, -1]], [[1, 1]]), RangeError, "target, row 1: .* at least 0"),
        (lambda: renormalized([[1, 0]], [[1]]), ShapeMismatchError, "mask"),
        (lambda: expected_reward([[0.5, 0.5]], [[1, np.nan]]), RangeError, "q_all, row 1"),
        (lambda: expected_reward([[0.5, 0.6]], [[1, 1]]), RangeError, "target, row 1: .* sum of 1"),
        (
            lambda: expected_reward([[0.5, 0.5]], [[1, 1]], mask=[[1, 0]]),
            RangeError,
            "target, row 1: expected 0 where a plan is masked",
        ),
        (lambda: expected_reward([[1.0]], [[1, 1]]), ShapeMismatchError, "q_all"),
    ],
)
def test_what_is_no_probability_raises_and_names_the_row(call, error, message):
    with pytest.raises(error, match=message):
        call()
