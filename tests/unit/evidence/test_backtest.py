"""The backtest tier, on logs of worlds whose truth is known."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from canopy.domain.decision import Mode
from canopy.domain.episode import is_reserved
from canopy.domain.errors import LogError, RangeError
from canopy.domain.evidence import EvidenceStatus, Lineage, Tier, judge_gate, train_corpus
from canopy.logs import schema
from canopy.logs.tabular import log_of
from eval.gates import gate_for, shipped_gate
from eval.looks import look_number, sketch_of
from eval.tiers.backtest import backtest, reserve_of
from eval.tiers.verifiers import verify

AT = datetime(2026, 3, 1, tzinfo=UTC)
TRAINED = Lineage(corpora=frozenset({train_corpus("elsewhere")}))


def verdict(policy, log, discipline="factored-world"):
    evidence = [verify(policy, None, at=AT), backtest(log, policy, at=AT)]
    gate = gate_for(shipped_gate(Mode.ON), discipline)
    return judge_gate(gate, evidence, TRAINED, policy.policy_id, AT)


def failed(report):
    return {row.requirement for row in report.rows if not row.passed}


def columns_of(log):
    found = {name: log.table.column(name) for name in log.table.column_names}
    return {name: column.to_pylist() for name, column in found.items()}


def changed(log, **columns):
    return log_of(columns_of(log) | columns, log.facts)


def test_a_policy_that_gains_passes_the_shipped_gate(good_policy, small_log):
    report = verdict(good_policy, small_log)
    assert failed(report) == set()
    assert report.passed


def test_the_gain_it_finds_is_true(good_policy, small_log):
    found = backtest(small_log, good_policy, at=AT)
    assert found.margin.tier is Tier.BACKTEST
    assert 0.2 < found.margin.interval.lower < found.margin.estimate < 0.6
    assert found.fact("dr_lower") < found.fact("snips") < found.fact("dr_upper")
    assert found.fact("mean_weight") == pytest.approx(1, abs=0.2)


def test_only_reserved_units_are_read(good_policy, small_log):
    found = backtest(small_log, good_policy, at=AT)
    reserved = [is_reserved(unit) for unit in small_log.column(schema.UNIT_ID)]
    assert found.fact("rows") == found.fact("units") == sum(reserved)
    rewards = np.where(reserved, small_log.column(schema.REWARD), 1.0)
    spoiled = backtest(changed(small_log, reward=rewards), good_policy, at=AT)
    assert spoiled.margin.estimate == found.margin.estimate


def test_the_whole_log_and_its_reserve_are_one_safety_set(good_policy, small_log):
    whole, part = backtest(small_log, good_policy), backtest(reserve_of(small_log), good_policy)
    assert whole.inputs == part.inputs
    assert whole.margin.interval == part.margin.interval


def test_its_lineage_is_the_reserve_and_meets_a_policy_trained_on_the_whole(good_policy, small_log):
    found = backtest(small_log, good_policy, at=AT)
    log_hash = small_log.content_hash
    assert found.lineage.overlap(Lineage(corpora=frozenset({train_corpus(log_hash)}))) == ()
    assert found.lineage.overlap(Lineage(corpora=frozenset({log_hash})))


def test_the_same_inputs_give_the_same_evidence(good_policy, small_log):
    one, again = (backtest(small_log, good_policy, at=AT.replace(day=d)) for d in (1, 2))
    assert one.evidence_id == again.evidence_id


def test_synthetic_rows_are_marked(good_policy, small_log):
    found = backtest(small_log, good_policy, at=AT)
    assert found.fact("log_kind") == "synthetic"
    assert "synthetic" in found.reasons[0]


def test_a_policy_that_loses_is_refused(bad_policy, small_log):
    assert any("superiority" in row for row in failed(verdict(bad_policy, small_log)))


def test_a_policy_far_from_the_log_is_refused_for_want_of_support(large_policy, large_log):
    found = backtest(large_log, large_policy, at=AT)
    assert found.fact("unit_ess") < 30
    assert found.status is EvidenceStatus.REFUSED
    assert found.margin is None
    assert "unit_ess at least 100" in failed(verdict(large_policy, large_log))


def test_another_discipline_is_not_served_on_this_evidence(good_policy, small_log):
    assert failed(verdict(good_policy, small_log, "elsewhere")) == {"discipline is elsewhere"}


def test_a_log_without_whole_distributions_cannot_show_support(good_policy, small_log):
    columns = columns_of(small_log)
    del columns[schema.PROPENSITIES]
    found = backtest(log_of(columns, small_log.facts), good_policy, at=AT)
    assert found.fact("unsupported_mass") is None
    assert found.status is EvidenceStatus.OK


def test_wrong_propensities_are_refused(good_policy, small_log):
    columns = columns_of(small_log)
    del columns[schema.PROPENSITIES]
    columns[schema.PROPENSITY] = [p / 2 for p in columns[schema.PROPENSITY]]
    found = backtest(log_of(columns, small_log.facts), good_policy, at=AT)
    assert found.status is EvidenceStatus.REFUSED
    assert "not 1" in " ".join(found.reasons)


def test_unmeasured_rewards_are_counted_and_left_out(good_policy, small_log):
    rewards = columns_of(small_log)[schema.REWARD]
    rewards[::2] = [None] * len(rewards[::2])
    found = backtest(changed(small_log, reward=rewards), good_policy, at=AT)
    assert found.fact("rows_without_reward") > 0
    assert found.fact("units") == found.fact("rows") - found.fact("rows_without_reward")


def test_a_log_without_any_reward_is_refused_not_an_error(good_policy, small_log):
    found = backtest(changed(small_log, reward=[None] * small_log.n_rows), good_policy, at=AT)
    assert found.status is EvidenceStatus.REFUSED
    assert "neither" in found.reasons[0] or "no reserved row" in found.reasons[0]


def test_a_log_without_a_reserved_unit_is_an_error(good_policy, small_log):
    reserved = np.array([is_reserved(unit) for unit in small_log.column(schema.UNIT_ID)])
    with pytest.raises(LogError, match="no unit of the log is reserved"):
        backtest(small_log.take(~reserved), good_policy)


@pytest.mark.parametrize("wrong", [{"level": 0.4}, {"level": 1.0}, {"look": 0}])
def test_an_impossible_level_or_look_is_an_error(good_policy, small_log, wrong):
    with pytest.raises(RangeError):
        backtest(small_log, good_policy, **wrong)


def test_each_further_look_at_a_safety_set_faces_a_stricter_bound(good_policy, small_log):
    first, second = (backtest(small_log, good_policy, look=k, at=AT) for k in (1, 2))
    assert first.margin.interval.level == pytest.approx(0.975)
    assert second.margin.interval.level == pytest.approx(1 - 0.05 / 6)
    assert second.margin.interval.lower < first.margin.interval.lower
    assert "look 2" in " ".join(second.reasons)


def test_looks_are_counted_over_policies_but_not_over_repetitions(
    good_policy, bad_policy, small_log
):
    one, two = (backtest(small_log, policy, at=AT) for policy in (good_policy, bad_policy))
    reserve = reserve_of(small_log)
    assert look_number(reserve, [one]) == 2
    assert look_number(reserve, [one, one]) == 2
    assert look_number(reserve, [one, two]) == 3


def test_a_log_that_grew_is_still_the_safety_set_that_was_looked_at(good_policy, small_log):
    early = small_log.take(np.arange(small_log.n_rows) < small_log.n_rows * 3 // 4)
    seen = backtest(early, good_policy, at=AT)
    assert look_number(reserve_of(small_log), [seen]) == 2


def test_other_decisions_are_another_safety_set(good_policy, small_log, small_reserve):
    seen = backtest(small_log, good_policy, at=AT)
    renamed = changed(
        small_reserve,
        decision_id=[f"other-{k}" for k in range(small_reserve.n_rows)],
    )
    assert look_number(renamed, [seen]) == 1
    assert set(sketch_of(renamed)).isdisjoint(sketch_of(small_reserve))


def test_verifier_evidence_is_no_look(good_policy, small_log, small_reserve):
    seen = verify(good_policy, None, at=AT)
    fact = backtest(small_log, good_policy, at=AT).facts
    assert look_number(small_reserve, [replace(seen, facts=fact)]) == 1
