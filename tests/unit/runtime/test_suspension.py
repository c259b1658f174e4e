"""A policy that fails again and again is left alone, in every tick, and tried again."""

import asyncio

import pytest

from canopy.domain.decision import Mode, Reason
from runtime.breaker import FAILURES_TO_OPEN, FIRST_PAUSE_S, TRIAL_S, Breakers
from runtime.interventions import NOTHING_IMPOSED, Imposed
from runtime.pointers import Pointer
from runtime.selection import Chooser, choice_of
from runtime.telemetry import Metrics

TOO_MUCH = {"budget": 1.7e308}
DRAWN, SUSPENDED = (Reason.DRAWN,), (Reason.POLICY_SUSPENDED,)
FAILED = (Reason.NON_FINITE_SCORES,)
PLAN = "tone=plain,length=short"


class World:
    """A chooser, a clock that is set by hand, and a pointer to one policy."""

    def __init__(self, make_ask, pointer):
        self.make_ask, self.pointer, self.now_s = make_ask, pointer, 0.0
        self.metrics = Metrics()
        self.chooser = Chooser(self.metrics, Breakers(lambda: self.now_s))

    def together(self, *contexts, imposed=NOTHING_IMPOSED):
        """The reasons of choices that are made in one tick."""

        async def choose():
            asked = [self.make_ask(f"r-{n}", context=context) for n, context in enumerate(contexts)]
            return await asyncio.gather(
                *(self.chooser.choose(choice_of(one, self.pointer, imposed)) for one in asked)
            )

        return [decision.reasons for decision in asyncio.run(choose())]

    def one(self, context, imposed=NOTHING_IMPOSED):
        return self.together(context, imposed=imposed)[0]

    def fail(self):
        for _ in range(FAILURES_TO_OPEN):
            self.one(TOO_MUCH)

    def figure(self, name):
        return sum(
            sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == name
        )


@pytest.fixture
def champion(make_ask, catalog, policy):
    return World(make_ask, Pointer("fleet", 1, Mode.ON, catalog, policy, None))


@pytest.fixture
def candidate(make_ask, catalog, policy):
    pointer = Pointer(
        "fleet", 1, Mode.OBSERVATION, catalog, None, policy, candidate_id=policy.policy_id
    )
    return World(make_ask, pointer)


def test_a_failing_policy_is_suspended_and_drawn_from_again_once_it_works(champion):
    champion.fail()
    assert champion.one({"budget": 4}) == SUSPENDED
    assert champion.figure("canopy_policies_suspended") == 1
    assert champion.figure("canopy_policy_failures_total") == FAILURES_TO_OPEN
    champion.now_s = FIRST_PAUSE_S
    assert champion.one({"budget": 4}) == DRAWN
    assert champion.figure("canopy_policies_suspended") == 0


def test_a_half_open_circuit_tries_one_of_a_tick(champion):
    champion.fail()
    champion.now_s = FIRST_PAUSE_S
    assert champion.together(*[{"budget": 4}] * 4) == [DRAWN, SUSPENDED, SUSPENDED, SUSPENDED]
    assert champion.together(*[{"budget": 4}] * 2) == [DRAWN, DRAWN]


def test_failures_between_successes_do_not_suspend(champion):
    for _ in range(3 * FAILURES_TO_OPEN):
        assert champion.together(TOO_MUCH, {"budget": 4}) == [FAILED, DRAWN]


def test_an_imposed_plan_spends_no_trial(champion):
    champion.fail()
    champion.now_s = FIRST_PAUSE_S
    assert champion.one({"budget": 4}, Imposed(pin=PLAN)) == (Reason.PINNED,)
    assert champion.one({"budget": 4}, Imposed(is_stopped=True)) == (Reason.KILLED,)
    assert champion.one({"budget": 4}) == DRAWN


def test_a_wrong_context_is_no_failure_and_its_trial_is_made_again(champion):
    champion.fail()
    champion.now_s = FIRST_PAUSE_S
    with pytest.raises(ValueError, match="budget"):
        champion.one({"budget": "much"})
    assert champion.one({"budget": 4}) == SUSPENDED
    champion.now_s += TRIAL_S
    assert champion.one({"budget": 4}) == DRAWN


def test_a_failing_candidate_is_left_alone_and_what_is_served_stays(candidate):
    candidate.fail()
    both = (Reason.DOCTRINE, Reason.SHADOW_FAILED)
    assert candidate.one({"budget": 4}) == both
    assert candidate.figure("canopy_policy_failures_total") == FAILURES_TO_OPEN
    candidate.now_s = FIRST_PAUSE_S
    assert candidate.one({"budget": 4}) == (Reason.DOCTRINE,)


def test_a_stop_leaves_the_candidate_alone_too(candidate):
    assert candidate.one(TOO_MUCH, Imposed(is_stopped=True)) == (Reason.KILLED,)
    assert candidate.figure("canopy_policy_failures_total") == 0
