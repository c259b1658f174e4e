"""Laws of a canary's arms, for any units, shares and salts."""

from hypothesis import given
from hypothesis import strategies as st

from canopy.domain.decision import Arm
from policy.modes import assign_arm

SHARES = st.one_of(st.sampled_from([0.0, 0.05, 0.2, 0.5, 1.0]), st.floats(0, 1))
SALTS = st.text(alphabet="0123456789abcdef", min_size=1, max_size=16)


@given(st.text(max_size=40), SALTS, st.lists(SHARES, min_size=1, max_size=8).map(sorted))
def test_nobody_in_treatment_leaves_it_while_the_share_grows(unit, salt, shares):
    arms = [assign_arm(unit, salt, share) for share in shares]
    first = arms.index(Arm.TREATMENT) if Arm.TREATMENT in arms else len(arms)
    assert arms[first:] == [Arm.TREATMENT] * (len(arms) - first)


@given(st.text(max_size=40), SALTS)
def test_no_share_treats_nobody_and_the_whole_share_everybody(unit, salt):
    assert assign_arm(unit, salt, 0.0) is Arm.CONTROL
    assert assign_arm(unit, salt, 1.0) is Arm.TREATMENT


@given(st.lists(st.text(max_size=20), max_size=20, unique=True), SALTS, SHARES, SHARES)
def test_a_smaller_share_treats_a_part_of_those_whom_a_larger_one_treats(units, salt, one, other):
    treated = [
        {unit for unit in units if assign_arm(unit, salt, share) is Arm.TREATMENT}
        for share in sorted((one, other))
    ]
    assert treated[0] <= treated[1]
