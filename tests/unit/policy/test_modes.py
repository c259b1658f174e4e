"""Arms that never re-bucket, and the legal changes of a mode."""

import pytest

from canopy.domain.decision import Arm, Mode
from canopy.domain.errors import InputError, RangeError
from policy.modes import TRANSITIONS, Change, assign_arm, transition

UNITS = [f"unit-{number}" for number in range(4000)]


def treated(salt, share):
    return {unit for unit in UNITS if assign_arm(unit, salt, share) is Arm.TREATMENT}


def test_a_ramp_only_moves_units_from_control_to_treatment():
    before = set()
    for share in (0.0, 0.01, 0.05, 0.25, 0.5, 0.9, 1.0):
        now = treated("canary-1", share)
        assert before <= now
        before = now
    assert before == set(UNITS)
    assert treated("canary-1", 0.0) == set()


def test_the_share_of_treatment_is_the_one_asked_for():
    # 4,000 units at .25: four standard deviations are 2.7 points.
    assert abs(len(treated("canary-1", 0.25)) / len(UNITS) - 0.25) < 0.027


def test_canaries_with_other_salts_assign_independently():
    both = len(treated("canary-1", 0.5) & treated("canary-2", 0.5))
    assert abs(both / len(UNITS) - 0.25) < 0.027


def test_an_arm_depends_on_the_unit_alone():
    assert [assign_arm(u, "s", 0.5) for u in UNITS] == [assign_arm(u, "s", 0.5) for u in UNITS]


@pytest.mark.parametrize("share", [-0.01, 1.01, float("nan")])
def test_a_share_outside_its_range_is_refused(share):
    with pytest.raises(RangeError, match="a share from 0 to 1"):
        assign_arm("u", "s", share)


def test_a_salt_longer_than_the_hash_takes_is_refused():
    assign_arm("u", "s" * 64, 0.5)
    with pytest.raises(InputError, match="longer than 64 bytes"):
        assign_arm("u", "s" * 65, 0.5)


LADDER = [None, Mode.OBSERVATION, Mode.CANARY, Mode.ON]


@pytest.mark.parametrize("current", LADDER)
@pytest.mark.parametrize("target", LADDER)
def test_raising_needs_the_gate_and_lowering_a_reason(current, target):
    step = transition(current, target)
    up = LADDER.index(target) - LADDER.index(current)
    assert step.change is (Change.RAISE if up > 0 else Change.LOWER if up < 0 else Change.STAY)
    assert step.gate == (str(target) if up > 0 else None)
    assert step.needs_reason == (up != 0)


def test_the_table_of_transitions_is_whole_and_closed():
    assert len(TRANSITIONS) == 16
    with pytest.raises(TypeError):
        TRANSITIONS[None, None] = None
