"""The paired gain: right value, right error, and a refusal where its bound would lie."""

import numpy as np
import pytest

from eval.looks import look_number, split_level
from eval.paired_gain import paired_gain


def log(rng, n, *, target, logging=(0.6, 0.3, 0.1), value=(0.3, 0.3, 0.3), rows_per_unit=1):
    """Rows of a context-free logger: reward, weight, unit."""
    logging, target, value = (np.asarray(v, float) for v in (logging, target, value))
    action = rng.choice(len(logging), n, p=logging)
    reward = (rng.random(n) < value[action]).astype(float)
    return reward, (target / logging)[action], np.arange(n) // rows_per_unit


def test_the_gain_is_the_mean_of_the_paired_rows():
    reward, weight, units = log(np.random.default_rng(1), 500, target=(0.1, 0.3, 0.6))
    gain = paired_gain(reward, weight, units, level=0.95)
    assert gain.estimate == pytest.approx(((weight - 1) * reward).mean())
    assert gain.n_units == 500


def test_the_bound_is_the_textbook_t_bound_where_each_row_is_a_unit():
    from scipy.stats import t

    reward, weight, units = log(np.random.default_rng(2), 400, target=(0.1, 0.3, 0.6))
    gain = paired_gain(reward, weight, units, level=0.95)
    x = (weight - 1) * reward
    half = t.ppf(0.95, 399) * x.std(ddof=1) / np.sqrt(400)
    assert gain.lower == pytest.approx(x.mean() - half)


def test_rewards_count_from_the_least_possible_one():
    reward, weight, units = log(np.random.default_rng(3), 400, target=(0.1, 0.3, 0.6))
    plain = paired_gain(reward, weight, units, level=0.9)
    shifted = paired_gain(reward - 1, weight, units, level=0.9, reward_min=-1.0)
    assert shifted == plain


def test_rows_that_were_kept_rarely_count_for_more():
    rng = np.random.default_rng(4)
    reward, weight, units = log(rng, 60_000, target=(0.1, 0.3, 0.6), value=(0.1, 0.5, 0.8))
    keep = np.where(reward > 0, 1.0, 0.25)
    kept = rng.random(len(reward)) < keep
    gain = paired_gain(
        reward[kept], (weight / keep)[kept], units[kept], level=0.95, keep_prob=keep[kept]
    )
    truth = np.dot((0.1, 0.5, 0.8), np.array((0.1, 0.3, 0.6)) - (0.6, 0.3, 0.1))
    assert gain.estimate == pytest.approx(truth, abs=0.03)


def test_a_policy_that_is_the_logging_policy_has_gain_zero_and_bound_zero():
    reward, weight, units = log(np.random.default_rng(5), 300, target=(0.6, 0.3, 0.1))
    gain = paired_gain(reward, weight, units, level=0.95)
    assert gain.estimate == pytest.approx(0, abs=1e-12)
    assert gain.lower == pytest.approx(0, abs=1e-12)
    assert gain.skew is None


def test_gains_skewed_to_the_left_give_no_bound():
    rng = np.random.default_rng(6)
    weight = np.where(rng.random(600) < 0.9, 1.1, 0.1)
    gain = paired_gain(np.ones(600), weight, np.arange(600), level=0.95)
    assert gain.lower is None
    assert "skewed to the left" in gain.refusal


def test_few_units_give_no_bound():
    reward, weight, units = log(
        np.random.default_rng(7), 290, target=(0.1, 0.3, 0.6), rows_per_unit=10
    )
    gain = paired_gain(reward, weight, units, level=0.95)
    assert gain.lower is None
    assert "29 units are too few" in gain.refusal


def test_a_policy_without_a_gain_is_passed_in_at_most_one_run_in_twenty():
    rng = np.random.default_rng(8)
    runs = 2_000
    wrong = 0
    for _ in range(runs):
        rows = log(rng, 400, target=(0.2, 0.5, 0.3))
        lower = paired_gain(*rows, level=0.95).lower
        wrong += lower is not None and lower > 0
    # Standard error .005: right-skewed gains stay well below the allowed .05.
    assert wrong / runs <= 0.05


def test_rows_of_one_unit_do_not_pass_for_independent_ones():
    rng = np.random.default_rng(9)
    runs, wrong = 400, 0
    for _ in range(runs):
        # A unit keeps its plan, its weight and its luck for all of its ten rows.
        reward, weight, _ = log(rng, 100, target=(0.2, 0.5, 0.3))
        rows = [np.repeat(part, 10) for part in (reward, weight, np.arange(100))]
        lower = paired_gain(*rows, level=0.95).lower
        wrong += lower is not None and lower > 0
    assert wrong / runs <= 0.05


def test_a_clear_gain_is_found():
    reward, weight, units = log(
        np.random.default_rng(10), 2_000, target=(0.1, 0.3, 0.6), value=(0.1, 0.3, 0.8)
    )
    assert paired_gain(reward, weight, units, level=0.975).lower > 0.15


def test_however_many_looks_follow_the_allowed_error_is_not_exceeded():
    errors = [1 - split_level(0.95, look) for look in range(1, 500)]
    assert sum(errors) <= 0.05
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("earlier", [[], ()])
def test_the_first_look_is_the_first(earlier, small_reserve):
    assert look_number(small_reserve, earlier) == 1
