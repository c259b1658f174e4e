"""Choosing a hyper-parameter: in any order, from nothing remembered, with all candidates shown."""

from itertools import permutations
from math import inf, nan, sqrt

import numpy as np
import pytest

from canopy.domain.errors import RangeError
from eval.estimators import Candidate, least_error_bound, slope, switch_dr
from eval.intervals import unit_interval

# Widths shrink with the cap; the two tightest caps have left the others' intervals.
CAPS = (
    Candidate(inf, 0.50, 0.20, 0.0),
    Candidate(100, 0.48, 0.15, 0.02),
    Candidate(10, 0.45, 0.08, 0.10),
    Candidate(3, 0.20, 0.03, 0.30),
    Candidate(1, 0.10, 0.01, 0.55),
)


def test_the_narrowest_candidate_that_agrees_with_all_wider_ones_is_chosen():
    found = slope(CAPS)
    assert found.rule == "slope"
    assert found.chosen == CAPS[2]
    assert [j.is_kept for j in found.judged] == [True, True, True, False, False]


def test_a_candidate_is_held_against_its_own_width_and_the_stretched_width_of_the_kept():
    wide, narrow = 0.2, 0.1
    reach = narrow + (sqrt(6) - 1) * wide
    first = Candidate(2, 0.0, wide)
    assert slope([first, Candidate(1, reach - 1e-12, narrow)]).chosen.hyperparameter == 1
    assert slope([first, Candidate(1, reach + 1e-12, narrow)]).chosen.hyperparameter == 2


def test_nothing_is_chosen_beyond_the_first_disagreement():
    # The last one would agree with what was kept; it is not looked at.
    found = slope([Candidate(3, 0.5, 0.1), Candidate(2, 0.0, 0.05), Candidate(1, 0.5, 0.01)])
    assert found.chosen.hyperparameter == 3
    assert [j.criterion is None for j in found.judged] == [False, False, True]


@pytest.mark.parametrize("rule", [slope, least_error_bound])
def test_the_order_of_candidates_does_not_matter(rule):
    expected = rule(CAPS)
    assert all(rule(order) == expected for order in permutations(CAPS))


@pytest.mark.parametrize("rule", [slope, least_error_bound])
def test_ties_go_by_the_hyperparameter_and_not_by_place(rule):
    alike = [Candidate(h, 0.5, 0.1, 0.0) for h in (1, 10, inf)]
    chosen = {rule(order).chosen.hyperparameter for order in permutations(alike)}
    assert chosen == {inf}


@pytest.mark.parametrize("rule", [slope, least_error_bound])
def test_no_candidate_gives_no_choice_and_says_so(rule):
    found = rule([])
    assert (found.chosen, found.judged) == (None, ())
    assert found.reason == "no candidates."


@pytest.mark.parametrize("rule", [slope, least_error_bound])
def test_a_single_candidate_is_chosen_as_it_is(rule):
    found = rule(iter(CAPS[3:4]))
    assert found.chosen == CAPS[3]
    assert found.reason is None


@pytest.mark.parametrize("rule", [slope, least_error_bound])
def test_refused_candidates_are_listed_and_never_chosen(rule):
    refused = Candidate(5, None, 0.0, 0.0)
    found = rule([refused, *CAPS])
    assert found.chosen == rule(CAPS).chosen
    assert found.judged[-1].candidate == refused
    assert found.judged[-1].criterion is None
    alone = rule([refused])
    assert alone.chosen is None
    assert "of 1 candidates none" in alone.reason


def test_both_rules_show_what_they_judged_every_candidate_by():
    by_agreement, by_bound = slope(CAPS), least_error_bound(CAPS)
    assert by_bound.rule == "error-bound"
    # A loose bound on the bias favours cutting little, which agreement does not need.
    assert (by_agreement.chosen.hyperparameter, by_bound.chosen.hyperparameter) == (10, 100)
    for found in (by_agreement, by_bound):
        assert {j.candidate for j in found.judged} == set(CAPS)
    bounds = {j.candidate.hyperparameter: j.criterion for j in by_bound.judged}
    assert bounds == pytest.approx({inf: 0.2, 100: 0.17, 10: 0.18, 3: 0.33, 1: 0.56})


def test_a_candidate_without_a_bias_bound_is_not_judged_by_one():
    found = least_error_bound([Candidate(1, 0.5, 0.0), Candidate(2, 0.5, 0.4, 0.1)])
    assert found.chosen.hyperparameter == 2
    assert found.judged[-1].criterion is None


def switched(rng, *, n, spread, taus=(1, 5, 25, inf)):
    """Candidates on a log whose reward model is wrong by .3 for the target's favourite."""
    w = np.exp(rng.normal(0, spread, n) - spread**2 / 2)
    r, q, m = rng.random(n) < 0.5, np.full(n, 0.2), np.full(n, 0.2)
    found = []
    for tau in taus:
        estimate = switch_dr(r, w, q, m, tau, reward_range=(0, 1))
        half = unit_interval(estimate.contributions, level=0.8)
        found.append(Candidate(tau, estimate.value, half.hi - half.value, estimate.bias_bound))
    return found


def test_a_choice_is_not_remembered_on_the_next_log():
    rng = np.random.default_rng(0)
    mild, wild = switched(rng, n=20_000, spread=0.8), switched(rng, n=300, spread=2.5)
    alone = slope(wild)
    slope(mild)
    assert slope(wild) == alone
    assert slope(mild).chosen != alone.chosen


def test_slope_is_nearly_as_good_as_the_best_candidate_of_a_known_world():
    """Its guarantee: the error is a small multiple of the best candidate's, here under 2.5."""
    rng = np.random.default_rng(1)
    errors, chosen_errors, n_refused = [], [], 0
    for _ in range(1_000):
        candidates = switched(rng, n=500, spread=1.4)
        if any(c.value is None for c in candidates):
            n_refused += 1
            continue
        errors.append([abs(c.value - 0.5) for c in candidates])
        chosen_errors.append(abs(slope(candidates).chosen.value - 0.5))
    assert n_refused < 10
    best, worst = np.mean(errors, axis=0).min(), np.mean(errors, axis=0).max()
    assert np.mean(chosen_errors) < 2.5 * best
    assert np.mean(chosen_errors) < worst


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (Candidate(nan, 0.5, 0.1), "hyperparameter, row 2"),
        (Candidate(1, nan, 0.1), "value, row 2: expected a finite number, or None"),
        (Candidate(1, 0.5, -0.1), "half_width, row 2: .* at least 0, got -0.1"),
        (Candidate(1, 0.5, inf), "half_width, row 2: .* got inf"),
        (Candidate(1, 0.5, nan), "half_width, row 2: .* got nan"),
        (Candidate(1, 0.5, 0.1, -1), "bias_bound, row 2"),
    ],
)
@pytest.mark.parametrize("rule", [slope, least_error_bound])
def test_numbers_that_mean_nothing_raise_and_name_the_candidate(rule, candidate, message):
    with pytest.raises(RangeError, match=message):
        rule([CAPS[0], candidate])
