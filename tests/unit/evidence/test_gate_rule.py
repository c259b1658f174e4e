"""The rule by which a gate reads evidence."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from canopy.domain.decision import Mode
from canopy.domain.errors import RangeError
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
    judge_gate,
    reserve_corpus,
    train_corpus,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TRAINED = Lineage(corpora=frozenset({train_corpus("log")}))
SEEN = Lineage(corpora=frozenset({reserve_corpus("log")}))
POLICY = "p" * 32


def backtest(lower=0.1, level=0.95, facts=(), **changes):
    margin = Margin(
        tier=Tier.BACKTEST, estimate=0.2, interval=Interval(lower, None, level), n=99, lineage=SEEN
    )
    found = Evidence(
        tier=Tier.BACKTEST, policy_id=POLICY, status=EvidenceStatus.OK, margin=margin,
        facts=tuple(Fact(*f) for f in {"unit_ess": 210.0, **dict(facts)}.items()), reasons=(),
        lineage=SEEN, inputs="i", created_at=NOW - DAY,
    )  # fmt: skip
    return replace(found, **changes)


def verifiers(failed=0, **changes):
    found = Evidence(
        tier=Tier.VERIFIERS, policy_id=POLICY, status=EvidenceStatus.OK, margin=None,
        facts=(Fact("failed_checks", failed),), reasons=(),
        lineage=Lineage(verifiers=frozenset({"structure"})), inputs="v", created_at=NOW - DAY,
    )  # fmt: skip
    return replace(found, **changes)


BACKTEST = GateRequirement(
    tier=Tier.BACKTEST, max_age=30 * DAY, level=0.95,
    bounds=(FactBound(fact="unit_ess", at_least=100, remedy="log more."),),
)  # fmt: skip
VERIFIERS = GateRequirement(
    tier=Tier.VERIFIERS, max_age=30 * DAY, bounds=(FactBound(fact="failed_checks", at_most=0),)
)
GATE = Gate(mode=Mode.ON, requirements=(VERIFIERS, BACKTEST))


def judged(*evidence, gate=GATE, training=TRAINED, **more):
    return judge_gate(gate, evidence, training, POLICY, NOW, **more)


def reasons(report):
    return " ".join(row.reason for row in report.rows if not row.passed)


def test_all_that_is_asked_and_shown_passes():
    report = judged(verifiers(), backtest())
    assert report.passed
    assert report.evidence_ids == (verifiers().evidence_id, backtest().evidence_id)


REFUSALS = {
    "nothing at all": ((), "canopy policy evidence"),
    "a tier is missing": ((verifiers(),), "none is stored"),
    "another policy's": ((verifiers(), backtest(policy_id="q" * 32)), "none is stored"),
    "refused": (
        (verifiers(), backtest(status=EvidenceStatus.REFUSED, reasons=("too thin.",))),
        "too thin",
    ),
    "stale": ((verifiers(), backtest(created_at=NOW - 31 * DAY)), "gather it anew"),
    "of tomorrow": ((verifiers(), backtest(created_at=NOW + DAY)), "check the clocks"),
    "no gain": ((verifiers(), backtest(lower=0.0)), "no gain is shown"),
    "a lower level": ((verifiers(), backtest(level=0.9)), "level is lower"),
    "no bound": ((verifiers(), backtest(margin=None)), "no lower bound"),
    "thin support": ((verifiers(), backtest(facts={"unit_ess": 20.0})), "log more"),
    "unmeasured support": (
        (verifiers(), backtest(facts={"unit_ess": None})),
        "not measured. log more",
    ),
    "a failed check": ((verifiers(failed=1), backtest()), ""),
    "no lineage": (
        (verifiers(lineage=Lineage()), backtest()),
        "does not say what touched it",
    ),
    "superseded": (
        (verifiers(), backtest(), backtest(lower=-0.1, created_at=NOW)),
        "no gain is shown",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_gate_refuses(case):
    evidence, says = REFUSALS[case]
    report = judged(*evidence)
    assert not report.passed
    assert says in reasons(report)


def test_overlap_with_training_is_refused_and_named():
    report = judged(verifiers(), backtest(), training=TRAINED | SEEN)
    assert not report.passed
    assert "reserve:log" in reasons(report)


def test_the_lineage_of_the_margin_counts_too():
    report = judged(
        verifiers(), backtest(lineage=Lineage(judges=frozenset({"j"}))), training=TRAINED | SEEN
    )
    assert "reserve:log" in reasons(report)


@pytest.mark.parametrize("training", [None, Lineage()])
def test_a_policy_of_unknown_training_is_refused(training):
    report = judged(verifiers(), backtest(), training=training)
    assert not report.passed
    assert "what it was trained on" in reasons(report)


def test_evidence_of_other_inputs_than_todays_is_refused():
    assert judged(verifiers(), backtest(), inputs={Tier.VERIFIERS: "v"}).passed
    report = judged(verifiers(), backtest(), inputs={Tier.VERIFIERS: "w"})
    assert "has changed since" in reasons(report)


def test_non_inferiority_allows_the_stated_loss_and_no_more():
    lenient = replace(GATE, requirements=(VERIFIERS, replace(BACKTEST, allowed_loss=0.05)))
    assert judged(verifiers(), backtest(lower=-0.04), gate=lenient).passed
    assert not judged(verifiers(), backtest(lower=-0.05), gate=lenient).passed
    assert not judged(verifiers(), backtest(lower=-0.04)).passed


def test_a_gate_that_demands_nothing_passes_nobody():
    assert not judged(verifiers(), backtest(), gate=Gate(mode=Mode.ON, requirements=())).passed


@pytest.mark.parametrize(
    ("bound", "holds", "fails"),
    [
        (FactBound(fact="x", at_least=2), (2, 3.5), (1.9, "3", None)),
        (FactBound(fact="x", at_most=2), (2, -1.0), (2.1, "1", None)),
        (FactBound(fact="x", at_least=1, at_most=2), (1, 2), (0, 3, None)),
        (FactBound(fact="x", equals=True), (True,), (False, None, "true")),
        (FactBound(fact="x", equals="a"), ("a",), ("b", None)),
    ],
)
def test_a_limit_on_a_fact(bound, holds, fails):
    assert all(bound.holds(value) for value in holds)
    assert not any(bound.holds(value) for value in fails)
    assert bound.words.startswith("x ")


def test_a_report_is_a_document():
    document = judged(verifiers(), backtest(lower=-1.0)).document()
    assert document["passed"] is False
    assert {"tier", "requirement", "found", "passed", "reason"} == set(document["rows"][0])


def test_evidence_is_identified_by_its_content_not_its_clock():
    later = backtest(created_at=NOW, timings=(Fact("seconds", 3.0),))
    assert later.evidence_id == backtest().evidence_id
    assert backtest(lower=0.2).evidence_id != backtest().evidence_id


def test_evidence_survives_its_document():
    found = backtest(facts={"b": "x", "a": None}, timings=(Fact("p99_us", 1.5),))
    assert Evidence.from_document(found.document(), found.created_at) == found


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: verifiers(margin=backtest().margin), TypeError, "backtest margin"),
        (lambda: verifiers(status=EvidenceStatus.REFUSED), TypeError, "say why"),
        (lambda: verifiers(created_at=datetime(2026, 1, 1)), TypeError, "aware"),  # noqa: DTZ001
        (lambda: Fact("x", float("inf")), RangeError, "finite"),
    ],
)
def test_malformed_evidence_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()
