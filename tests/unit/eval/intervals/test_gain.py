"""The gain over the logging policy: golden terms, validity, power and looks at a safety set."""

import numpy as np
import pytest

from canopy.domain.errors import RangeError
from eval.intervals import error_of_look, gain_sequence, improvement_bound
from eval.intervals.gain import gain_rows
from eval.intervals.sequences import log_inverse
from eval.intervals.wagers import wager
from eval.looks import split_level
from tests.unit.eval.intervals.test_off_policy import LOGGING, REWARD, TAKEN, TARGET, WEIGHT

FULL = {"target": TARGET, "logging": LOGGING, "taken": TAKEN}


def test_the_terms_of_the_golden_log_are_known():
    found = gain_rows(REWARD, WEIGHT)
    assert found.gains == pytest.approx((0.4, 0, 0.7, 0.0625, -0.5))
    assert found.gains.mean() == pytest.approx(0.1325)
    assert found.losses == pytest.approx((0, -0.833333, 0.7, 0.1875, 0), abs=1e-6)


@pytest.mark.parametrize(
    ("cap", "gains"),
    [(2, (0.2, 0.416667, 0, -0.0625, -0.25)), (0.5, (0.2, 0.216667, 0.15, -0.0625, -0.35))],
)
def test_the_control_variate_has_its_golden_terms(cap, gains):
    found = gain_rows(REWARD, WEIGHT, control=0.5, cap=cap, **FULL)
    assert found.gains == pytest.approx(gains, abs=1e-6)
    assert (found.gains >= -found.gain_floor).all()


@pytest.mark.parametrize(("bets", "log_wealth"), [("schedule", 6.701683), ("mixture", 8.456479)])
def test_the_wealth_against_no_gain_is_known(bets, log_wealth):
    gains = np.tile(gain_rows(REWARD, WEIGHT).gains, 40)
    logs = wager(bets, (gains + 1) / 2, log_inverse(0.05)).log_wealth(0.5)
    # The largest of the 200 rows: what a test looks at.
    assert logs.max() == pytest.approx(log_wealth, abs=1e-6)


def test_the_last_bound_alone_is_the_last_of_all_bounds():
    gains = np.tile(gain_rows(REWARD, WEIGHT).gains, 20)
    for bets in ("schedule", "mixture"):
        backed = wager(bets, (gains + 1) / 2, log_inverse(0.05))
        running = backed.running_lower(log_inverse(0.05))
        assert backed.final_lower(log_inverse(0.05)) == pytest.approx(running[-1], abs=1e-9)
    assert wager("mixture", np.zeros(5), 3.0).final_lower(3.0) == 0


def logged(rng, n, gain):
    """Two plans, logged at .5 each; the target takes the better one with .9."""
    taken = (rng.random(n) < 0.5).astype(int)
    rates = np.array([0.4 - gain / 0.8, 0.4 + gain / 0.8])
    reward = (rng.random(n) < rates[taken]).astype(float)
    return reward, np.where(taken == 1, 1.8, 0.2)


@pytest.mark.parametrize("gain", [0.0, -0.02])
def test_a_policy_without_a_gain_rarely_passes(gain):
    rng = np.random.default_rng(0)
    passed = [improvement_bound(*logged(rng, 400, gain)).improves for _ in range(1_000)]
    assert np.mean(passed) <= 0.065


def test_a_policy_with_a_gain_passes_and_its_bound_is_below_the_gain():
    rng = np.random.default_rng(1)
    found = [improvement_bound(*logged(rng, 3_000, 0.1)) for _ in range(20)]
    assert np.mean([one.improves for one in found]) >= 0.9
    assert all(one.lower <= 0.13 for one in found)
    assert all(one.improves == (one.lower > 0) for one in found)
    assert np.mean([one.estimate for one in found]) == pytest.approx(0.1, abs=0.01)


def test_ten_looks_at_one_safety_set_keep_the_error_where_looks_are_numbered():
    rng = np.random.default_rng(2)
    n_promoted = {"numbered": 0, "not": 0}
    for _ in range(200):
        sets = [logged(rng, 200, 0.0) for _ in range(10)]
        n_promoted["not"] += any(improvement_bound(*one, 0.2).improves for one in sets)
        n_promoted["numbered"] += any(
            improvement_bound(*one, 0.2, look=look).improves for look, one in enumerate(sets, 1)
        )
    assert n_promoted["numbered"] <= 0.2 * 200
    assert n_promoted["not"] > 2 * n_promoted["numbered"]


def test_the_errors_of_all_looks_sum_to_the_error_allowed():
    spent = [error_of_look(0.05, look) for look in range(1, 10_000)]
    assert sum(spent) == pytest.approx(0.05, rel=1e-3)
    assert sum(spent) < 0.05
    assert split_level(0.95, 3) == pytest.approx(1 - error_of_look(0.05, 3))
    found = improvement_bound(REWARD, WEIGHT, 0.05, look=2)
    assert found.delta == pytest.approx(0.05 / 6)


def test_the_gain_is_bounded_on_both_sides_at_every_row():
    rng = np.random.default_rng(3)
    reward, weight = logged(rng, 2_000, 0.1)
    found = gain_sequence(reward, weight)
    assert found.interval[0] <= 0.1 <= found.interval[1]
    assert (np.diff(found.lower) >= 0).all()
    with_control = gain_sequence(np.tile(REWARD, 60), np.tile(WEIGHT, 60), control=0.5, target=np.
                                 tile(TARGET, (60, 1)), logging=np.tile(LOGGING, (60, 1)),
                                 taken=np.tile(TAKEN, 60))  # fmt: skip
    assert with_control.interval[0] <= 0.060833 <= with_control.interval[1]


def test_a_missing_reward_is_the_worst_of_each_side():
    reward, weight = np.array([1.0, np.nan, np.nan]), np.array([1.5, 1.5, 0.5])
    found = gain_rows(reward, weight)
    assert found.gains == pytest.approx((0.5, 0.0, -0.5))
    assert found.losses == pytest.approx((0.0, 0.0, -0.5))


def test_rows_of_one_unit_are_fed_as_one():
    rng = np.random.default_rng(4)
    reward, weight = logged(rng, 300, 0.1)
    units = np.repeat(np.arange(30), 10)
    assert improvement_bound(reward, weight, units=units).n_units == 30
    assert gain_sequence(reward, weight, units=units).n == 30


def test_without_rows_nothing_improves():
    found = improvement_bound([], [])
    assert (found.improves, found.lower, found.estimate, found.n_units) == (False, None, None, 0)
    assert "no data" in found.reason
    assert gain_sequence([], []).status == "refused"


def test_a_control_variate_needs_all_plans():
    found = improvement_bound(REWARD, WEIGHT, control=0.5)
    assert (found.improves, found.lower) == (False, None)
    assert "use control = 0" in found.reason


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"delta": 0}, "delta"),
        ({"look": 0}, "look"),
        ({"control": 2}, "control"),
        ({"cap": -1}, "cap"),
        ({"weight": [1, -1, 1, 1, 1]}, "weight, row 2"),
        ({"reward": [1, 2, 0, 0, 0]}, "reward, row 2"),
    ],
)
def test_numbers_that_mean_nothing_are_errors(more, message):
    with pytest.raises(RangeError, match=message):
        improvement_bound(**({"reward": REWARD, "weight": WEIGHT} | more))
