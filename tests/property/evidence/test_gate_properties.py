"""What must hold of the gate rule for any evidence."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canopy.domain.decision import Mode
from canopy.domain.evidence import (
    Evidence,
    EvidenceStatus,
    Fact,
    FactBound,
    Gate,
    GateRequirement,
    Interval,
    Lineage,
    Margin,
    Tier,
    average,
    judge_gate,
    train_corpus,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TRAINED = Lineage(corpora=frozenset({train_corpus("log")}))
POLICIES = ("p", "q")

names = st.sampled_from(["a", "b", "c", "d"])
lineages = st.builds(
    Lineage,
    judges=st.frozensets(names, max_size=2),
    corpora=st.frozensets(
        st.sampled_from(["reserve:log", "reserve:x", "train:log", "log"]), max_size=2
    ),
    verifiers=st.frozensets(names, max_size=1),
)


@st.composite
def evidence(draw, tier=None):
    tier = tier or draw(st.sampled_from(Tier))
    lineage = draw(lineages)
    margin = None
    if draw(st.booleans()):
        margin = Margin(
            tier=tier,
            estimate=draw(st.floats(-1, 1)),
            interval=Interval(draw(st.floats(-1, 1)), None, draw(st.floats(0.5, 0.999))),
            n=draw(st.integers(1, 1000)),
            lineage=lineage,
        )
    status = draw(st.sampled_from(EvidenceStatus))
    return Evidence(
        tier=tier, policy_id=draw(st.sampled_from(POLICIES)), status=status, margin=margin,
        facts=(Fact("ess", draw(st.none() | st.floats(0, 500))),),
        reasons=("because.",) if status is EvidenceStatus.REFUSED else (), lineage=lineage,
        inputs=draw(names), created_at=NOW - timedelta(days=draw(st.integers(0, 60))),
    )  # fmt: skip


@st.composite
def good_evidence(draw, tier):
    """Evidence that clears `GATE`."""
    found = draw(evidence(tier))
    lineage = Lineage(corpora=frozenset({f"reserve:{draw(names)}"}))
    margin = Margin(
        tier=tier, estimate=0.5, interval=Interval(draw(st.floats(0.01, 0.4)), None, 0.97), n=9,
        lineage=lineage,
    )  # fmt: skip
    return replace(
        found, policy_id="p", status=EvidenceStatus.OK, reasons=(), margin=margin,
        lineage=lineage, facts=(Fact("ess", draw(st.floats(100, 900))),),
        created_at=NOW - timedelta(days=1),
    )  # fmt: skip


def requirement(tier):
    return GateRequirement(
        tier=tier, max_age=timedelta(days=30), level=0.95,
        bounds=(FactBound(fact="ess", at_least=100),),
    )  # fmt: skip


GATE = Gate(mode=Mode.ON, requirements=(requirement(Tier.VERIFIERS), requirement(Tier.BACKTEST)))


def passed(found, gate=GATE, training=TRAINED):
    return judge_gate(gate, found, training, "p", NOW).passed


pair = st.tuples(good_evidence(Tier.VERIFIERS), good_evidence(Tier.BACKTEST))
others = st.lists(evidence(), max_size=4)


@given(pair)
def test_the_good_pair_passes(found):
    assert passed(found)


@given(good_evidence(Tier.BACKTEST), st.lists(evidence(), max_size=5))
def test_no_other_tier_makes_up_for_a_missing_one(found, more):
    rest = [e for e in more if e.tier is not Tier.VERIFIERS]
    assert not passed([found, *rest])


@given(pair, others)
def test_evidence_of_other_policies_and_tiers_changes_nothing(found, more):
    strangers = [e for e in more if e.policy_id != "p" or e.tier in {Tier.HISTORICAL, Tier.CANARY}]
    assert passed([*found, *strangers])


@given(st.lists(evidence(), max_size=6), st.permutations(range(6)))
def test_the_verdict_does_not_depend_on_the_order_of_evidence(found, order):
    shuffled = [found[i] for i in order if i < len(found)]
    assert passed(shuffled) == passed(found)


@given(pair, lineages, st.sampled_from([0, 1]))
def test_any_overlap_with_training_refuses(found, training, which):
    shared = found[which].lineage
    assert not passed(found, training=training | shared)


@given(st.lists(evidence(), max_size=6), st.floats(0.5, 0.999), st.floats(0.5, 0.999))
def test_a_stricter_level_never_lets_more_through(found, one, other):
    low, high = sorted((one, other))

    def at(level):
        return replace(GATE, requirements=tuple(replace(r, level=level) for r in GATE.requirements))

    assert passed(found, gate=at(low)) or not passed(found, gate=at(high))


@given(pair, st.floats(0.01, 0.4))
def test_a_bound_that_holds_less_often_never_turns_a_refusal_into_a_pass(found, drop):
    backtest = found[1]
    margin = backtest.margin
    weaker = replace(
        backtest,
        margin=Margin(
            tier=margin.tier, estimate=margin.estimate, n=margin.n, lineage=margin.lineage,
            interval=margin.interval._replace(level=margin.interval.level - drop - 0.02),
        ),
    )  # fmt: skip
    assert not passed([found[0], weaker])


@given(pair, st.floats(0, 0.9), st.floats(0, 0.9))
def test_a_smaller_allowed_loss_never_lets_more_through(found, one, other):
    less, more = sorted((one, other))

    def allowing(loss):
        return replace(
            GATE, requirements=tuple(replace(r, allowed_loss=loss) for r in GATE.requirements)
        )

    assert passed(found, gate=allowing(more)) or not passed(found, gate=allowing(less))


@given(pair, st.sampled_from([0, 1]), st.integers(0, 100))
def test_waiting_never_turns_a_refusal_into_a_pass(found, which, days):
    aged = list(found)
    aged[which] = replace(found[which], created_at=NOW - timedelta(days=30 + days, seconds=1))
    assert not passed(aged)


@given(st.lists(evidence(), max_size=6))
def test_evidence_survives_its_document_and_keeps_its_identity(found):
    for each in found:
        again = Evidence.from_document(each.document(), each.created_at)
        assert again == each
        assert again.evidence_id == each.evidence_id


@given(evidence(), evidence())
def test_margins_mix_within_a_tier_only(one, other):
    a, b = one.margin, other.margin
    if a is None or b is None:
        return
    if a.tier is b.tier:
        assert (a + b).interval.level <= min(a.interval.level, b.interval.level)
        assert average([a, b]).lineage == a.lineage | b.lineage
    else:
        with pytest.raises(TypeError, match=f"{a.tier} margin and a {b.tier}"):
            average([a, b])


@given(lineages, lineages)
def test_overlap_is_symmetric_and_reflexive(one, other):
    assert one.overlap(other) == other.overlap(one)
    assert bool(one.overlap(one)) == bool(one)
