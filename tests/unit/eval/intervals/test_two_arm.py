"""The always-valid comparison of two arms: goldens, how often it is wrong, and missing outcomes."""

import numpy as np
import pytest

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.intervals import two_arm_sequence, two_arm_with_missing

TREATED = np.tile([1, 0], 400)
OUTCOME = np.tile([1, 0, np.nan, 0, 1, np.nan, 0, 1], 100)


def published(outcome, treated, **more):
    options = {"share": 0.5, "lo": 0, "hi": 1, "tuned_at": 50, "variance": 0.25}
    return two_arm_with_missing(outcome, treated, **options, unseen="published", **more)


def test_missing_outcomes_have_their_golden_numbers():
    found = published(OUTCOME, TREATED)
    assert found.dropped.estimate[-1] == pytest.approx(0.332778, abs=1e-6)
    assert found.dropped.interval == pytest.approx((0.173224, 0.492332), abs=1e-6)
    assert found.dropped.n == 600
    assert found.worst_case == pytest.approx((-0.144896, 0.625686), abs=1e-6)
    assert found.seen.estimate[-1] == pytest.approx(-0.000313, abs=1e-6)
    assert found.seen.interval == pytest.approx((-0.126906, 0.126281), abs=1e-6)
    assert (found.verdict, found.missing_treated, found.missing_control) == ("ok", 0.25, 0.25)
    assert found.shift == 0


def test_the_terms_are_those_of_a_plain_loop():
    rng = np.random.default_rng(2)
    y, t = rng.random(50), rng.random(50) < 0.3
    total, earned, count = 0.0, [0.0, 0.0], [0, 0]
    for row, (value, arm) in enumerate(zip(y, t, strict=True)):
        g = [earned[i] / count[i] if count[i] else 0.5 for i in (0, 1)]
        total += g[1] - g[0] + (arm - 0.3) / (0.3 * 0.7) * (value - g[int(arm)])
        earned[int(arm)] += value
        count[int(arm)] += 1
        assert two_arm_sequence(y, t, 0.3, 0, 1).estimate[row] == pytest.approx(total / (row + 1))


def test_the_effect_is_found_and_its_p_value_is_one_sided():
    rng = np.random.default_rng(0)
    t = rng.random(4_000) < 0.5
    y = (rng.random(4_000) < np.where(t, 0.45, 0.3)).astype(float)
    found = two_arm_sequence(y, t, 0.5, 0, 1, tuned_at=1_000)
    assert found.interval[0] > 0
    assert found.p_value[-1] < 0.001
    assert found.p_harm[-1] == 1
    mirrored = two_arm_sequence(1 - y, t, 0.5, 0, 1, tuned_at=1_000)
    assert mirrored.p_harm[-1] == pytest.approx(found.p_value[-1])
    assert mirrored.lower == pytest.approx(-found.upper)


def test_an_interval_leaves_out_zero_where_one_of_the_two_p_values_is_small():
    rng = np.random.default_rng(5)
    t = rng.random(600) < 0.4
    y = np.clip(rng.normal(np.where(t, 0.55, 0.45), 0.2), 0, 1)
    found = two_arm_sequence(y, t, 0.4, 0, 1, alpha=0.1)
    assert ((found.p_value < 0.05) == (found.lower > 0)).all()
    assert ((found.p_harm < 0.05) == (found.upper < 0)).all()


def test_swapping_the_arms_turns_the_sign():
    rng = np.random.default_rng(1)
    t, y = rng.random(200) < 0.3, rng.random(200)
    one, other = two_arm_sequence(y, t, 0.3, 0, 1), two_arm_sequence(y, ~t, 0.7, 0, 1)
    assert one.estimate == pytest.approx(-other.estimate)
    assert one.lower == pytest.approx(-other.upper)


def test_the_scale_of_outcomes_is_only_a_scale():
    rng = np.random.default_rng(1)
    t, y = rng.random(200) < 0.5, rng.random(200)
    one = two_arm_sequence(y, t, 0.5, 0, 1, variance=0.1)
    other = two_arm_sequence(8 * y - 3, t, 0.5, -3, 5, variance=6.4)
    assert other.lower == pytest.approx(8 * one.lower)
    assert other.p_value == pytest.approx(one.p_value)


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_peeked_at_every_unit_it_is_wrong_no_more_often_than_it_may_be(share):
    rng = np.random.default_rng(0)
    n_wrong = 0
    for _ in range(1_000):
        t = rng.random(300) < share
        y = (rng.random(300) < 0.3).astype(float)
        found = two_arm_sequence(y, t, share, 0, 1, tuned_at=150, variance=0.21)
        n_wrong += found.excludes_zero
    assert n_wrong <= 65


def world(rng, n=4_000, effect=0.0):
    t = rng.random(n) < 0.5
    return t, (rng.random(n) < 0.3 + effect * t).astype(float)


def lost(rng, t, y, treated, control, *, failures_only=True):
    """Outcomes with some missing: of failures, or of all, at a rate per arm."""
    rate = np.where(t, treated, control) * (~(y > 0) if failures_only else 1)
    return np.where(rng.random(len(y)) < rate, np.nan, y)


def compare(y, t):
    return two_arm_with_missing(y, t, 0.5, 0, 1, tuned_at=1_000, variance=0.25)


def test_failures_that_go_missing_in_one_arm_would_prove_an_effect_that_is_none():
    """Rules (b) and (c): the verdict forbids it, and the worst case never falls for it."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(15):
        t, y = world(rng, n=2_500)
        found.append(compare(lost(rng, t, y, 0.4, 0.1), t))
    assert np.mean([one.dropped.excludes_zero for one in found]) >= 0.8
    assert all(one.verdict == "missingness_differs" for one in found)
    assert all("missing more often" in one.reason for one in found)
    assert not any((one.worst_lower > 0).any() or (one.worst_upper < 0).any() for one in found)


def test_missing_at_random_in_both_arms_raises_no_alarm():
    rng = np.random.default_rng(2)
    verdicts = []
    for _ in range(25):
        t, y = world(rng, n=1_000)
        found = compare(lost(rng, t, y, 0.2, 0.2, failures_only=False), t)
        verdicts.append(found.verdict)
        assert not found.dropped.excludes_zero
    assert verdicts.count("missingness_differs") <= 2


def test_a_small_excess_is_told_as_a_shift_before_any_test_finds_it():
    """Rule (d)."""
    rng = np.random.default_rng(3)
    t, y = world(rng)
    found = compare(lost(rng, t, y, 0.15, 0.10), t)
    assert found.shift == pytest.approx(abs(found.missing_treated - found.missing_control))
    assert 0.01 < found.shift < 0.06
    assert "treatment" in found.reason


def test_a_missing_outcome_is_not_a_zero():
    rng = np.random.default_rng(4)
    t, y = world(rng)
    gone = lost(rng, t, y, 0.3, 0.05, failures_only=False)
    as_zero = two_arm_sequence(np.nan_to_num(gone), t, 0.5, 0, 1)
    assert as_zero.excludes_zero, "counted as 0 the test proves an effect that is none"
    assert not compare(gone, t).dropped.excludes_zero


def test_success_within_the_window_is_a_complete_outcome():
    """Rule (f): nothing is missing, so the plain comparison answers that question."""
    rng = np.random.default_rng(5)
    t, y = world(rng, n=500)
    found = compare(y, t)
    assert (found.verdict, found.reason, found.shift) == ("complete", None, 0.0)
    assert found.worst_case == found.dropped.interval


def test_rows_of_a_sticky_unit_are_fed_as_one():
    rng = np.random.default_rng(6)
    wrong = {"rows": 0, "units": 0}
    for _ in range(40):
        arm = rng.random(60) < 0.5
        level = np.clip(rng.normal(0.4, 0.15, 60), 0, 1)
        units = np.repeat(np.arange(60), 40)
        t, y = arm[units], (rng.random(2_400) < level[units]).astype(float)
        wrong["rows"] += two_arm_sequence(y, t, 0.5, 0, 1, tuned_at=100).excludes_zero
        by_unit = two_arm_sequence(y, t, 0.5, 0, 1, tuned_at=100, units=units)
        assert by_unit.n == 60
        wrong["units"] += by_unit.excludes_zero
    assert wrong["units"] <= 2
    assert wrong["rows"] >= 8


def test_a_unit_with_one_outcome_has_an_outcome():
    found = two_arm_with_missing(
        [1, np.nan, np.nan, 0], [1, 1, 0, 0], 0.5, 0, 1, units=["a", "a", "b", "c"]
    )
    assert (found.n, found.missing_treated, found.missing_control) == (3, 0, 0.5)


def test_without_units_there_is_nothing_to_say():
    found = two_arm_sequence([], [], 0.5, 0, 1)
    assert (found.status, found.interval, found.n) == ("refused", None, 0)
    missing = two_arm_with_missing([], [], 0.5, 0, 1)
    assert (missing.verdict, missing.worst_case, missing.shift) == ("refused", None, None)


def test_an_arm_that_nobody_is_in_has_no_share():
    found = two_arm_with_missing([np.nan, 1], [1, 1], 0.5, 0, 1)
    assert (found.missing_treated, found.missing_control, found.shift) == (0.5, None, None)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"outcome": [0.5, np.nan]}, "outcome, row 2: .*two_arm_with_missing"),
        ({"outcome": [0.5, 1.5]}, "outcome, row 2"),
        ({"treated": [0, 0.5]}, "treated, row 2"),
        ({"share": 0}, "share"),
        ({"share": 1}, "share"),
        ({"hi": 0}, "hi"),
        ({"alpha": 1}, "alpha"),
        ({"tuned_at": 0}, "tuned_at"),
        ({"variance": 0}, "variance"),
        ({"units": ["a", "a"]}, "treated, row 2: expected the arm of the unit"),
    ],
)
def test_numbers_that_mean_nothing_are_errors(more, message):
    arguments = {"outcome": [0.5, 0.5], "treated": [0, 1], "share": 0.5, "lo": 0, "hi": 1} | more
    with pytest.raises(RangeError, match=message):
        two_arm_sequence(**arguments)


def test_both_arrays_describe_the_same_rows():
    with pytest.raises(ShapeMismatchError, match="treated"):
        two_arm_sequence([0.5], [0, 1], 0.5, 0, 1)
