"""Promotion over stored evidence: all or nothing, and on the record for ever."""

from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from canopy.domain.decision import Mode
from canopy.domain.errors import InputError, NotFoundError
from canopy.domain.evidence import EvidenceStatus, Gate, Lineage, Tier
from canopy.domain.tenant import FLEET
from eval.gates import shipped_gate
from eval.gathering import gather
from eval.promotion import evidence_row, promote
from policy.artifact import load_artifact
from runtime.registry import register_policy

pytestmark = pytest.mark.integration

CRAFT = "factored-world"


def gathered(database, folder, log=None, tenant=FLEET, discipline=CRAFT, **more):
    register_policy(database, tenant, folder)
    artifact = load_artifact(folder)
    return gather(database, tenant, discipline, artifact, log=log, level=0.95, **more)


def aged(found, *, days):
    evidence = found.evidence
    return replace(
        evidence, inputs="of long ago", created_at=evidence.created_at - timedelta(days=days)
    )


def stored(database, *evidence):
    with database.unit_of_work(FLEET) as work:
        for each in evidence:
            work.evidence.put(evidence_row(each))


def policy_id(folder):
    return load_artifact(folder).policy_id


def state(database, tenant=FLEET, discipline=CRAFT):
    with database.unit_of_work(tenant) as work:
        return work.states.get(discipline), work.states.transitions(discipline)


def raised(database, folder, to=Mode.ON, tenant=FLEET, discipline=CRAFT, **more):
    return promote(
        database, tenant, discipline, policy_id(folder), to,
        **{"actor": "ada", "reason": "it gains"} | more,
    )  # fmt: skip


def test_a_pass_moves_the_pointer_and_writes_down_who_why_and_on_what(database, good, log):
    found = gathered(database, good, log)
    report = raised(database, good)
    pointer, transitions = state(database)
    assert report.passed
    assert (pointer.champion, pointer.candidate, pointer.mode) == (policy_id(good), None, Mode.ON)
    assert pointer.catalog_hash == load_artifact(good).catalog.content_hash
    (written,) = transitions
    assert (written.actor, written.reason, written.action) == ("ada", "it gains", "promote")
    assert sorted(written.evidence_ids) == sorted(g.evidence.evidence_id for g in found)


def test_a_transition_cannot_be_altered_or_removed(database, good, log):
    gathered(database, good, log)
    raised(database, good)
    for harm in ("update policy_transitions set reason = 'x'", "delete from policy_transitions"):
        with pytest.raises(DBAPIError), database.unit_of_work(FLEET) as work:
            work.states._connection.execute(text(harm))
    assert len(state(database)[1]) == 1


def test_a_refusal_changes_nothing(database, bad, log):
    gathered(database, bad, log)
    report = raised(database, bad)
    assert not report.passed
    pointer, transitions = state(database)
    assert (pointer.champion, pointer.version, transitions) == (None, 0, [])


def test_without_evidence_the_report_says_what_is_missing(database, good):
    register_policy(database, FLEET, good)
    report = raised(database, good)
    assert not report.passed
    assert {row.tier for row in report.rows if row.found is None} == {
        Tier.VERIFIERS, Tier.BACKTEST,
    }  # fmt: skip


def test_verifiers_alone_raise_a_candidate_to_observation_and_no_further(database, good):
    gathered(database, good)
    assert not raised(database, good).passed
    assert raised(database, good, Mode.OBSERVATION).passed
    pointer, _ = state(database)
    assert (pointer.champion, pointer.candidate) == (None, policy_id(good))
    assert pointer.mode is Mode.OBSERVATION


def test_a_candidate_does_not_displace_the_champion(database, good, bad, log):
    gathered(database, good, log)
    raised(database, good)
    structure_only = replace(
        shipped_gate(Mode.OBSERVATION),
        requirements=tuple(
            replace(r, bounds=()) for r in shipped_gate(Mode.OBSERVATION).requirements
        ),
    )
    gathered(database, bad)
    assert raised(database, bad, Mode.OBSERVATION, gate=structure_only).passed
    pointer, transitions = state(database)
    assert (pointer.champion, pointer.candidate) == (policy_id(good), policy_id(bad))
    assert [t.version for t in transitions] == [1, 2]


def test_promoting_what_already_serves_writes_nothing_new(database, good, log):
    gathered(database, good, log)
    assert raised(database, good).passed
    assert raised(database, good).passed
    assert len(state(database)[1]) == 1


def test_promotion_never_lowers_a_mode(database, good, log):
    gathered(database, good, log)
    raised(database, good)
    with pytest.raises(InputError, match="never lowers"):
        raised(database, good, Mode.OBSERVATION)


def test_a_policy_trained_on_the_safety_set_is_refused_and_the_overlap_named(
    database, save_policy, tmp_path, log
):
    peeked = save_policy(tmp_path / "peeked", 4.0, Lineage(corpora=frozenset({log.content_hash})))
    gathered(database, peeked, log)
    report = raised(database, peeked)
    assert not report.passed
    assert f"reserve:{log.content_hash}" in " ".join(row.reason for row in report.rows)


def test_the_same_backtest_again_is_read_back_and_another_policy_spends_a_look(
    database, good, bad, log
):
    first = gathered(database, good, log, tiers=[Tier.BACKTEST])[0]
    again = gathered(database, good, log, tiers=[Tier.BACKTEST])[0]
    other = gathered(database, bad, log, tiers=[Tier.BACKTEST])[0]
    assert (first.is_new, again.is_new, other.is_new) == (True, False, True)
    assert again.evidence == first.evidence
    assert again.evidence.evidence_id == first.evidence.evidence_id
    assert (first.evidence.fact("look"), other.evidence.fact("look")) == (1, 2)


def test_a_tenant_promotes_for_itself_and_the_fleet_stays_as_it_is(database, good, log):
    gathered(database, good, log, tenant="acme")
    assert raised(database, good, tenant="acme").passed
    assert state(database, "acme")[0].champion == policy_id(good)
    assert state(database)[0].champion is None
    with pytest.raises(NotFoundError):
        raised(database, good, tenant="other")


def test_evidence_of_one_discipline_does_not_promote_in_another(database, good, log):
    gathered(database, good, log, discipline="checkout")
    assert not raised(database, good).passed
    assert raised(database, good, discipline="checkout").passed
    assert state(database, discipline="checkout")[0].champion == policy_id(good)


def test_the_newest_evidence_decides_in_either_direction(database, good, log):
    found = gathered(database, good, log)
    stored(database, *(aged(each, days=91) for each in found))
    assert raised(database, good).passed
    withdrawn = replace(
        found[1].evidence, margin=None, status=EvidenceStatus.REFUSED, reasons=("no.",),
        created_at=found[1].evidence.created_at + timedelta(seconds=1),
    )  # fmt: skip
    stored(database, withdrawn)
    assert not raised(database, good).passed


def test_stale_evidence_is_refused(database, good, log, fresh_database):
    found = gathered(database, good, log)
    with psycopg.connect(fresh_database.admin) as admin:
        admin.execute("update evidence set created_at = created_at - interval '91 days'")
    report = raised(database, good)
    assert not report.passed
    stale = [row for row in report.rows if row.requirement == "at most 90 days old"]
    assert [row.found for row in stale] == ["91 days"] * len(found)


def test_a_mode_without_a_gate_cannot_be_reached(database, good):
    register_policy(database, FLEET, good)
    with pytest.raises(InputError, match="gates observation, on only"):
        raised(database, good, Mode.CANARY)


def test_a_gate_of_another_mode_is_no_way_in(database, good):
    register_policy(database, FLEET, good)
    with pytest.raises(InputError, match="the gate is one for observation"):
        raised(database, good, gate=shipped_gate(Mode.OBSERVATION))


def test_an_empty_gate_lets_nobody_through(database, good):
    register_policy(database, FLEET, good)
    assert not raised(database, good, gate=Gate(mode=Mode.ON, requirements=())).passed
    assert state(database)[0].champion is None
