"""What estimators refuse to say, and what they refuse to read."""

import numpy as np
import pytest

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators import (
    clipped_ips,
    direct_method,
    doubly_robust,
    ips,
    self_normalized_dr,
    snips,
)

WEIGHTED = {
    "ips": ips,
    "clipped_ips": lambda r, w: clipped_ips(r, w, 10.0, 1.0),
    "snips": snips,
    "dr": lambda r, w: doubly_robust(r, w, np.zeros(len(r)), np.zeros(len(r))),
    "sndr": lambda r, w: self_normalized_dr(r, w, np.zeros(len(r)), np.zeros(len(r))),
}


@pytest.mark.parametrize("estimator", WEIGHTED.values(), ids=WEIGHTED)
@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        ([], "no data"),
        ([0, 0, 0, 0], "every weight is 0"),
        ([1, 1e-9, 1e-9, 1e-9], "worth 1.0, fewer than 2"),
        ([1e21, 1, 1], "worth 1.0, fewer than 1.5"),
        ([1e300, 1, 1], "too little overlap"),
        ([9.0] + [0.01] * 99, "fewer than 10"),
    ],
)
def test_weights_that_say_nothing_are_refused(estimator, weight, reason):
    found = estimator(np.full(len(weight), 0.5), np.array(weight, float))
    assert found.status == "refused"
    assert found.value is None
    assert reason in found.reason
    assert found.contributions.shape == (len(weight),)


def test_a_large_log_needs_ten_rows_worth_of_weight_and_no_more():
    reward = np.full(1000, 0.5)
    weight = np.zeros(1000)
    weight[:10] = 1
    assert ips(reward, weight).status == "ok"
    weight[9] = 0
    assert ips(reward, weight).status == "refused"


def test_no_data_is_refused_by_the_direct_method_too():
    found = direct_method([])
    assert (found.value, found.n) == (None, 0)
    assert "no data" in found.reason


def test_a_result_beyond_float_is_refused_and_never_a_number():
    found = ips([1e10] * 4, [1e300] * 4)
    assert found.value is None
    assert "not a finite number" in found.reason
    assert np.isnan(found.contributions).all()


def test_undefined_contributions_are_nan_and_not_zero():
    assert np.isnan(snips([1, 1], [0, 0]).contributions).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1, 1, 1], [1, 1]), ShapeMismatchError, r"weight has shape \(2,\), expected \(3,\)"),
        (([1, 1], [[1, 1]]), ShapeMismatchError, "weight"),
        (([[1, 1]], [1, 1]), ShapeMismatchError, "reward"),
        (([1, np.nan], [1, 1]), RangeError, "reward, row 2: expected a finite number"),
        (([1, None], [1, 1]), RangeError, "reward, row 2"),
        (([1, 1], [1, np.inf]), RangeError, "weight, row 2"),
        (([1, 1, 1], [1, 1, -0.5]), RangeError, "weight, row 3: expected a weight of at least 0"),
    ],
)
@pytest.mark.parametrize("estimator", WEIGHTED.values(), ids=WEIGHTED)
def test_wrong_arrays_raise_and_name_the_row(estimator, arguments, error, message):
    with pytest.raises(error, match=message):
        estimator(*arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: doubly_robust([1, 1], [1, 1], [0.5, np.nan], [0.5, 0.5]), "q_taken, row 2"),
        (lambda: self_normalized_dr([1], [1], [0.5], [np.inf]), "expected_reward, row 1"),
        (lambda: direct_method([0.5, np.nan]), "expected_reward, row 2"),
        (lambda: ips([1, 1], [1, 1], keep_prob=[1, 0]), r"keep_prob, row 2.*\(0, 1\]"),
        (lambda: ips([1, 1], [1, 1], keep_prob=[1.5, 1]), "keep_prob, row 1"),
        (lambda: ips([1, 1], [1, 1], n_decisions=1), "at least the 2 rows"),
        (lambda: clipped_ips([1], [1], -1.0), "cap"),
        (lambda: clipped_ips([2], [1], 1.0, 1.0), "reward, row 1: expected at most reward_max = 1"),
    ],
)
def test_numbers_outside_their_meaning_raise(call, message):
    with pytest.raises(RangeError, match=message):
        call()


def test_model_arrays_of_another_length_raise():
    with pytest.raises(ShapeMismatchError, match="q_taken"):
        doubly_robust([1, 1], [1, 1], [0.5], [0.5, 0.5])


def test_decisions_without_a_row_kept_are_no_data():
    found = ips([], [], keep_prob=[], n_decisions=5)
    assert found.value is None
    assert "no data" in found.reason
