"""A breaker opens after enough failures in a row, tries again, and never for ever."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from runtime.breaker import (
    FAILURES_TO_OPEN,
    FIRST_PAUSE_S,
    IDLE_S,
    LONGEST_PAUSE_S,
    TRIAL_S,
    Breakers,
    Circuit,
    admit,
    settle,
)


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def opened(now_s=0.0):
    circuit = Circuit()
    for _ in range(FAILURES_TO_OPEN):
        circuit = settle(circuit, now_s, failed=True)
    return circuit


def test_it_opens_only_after_enough_failures_in_a_row():
    circuit = Circuit()
    for _ in range(FAILURES_TO_OPEN - 1):
        circuit = settle(circuit, 0.0, failed=True)
    assert admit(circuit, 0.0)[0]
    circuit = settle(settle(circuit, 0.0, failed=False), 0.0, failed=True)
    assert admit(circuit, 0.0)[0]
    assert not admit(opened(), 0.0)[0]


def test_one_trial_at_a_time_after_the_pause():
    circuit = opened()
    assert not admit(circuit, FIRST_PAUSE_S - 0.001)[0]
    admitted, circuit = admit(circuit, FIRST_PAUSE_S)
    assert admitted
    assert not admit(circuit, FIRST_PAUSE_S + 0.001)[0]


def test_a_trial_that_succeeds_closes_it():
    _, circuit = admit(opened(), FIRST_PAUSE_S)
    assert settle(circuit, FIRST_PAUSE_S, failed=False) == Circuit()


def test_each_failed_trial_doubles_the_pause_up_to_a_limit():
    circuit, now_s, pauses = opened(), 0.0, []
    for _ in range(12):
        pauses.append(circuit.opens_until_s - now_s)
        now_s = circuit.opens_until_s
        _, circuit = admit(circuit, now_s)
        circuit = settle(circuit, now_s, failed=True)
    assert pauses[:4] == pytest.approx([5.0, 10.0, 20.0, 40.0])
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE_S)


def test_a_trial_whose_end_nobody_reports_is_made_again():
    _, circuit = admit(opened(), FIRST_PAUSE_S)
    assert not admit(circuit, FIRST_PAUSE_S + TRIAL_S - 0.001)[0]
    assert admit(circuit, FIRST_PAUSE_S + TRIAL_S)[0]


def test_failures_of_what_was_asked_before_it_opened_do_not_lengthen_the_pause():
    circuit = opened()
    late = settle(circuit, 1.0, failed=True)
    assert late.opens_until_s == circuit.opens_until_s
    assert late.pause_s == circuit.pause_s


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 400.0)), max_size=80))
def test_whatever_happens_it_is_tried_again_and_never_open_without_cause(steps):
    clock = Clock()
    breakers = Breakers(clock)
    in_a_row = 0
    for failed, passed_s in steps:
        clock.now_s += passed_s
        if breakers.admits("policy"):
            in_a_row = in_a_row + 1 if failed else 0
            breakers.settle("policy", failed=failed)
        else:
            assert in_a_row >= FAILURES_TO_OPEN
    clock.now_s += LONGEST_PAUSE_S + TRIAL_S
    assert breakers.admits("policy")
    breakers.settle("policy", failed=False)
    assert breakers.is_calm


def test_breakers_are_apart():
    breakers = Breakers(Clock())
    for _ in range(FAILURES_TO_OPEN):
        breakers.settle("one", failed=True)
    assert not breakers.admits("one")
    assert breakers.admits("other")
    assert breakers.n_open() == 1


def test_a_breaker_that_nobody_asks_is_forgotten():
    clock = Clock()
    breakers = Breakers(clock)
    for _ in range(FAILURES_TO_OPEN):
        breakers.settle("retired", failed=True)
    clock.now_s = IDLE_S
    assert breakers.n_open() == 1
    clock.now_s = IDLE_S + 0.001
    assert breakers.n_open() == 0
    assert breakers.is_calm


STEP = st.tuples(st.sampled_from(["ask", "failed", "succeeded"]), st.floats(0.0, 20.0))


@given(st.lists(STEP, max_size=120))
def test_an_open_circuit_lets_one_trial_through_at_a_time(steps):
    clock = Clock()
    breakers = Breakers(clock)
    for _ in range(FAILURES_TO_OPEN):
        breakers.settle("policy", failed=True)
    trial_s = None
    for what, passed_s in steps:
        clock.now_s += passed_s
        if what == "ask":
            if breakers.admits("policy") and not breakers.is_calm:
                assert trial_s is None or clock.now_s >= trial_s + TRIAL_S
                trial_s = clock.now_s
        elif trial_s is not None:
            breakers.settle("policy", failed=what == "failed")
            trial_s = None
        if breakers.is_calm:
            break
