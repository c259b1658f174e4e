"""Laws of the floored softmax and of the draw, on whatever numbers there are."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from policy.distributions import doctrine, draw
from policy.selector import distribution, uniform

LOOSE = settings(deadline=None)
FLOORS = st.floats(0.0, 1.0)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
BELOW_INFINITY = st.one_of(FINITE, st.just(-math.inf))
ANYTHING = st.floats()
AWKWARD_U = st.one_of(
    st.sampled_from([0.0, math.nextafter(0, 1), math.nextafter(1, 0), 0.5]),
    st.floats(0, 1, exclude_max=True),
)


@st.composite
def rows(draw_value, scores=BELOW_INFINITY, most=40):
    """Scores and a mask with at least one feasible plan; masked scores are arbitrary."""
    n = draw_value(st.integers(1, most))
    mask = draw_value(arrays.arrays(np.bool_, n))
    mask[draw_value(st.integers(0, n - 1))] = True
    values = draw_value(arrays.arrays(np.float64, n, elements=scores))
    masked = draw_value(arrays.arrays(np.float64, n, elements=ANYTHING))
    return np.where(mask, values, masked), mask


@given(rows(), FLOORS)
@LOOSE
def test_probabilities_sum_to_one_over_the_feasible_and_are_zero_elsewhere(row, floor):
    scores, mask = row
    p = distribution(scores, mask, floor)
    assert abs(math.fsum(p) - 1.0) <= 1e-12
    assert (p[~mask] == 0.0).all()
    assert (p >= 0.0).all()
    assert p[mask].min() >= floor / mask.sum() * (1 - 1e-12)


@given(rows(), FLOORS)
@LOOSE
def test_the_largest_score_has_the_largest_probability(row, floor):
    scores, mask = row
    p = distribution(scores, mask, floor)
    best = np.where(mask, scores, -np.inf).max()
    assert p.max() == p[mask & (scores == best)].max()


@given(rows(st.floats(-50, 50)), FLOORS, st.floats(-1e3, 1e3))
@LOOSE
def test_a_constant_added_to_every_score_changes_nothing_but_rounding(row, floor, shift):
    scores, mask = row
    p, q = distribution(scores, mask, floor), distribution(scores + shift, mask, floor)
    assert p == pytest.approx(q, rel=1e-9, abs=1e-12)


@given(rows(st.floats(-50, 50)), FLOORS, st.randoms(use_true_random=False))
@LOOSE
def test_the_order_of_plans_does_not_matter(row, floor, random):
    scores, mask = row
    order = list(range(len(scores)))
    random.shuffle(order)
    p = distribution(scores, mask, floor)
    assert distribution(scores[order], mask[order], floor) == pytest.approx(p[order], abs=1e-14)


@given(st.data(), FLOORS)
@LOOSE
def test_a_batch_has_the_bits_of_single_rows(data, floor):
    n, k = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 300))
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k)) * data.draw(st.sampled_from([1e-3, 1.0, 100.0]))
    mask = rng.random((n, k)) < data.draw(st.sampled_from([0.1, 0.5, 1.0]))
    mask[:, data.draw(st.integers(0, k - 1))] = True
    scores[rng.random((n, k)) < 0.1] = -np.inf
    batch = distribution(scores, mask, floor)
    for row, one, feasible in zip(batch, scores, mask, strict=True):
        assert row.tobytes() == distribution(one, feasible, floor).tobytes()


@given(rows(), FLOORS, AWKWARD_U)
@LOOSE
def test_a_draw_never_gives_a_plan_of_probability_zero(row, floor, u):
    scores, mask = row
    p = distribution(scores, mask, floor)
    action = draw(p, u)
    assert p[action] > 0
    assert mask[action]


@given(
    arrays.arrays(
        np.float64, st.integers(1, 60), elements=st.one_of(st.just(0.0), st.floats(1e-300, 1.0))
    ),
    AWKWARD_U,
    st.floats(-9e-7, 9e-7),
)
@LOOSE
def test_a_sum_that_rounding_left_off_one_draws_a_plan_that_can_be(weights, u, error):
    if weights.sum() == 0:
        weights[0] = 1.0
    p = weights / weights.sum() * (1.0 + error)
    action = draw(p, u)
    assert p[action] > 0


@given(rows(st.floats(-5, 5)), FLOORS, AWKWARD_U)
@LOOSE
def test_the_draw_is_the_inverse_of_the_running_sum(row, floor, u):
    scores, mask = row
    p = distribution(scores, mask, floor)
    action, below = draw(p, u), 0.0
    brute = None
    for candidate, share in enumerate(p.tolist()):
        below += share
        if below > u:
            brute = candidate
            break
    assert action == (brute if brute is not None else max(np.flatnonzero(p)))


@given(rows(), FLOORS, st.booleans())
@LOOSE
def test_the_doctrine_is_a_distribution_over_the_feasible(row, floor, is_weighted):
    scores, mask = row
    weights = None
    if is_weighted:
        raw = np.where(np.isfinite(scores), scores, 0.0)
        raw = np.minimum(np.abs(raw), 7.0)
        weights = raw / raw.sum() if raw.sum() > 0 else None
    p = doctrine(weights, 0, mask, floor)
    assert abs(math.fsum(p) - 1.0) <= 1e-12
    assert (p[~mask] == 0.0).all()
    both = doctrine(weights, 0, np.array([mask, mask]), floor)
    assert both[0].tobytes() == both[1].tobytes() == p.tobytes()


@given(st.text(max_size=50))
@LOOSE
def test_a_key_has_one_uniform_in_the_unit_interval(key):
    u = uniform(key)
    assert 0.0 <= u < 1.0
    assert u == uniform(key)
    assert (u * 2**53).is_integer()
