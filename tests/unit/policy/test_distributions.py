"""The floored softmax, the draw, and the doctrine policy."""

import math

import numpy as np
import pytest
from scipy.special import softmax

from canopy.domain.errors import (
    CanopyError,
    InputError,
    NonFiniteScoreError,
    RangeError,
    ShapeMismatchError,
)
from policy.distributions import doctrine, draw, greedy, pick, picked
from policy.selector import distribution

INF, NAN = math.inf, math.nan


def test_three_plans_with_a_floor_of_a_tenth():
    # mabwiser issue 93: the floor goes into the distribution, and is in what is reported.
    row = distribution([50.0, 0.0, 0.0], [True, True, True], 0.1)
    assert row == pytest.approx([0.1 / 3 + 0.9, 0.1 / 3, 0.1 / 3], abs=1e-12)


def test_a_masked_plan_has_exactly_zero_even_if_it_scores_best():
    # ray issue 24055
    row = distribution([0.5, 0.5, 9.0], [True, True, False], 0.2)
    assert row.tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("score", [NAN, INF, -INF, 1e308])
def test_the_score_of_a_masked_plan_does_not_matter(score):
    row = distribution([0.0, score, 1.0], [True, False, True], 0.3)
    assert np.array_equal(row, distribution([0.0, 7.0, 1.0], [True, False, True], 0.3))


def test_a_feasible_plan_that_scores_minus_infinity_gets_its_floor_share():
    row = distribution([0.0, -INF], [True, True], 0.1)
    assert row[1] == 0.05
    assert row[0] == pytest.approx(0.95)
    assert distribution([0.0, -INF], [True, True], 0.0).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("floor", [0.0, 0.4, 1.0])
def test_plans_that_all_score_minus_infinity_share_evenly(floor):
    scores, mask = [-INF] * 4, [True, False, True, True]
    third = [1 / 3, 0.0, 1 / 3, 1 / 3]
    assert distribution(scores, mask, floor).tolist() == third
    assert distribution([scores, [0.0, 0, 0, 0]], [mask, mask], floor)[0].tolist() == third


def test_a_floor_of_one_is_uniform_over_the_feasible():
    row = distribution([3.0, 9.0, 1.0], [True, False, True], 1.0)
    assert row.tolist() == [0.5, 0.0, 0.5]


def test_scipy_agrees():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(50, 40)) * 5
    mask = rng.random((50, 40)) < 0.5
    mask[:, 7] = True
    expected = 0.93 * softmax(np.where(mask, scores, -INF), axis=1)
    expected += 0.07 * mask / mask.sum(axis=1, keepdims=True)
    assert distribution(scores, mask, 0.07) == pytest.approx(expected, abs=1e-15)


def test_scores_of_opposite_extremes_do_not_overflow():
    assert distribution([1.7e308, -1.7e308], [True, True], 0.0).tolist() == [1.0, 0.0]
    rows = distribution([[1.7e308, -1.7e308]], [[True, True]], 0.0)
    assert rows.tolist() == [[1.0, 0.0]]


def test_float32_and_integer_scores_are_taken_as_they_are():
    scores = np.array([0.1, 2.5, -1], dtype=np.float32)
    mask = np.ones(3, dtype=bool)
    expected = distribution(scores.astype(np.float64), mask, 0.1)
    assert np.array_equal(distribution(scores, mask, 0.1), expected)
    assert distribution([1, 1], [True, True], 0).tolist() == [0.5, 0.5]


def test_arguments_are_left_as_they_were():
    scores, mask = np.array([1.0, NAN, 3.0]), np.array([True, False, True])
    distribution(scores, mask, 0.1)
    assert np.array_equal(scores, [1.0, NAN, 3.0], equal_nan=True)
    assert mask.tolist() == [True, False, True]


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2]])
def test_the_layout_in_memory_changes_no_bit(layout):
    rng = np.random.default_rng(5)
    scores, mask = rng.normal(size=(30, 333)), rng.random((30, 333)) < 0.6
    mask[:, 0] = True
    rows = distribution(layout(scores), layout(mask), 0.05)
    for row, one, feasible in zip(rows, scores, mask, strict=True):
        assert row.tobytes() == distribution(one, feasible, 0.05).tobytes()


REFUSED = [
    ([NAN, 0.0], [True, True], 0.1, NonFiniteScoreError, "score of plan 0 is nan"),
    ([0.0, INF], [True, True], 0.1, NonFiniteScoreError, "score of plan 1 is inf"),
    ([[0.0, 0.0], [0.0, NAN]], [[True, True]] * 2, 0.1, NonFiniteScoreError, "plan 1 is nan"),
    ([0.0, 0.0], [False, False], 0.1, RangeError, "at least one feasible plan"),
    ([[0.0], [0.0]], [[True], [False]], 0.1, RangeError, "row 2: expected at least one"),
    ([], np.zeros(0, dtype=bool), 0.1, RangeError, "at least one feasible plan"),
    ([0.0, 0.0], [1, 1], 0.1, RangeError, "booleans"),
    ([0.0, 0.0], [True, True], -0.1, RangeError, "a share from 0 to 1"),
    ([0.0, 0.0], [True, True], 1.5, RangeError, "a share from 0 to 1"),
    ([0.0, 0.0], [True, True], NAN, RangeError, "a share from 0 to 1"),
    ([0.0, 0.0], [True], 0.1, ShapeMismatchError, "mask has shape"),
    ([[0.0, 0.0]], [True, True], 0.1, ShapeMismatchError, "mask has shape"),
    (0.0, True, 0.1, ShapeMismatchError, "scores has shape"),
    (np.zeros((1, 1, 1)), np.ones((1, 1, 1), dtype=bool), 0.1, ShapeMismatchError, "scores"),
    (["a", "b"], [True, True], 0.1, InputError, "expected real numbers"),
    ([1j, 0], [True, True], 0.1, InputError, "expected real numbers"),
    ([None, 1.0], [True, True], 0.1, InputError, "expected real numbers"),
]


@pytest.mark.parametrize(("scores", "mask", "floor", "error", "words"), REFUSED)
def test_wrong_input_is_refused(scores, mask, floor, error, words):
    with pytest.raises(error, match=words) as refusal:
        distribution(scores, mask, floor)
    assert isinstance(refusal.value, CanopyError)


def test_no_rows_give_no_rows():
    assert distribution(np.zeros((0, 3)), np.zeros((0, 3), dtype=bool), 0.1).shape == (0, 3)


@pytest.mark.parametrize(
    ("u", "action"), [(0.0, 1), (0.2499, 1), (0.25, 3), (0.9, 3), (math.nextafter(1, 0), 3)]
)
def test_the_draw_inverts_the_running_sum(u, action):
    assert draw([0.0, 0.25, 0.0, 0.75, 0.0], u) == action


def test_a_sum_a_little_below_one_still_draws_a_plan_that_can_be():
    row = np.array([0.1] * 9 + [0.1 - 1e-9, 0.0])
    assert row.sum() < math.nextafter(1, 0)
    assert draw(row, math.nextafter(1, 0)) == 9


@pytest.mark.parametrize("u", [1.0, -0.1, 2.0, NAN])
def test_a_draw_outside_its_range_is_refused(u):
    with pytest.raises(RangeError, match=r"a number in \[0, 1\)"):
        draw([1.0], u)


@pytest.mark.parametrize(
    "row", [[0.5], [0.7, 0.7], [1.5, -0.5], [NAN, 1.0], [], [0.0, 0.0], [INF, 0.0]]
)
def test_what_is_no_distribution_is_not_drawn_from(row):
    with pytest.raises(RangeError):
        draw(row, 0.5)


def test_only_one_row_is_drawn_from():
    with pytest.raises(ShapeMismatchError):
        draw([[1.0]], 0.5)


def test_the_doctrine_renormalises_its_weights_over_the_feasible():
    weights = np.array([0.5, 0.25, 0.25, 0.0])
    mask = np.array([False, True, True, True])
    assert doctrine(weights, 0, mask, 0.0).tolist() == [0.0, 0.5, 0.5, 0.0]
    assert doctrine(weights, 0, mask, 0.3) == pytest.approx([0.0, 0.45, 0.45, 0.1])


def test_the_doctrine_without_weights_is_the_default_plan():
    mask = np.array([[True, True], [True, False]])
    assert doctrine(None, 0, mask, 0.0).tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert doctrine(None, 1, mask, 0.0).tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_a_doctrine_without_feasible_mass_shares_evenly():
    mask = np.array([False, True, True])
    assert doctrine(np.array([1.0, 0.0, 0.0]), 0, mask, 0.0).tolist() == [0.0, 0.5, 0.5]


def test_a_doctrine_over_nothing_is_refused():
    with pytest.raises(RangeError, match="row 2"):
        doctrine(None, 0, np.array([[True], [False]]), 0.0)
    with pytest.raises(RangeError, match="share from 0 to 1"):
        doctrine(None, 0, np.array([True]), 1.1)


def test_greedy_choices_go_along_the_plans():
    assert greedy(np.array([[0.25, 0.25, 0.5], [0.5, 0.5, 0.0]])).tolist() == [2, 0]


@pytest.mark.parametrize("n", [4096, 5000, 100_003])
def test_a_long_row_is_drawn_from_as_its_running_sum_says(n):
    rng = np.random.default_rng(n)
    row = rng.exponential(size=n) * (rng.random(n) < 0.7)
    row[rng.integers(n - 300)] = 50.0
    row /= row.sum()
    cumulated = row.cumsum()
    edges = cumulated[rng.integers(n, size=300)]
    near = [np.nextafter(edges, 0), edges, np.nextafter(edges, 1)]
    for u in np.concatenate([rng.random(2000), *near, [0.0, 1 - 2**-53]]).tolist():
        if u < 1:
            assert picked(row, u) == pick(row, cumulated, u)
