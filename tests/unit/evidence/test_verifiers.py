"""The verifiers: structure of a policy, and its golden cases."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from canopy.domain.decision import Reason
from canopy.domain.errors import GateFileError
from canopy.domain.evidence import EvidenceStatus, Tier
from eval.golden import Expectation, GoldenCase, GoldenSet, Share, find_golden
from eval.tiers.verifiers import plans_in, structural_problems, verifier_inputs, verify
from policy.selector import select

AT = datetime(2026, 3, 1, tzinfo=UTC)


def golden(*cases):
    return GoldenSet(discipline="d", version="v1", content_hash="h", cases=cases)


def case(**parts):
    return GoldenCase(**{"id": "c", "because": "b", "context": {}} | parts)


def test_a_sound_policy_fails_no_check_and_meets_the_shipped_golden_set(good_policy):
    found = verify(good_policy, find_golden("factored-world"), at=AT)
    assert found.status is EvidenceStatus.OK
    assert found.tier is Tier.VERIFIERS
    assert (found.fact("failed_checks"), found.reasons) == (0, ())
    assert found.fact("golden_cases") == 15
    assert found.lineage.golden_sets == {"factored-world/v1/cases"}
    assert {fact.name for fact in found.timings} == {"select_p50_us", "select_p99_us"}


def test_a_policy_that_prefers_what_fails_breaks_the_golden_set(bad_policy):
    found = verify(bad_policy, find_golden("factored-world"), at=AT)
    assert found.fact("failed_checks") == 6
    assert "known-truth-1" in " ".join(found.reasons)
    assert "and 1 more" in found.reasons[-1]


def test_a_case_of_another_catalog_version_is_left_out(large_policy):
    found = verify(large_policy, find_golden("factored-world"), at=AT)
    assert found.fact("golden_cases") == 9
    assert found.fact("failed_checks") == 0


def test_without_a_golden_set_the_structure_is_still_checked(good_policy):
    found = verify(good_policy, None, at=AT)
    assert found.fact("golden_set") is None
    assert found.fact("golden_cases") == 0
    assert found.fact("contexts") == 44
    assert "no golden set" in found.reasons[0]


UNMET = {
    "reason": ({"expect": Expectation(reason="no_feasible_plan")}, "expected no_feasible_plan"),
    "plan": (
        {"allowed": ({"f0": "l0"},), "expect": Expectation(plan={"f0": "l1"})},
        "chose f0=l0",
    ),
    "at most": (
        {"expect": Expectation(shares=(Share(plans={"f0": ["l0", "l1", "l2"]}, at_most=0.5),))},
        "expected at most 0.5",
    ),
    "at least": (
        {
            "allowed": ({"f0": "l0"},),
            "expect": Expectation(shares=(Share(plans=["f0=l1,f1=l0,f2=l0"], at_least=0.1),)),
        },
        "expected at least 0.1",
    ),
    "nothing to measure": (
        {"allowed": (), "expect": Expectation(shares=(Share(plans={"f0": "l0"}, at_most=1),))},
        "no distribution",
    ),
}


@pytest.mark.parametrize("unmet", UNMET)
def test_an_expectation_that_is_not_met_is_a_failed_check(good_policy, unmet):
    parts, says = UNMET[unmet]
    found = verify(good_policy, golden(case(**parts)), at=AT)
    assert found.fact("failed_checks") == 1
    assert says in found.reasons[0]


def test_the_same_day_gives_the_same_evidence_and_another_day_fresh_evidence(good_policy):
    again = verify(good_policy, None, at=AT.replace(hour=9))
    first = verify(good_policy, None, at=AT)
    assert again.evidence_id == first.evidence_id
    assert verify(good_policy, None, at=AT.replace(day=2)).evidence_id != first.evidence_id


def test_inputs_change_with_the_golden_set():
    frozen = golden(case())
    assert verifier_inputs("p", None) != verifier_inputs("p", frozen)
    altered = frozen.model_copy(update={"content_hash": "other"})
    assert verifier_inputs("p", altered) != verifier_inputs("p", frozen)


@pytest.mark.parametrize(
    ("group", "n_plans"),
    [
        ({}, 27),
        ({"f0": "l1"}, 9),
        ({"f0": "l1", "f2": ["l0", "l2"]}, 6),
        (["f0=l0,f1=l0,f2=l0"], 1),
        ([], 0),
    ],
)
def test_a_group_means_its_plans(good_policy, group, n_plans):
    assert np.count_nonzero(plans_in(good_policy.catalog, group, "c")) == n_plans


@pytest.mark.parametrize("group", [{"f9": "l0"}, {"f0": "l9"}, ["f0=l0"]])
def test_a_case_that_names_what_the_catalog_lacks_is_an_error_of_the_set(good_policy, group):
    with pytest.raises(GateFileError, match="golden case c"):
        verify(good_policy, golden(case(allowed=(group,))), at=AT)


def drawn(policy, allowed=None):
    return select(
        catalog=policy.catalog, artifact=policy, context={"x0": 1.0}, key="k", allowed=allowed
    )


def with_row(decision, change):
    row = np.array(decision.distribution)
    change(row, np.asarray(decision.mask))
    return replace(decision, distribution=row, propensity=float(row[decision.action]))


def leak(row, mask):
    row[np.flatnonzero(~mask)[0]] = 1e-9


def inflate(row, mask):
    row[mask] *= 1.0001


def starve(row, mask):
    poorest = np.flatnonzero(mask)[np.argmin(row[mask])]
    row[np.argmax(row)] += row[poorest]
    row[poorest] = 0.0


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda d: with_row(d, leak), "infeasible plan has probability"),
        (lambda d: with_row(d, inflate), "probabilities sum to"),
        (lambda d: with_row(d, starve), "less than its floor share"),
        (lambda d: replace(d, action=26), "which is not feasible"),
        (lambda d: replace(d, propensity=0.5), "not the probability of the plan"),
        (
            lambda d: replace(d, distribution=None, reasons=(Reason.NON_FINITE_SCORES,)),
            "non_finite_scores",
        ),
        (lambda d: replace(d, mask=np.zeros(27, bool)), "nothing is feasible"),
    ],
    ids=["leak", "sum", "floor", "plan", "propensity", "scores", "mask"],
)
def test_a_structural_fault_is_found(good_policy, harm, says):
    sound = drawn(good_policy, good_policy.catalog.plan_ids[:20])
    assert list(structural_problems(sound)) == []
    assert says in " ".join(structural_problems(harm(sound)))
