from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from canopy.domain.clock import now
from canopy.domain.decision import Arm, Mode
from canopy.domain.episode import EpisodeKind, Outcome
from canopy.domain.errors import InputError, LogError, NotFoundError, RequestConflictError
from canopy.storage.rows import EvidenceRow, ImportRow, PolicyRow

pytestmark = pytest.mark.integration

MOVE = {
    "champion": "p1",
    "candidate": None,
    "mode": Mode.ON,
    "catalog_hash": "c",
    "actor": "me",
    "reason": "it earned it",
    "action": "promote",
}

NULLABLE = (
    *("request_id", "body_hash", "action", "propensity", "mode", "arm", "arm_share"),
    *("catalog_hash", "feature_hash", "policy_id", "kernel", "floor", "u", "logging"),
    *("logging_digest", "mask", "n_plans", "shadow_plan", "shadow", "policy_version"),
)


def test_a_decision_reads_back_as_it_was_written(database, make_row):
    row = make_row(
        arm=Arm.TREATMENT,
        arm_share=0.1,
        mode=Mode.CANARY,
        reasons=("drawn", "a, b"),
        shadow_plan="x",
        shadow=b"\x00\x01",
        policy_id="p",
        feature_hash="f",
        policy_version="v1",
        keep_prob=0.5,
        unit_id="née ☃",
    )
    with database.unit_of_work("acme") as work:
        assert work.decisions.insert_many([row]) == 1
        assert work.decisions.get(row.decision_id) == row
        assert work.decisions.get(uuid4()) is None
        assert work.decisions.by_request("unknown") is None


def test_missing_stays_missing(database, make_row):
    optional = dict.fromkeys(NULLABLE)
    row = make_row(**optional, reasons=(), context={})
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many([row])
        assert work.decisions.get(row.decision_id) == row


def test_the_same_request_again_changes_nothing(database, make_row):
    row = make_row(request_id="r")
    with database.unit_of_work("acme") as work:
        assert work.decisions.insert_many([row]) == 1
    with database.unit_of_work("acme") as work:
        assert work.decisions.insert_many([make_row(request_id="r")]) == 0
        assert work.decisions.by_request("r") == row
        assert work.decisions.count() == 1


def test_the_same_request_for_another_body_is_a_conflict(database, make_row):
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many([make_row(request_id="r")])
    with (
        pytest.raises(RequestConflictError, match="answered before"),
        database.unit_of_work("acme") as work,
    ):
        work.decisions.insert_many([make_row(request_id="r", body_hash="other")])


def test_a_unit_of_work_that_fails_keeps_nothing(database, make_row):
    row = make_row()
    with pytest.raises(NotFoundError), database.unit_of_work("acme") as work:  # noqa: PT012
        work.decisions.insert_many([row])
        work.catalogs.get("unknown")
    with database.unit_of_work("acme") as work:
        assert work.decisions.count() == 0


def test_a_row_of_another_tenant_is_refused(database, make_row):
    with (
        pytest.raises(InputError, match="one unit of work per tenant"),
        database.unit_of_work("acme") as work,
    ):
        work.decisions.insert_many([make_row(tenant_id="other")])


def test_what_was_not_served_loses_its_propensity(database, make_row):
    row = make_row()
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many([row])
    with database.unit_of_work("other") as work:
        assert not work.decisions.mark_not_served(row.decision_id, "another")
    with database.unit_of_work("acme") as work:
        assert work.decisions.mark_not_served(row.decision_id, "another")
        assert work.decisions.mark_not_served(row.decision_id, "another")
        found = work.decisions.get(row.decision_id)
        assert found == replace(row, propensity=None, served=False)
        assert [one.plan for one in work.decisions.corrections(row.decision_id)] == ["another"]


def test_logged_decisions_are_counted_by_plan(database, make_row):
    rows = [make_row(plan=plan) for plan in ("a", "b", "a")]
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many([*rows, make_row(plan="a", kind=EpisodeKind.SYNTHETIC)])
        counts = work.decisions.count_by_plan(rows[0].discipline)
        assert counts == {"a": 3, "b": 1}
        real = work.decisions.count_by_plan(rows[0].discipline, kinds=[EpisodeKind.REAL])
        assert real == {"a": 2, "b": 1}


def test_the_newest_final_outcome_is_the_reward(database, make_row):
    rows = [make_row(unit_id=f"u{n}", decided_at=now() + timedelta(seconds=n)) for n in range(3)]
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many(rows)
        add = work.outcomes.add
        add(rows[0].decision_id, Outcome("reward", 0.9, at))
        add(rows[0].decision_id, Outcome("reward", 0.1, at + timedelta(days=1)))
        add(rows[0].decision_id, Outcome("reward", 0.7, at + timedelta(days=2), final=False))
        add(rows[0].decision_id, Outcome("clicks", 5.0, at + timedelta(days=3)))
        add(rows[1].decision_id, Outcome("reward", None, at))
        exported = list(work.decisions.export("public_copy"))
        assert [(row.unit_id, row.reward) for row in exported] == [
            ("u0", 0.1),
            ("u1", None),
            ("u2", None),
        ]
        assert [r.reward for r in work.decisions.export("public_copy", metric="clicks")] == [
            5.0,
            None,
            None,
        ]
        assert len(work.outcomes.of(rows[0].decision_id)) == 4


def test_export_gives_the_kinds_and_units_asked_for(database, make_row):
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many([
            make_row(kind=kind, reserved=reserved)
            for kind in EpisodeKind
            for reserved in (True, False)
        ])
        given = list(work.decisions.export("public_copy", kinds=[EpisodeKind.REAL], reserved=False))
        assert [(row.kind, row.reserved) for row in given] == [(EpisodeKind.REAL, False)]
        assert work.decisions.count("public_copy", kinds=[EpisodeKind.IMPORTED]) == 2
        assert work.decisions.count("public_copy", reserved=True) == 3
        assert list(work.decisions.export("another")) == []


def test_an_outcome_sent_twice_is_recorded_once(database, make_row):
    row, outcome = make_row(), Outcome("reward", 0.0, now(), unit="share", window=7.0)
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many([row])
        assert work.outcomes.add(row.decision_id, outcome)
        assert not work.outcomes.add(row.decision_id, outcome)
        (found,) = work.outcomes.of(row.decision_id)
        assert (found.value, found.unit, found.window, found.final) == (0.0, "share", 7.0, True)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Outcome("reward", float("nan"), now()), InputError),
        (Outcome("reward", 1.0, datetime(2026, 1, 1)), InputError),  # noqa: DTZ001 - the fault
    ],
)
def test_an_outcome_that_is_no_measurement_is_refused(database, make_row, outcome, error):
    row = make_row()
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many([row])
        with pytest.raises(error):
            work.outcomes.add(row.decision_id, outcome)


def test_an_outcome_of_somebody_elses_decision_is_refused(database, make_row):
    row = make_row()
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many([row])
    with (
        database.unit_of_work("other") as work,
        pytest.raises(NotFoundError, match="Check the id and the tenant"),
    ):
        work.outcomes.add(row.decision_id, Outcome("reward", 1.0, now()))


def imported(make_row, n_rows, **fields):
    start = datetime(2019, 11, 24, tzinfo=UTC)
    return [
        ImportRow(
            make_row(
                kind=EpisodeKind.IMPORTED,
                request_id=None,
                body_hash=None,
                mode=None,
                decided_at=start + timedelta(days=n),
                **fields,
            ),
            None if n % 3 == 0 else n / n_rows,
        )
        for n in range(n_rows)
    ]


def test_a_log_comes_in_whole_with_its_rewards(database, make_row):
    rows = imported(make_row, 100)
    with database.unit_of_work("acme") as work:
        assert work.decisions.import_rows(iter(rows)) == 100
    with database.unit_of_work("acme") as work:
        exported = list(work.decisions.export("public_copy", kinds=[EpisodeKind.IMPORTED]))
        assert [row.reward for row in exported] == [row.reward for row in rows]
        assert [row.decided_at for row in exported] == [row.decision.decided_at for row in rows]
        assert work.decisions.get(rows[5].decision.decision_id) == rows[5].decision


@pytest.mark.parametrize(
    "fault", ["twice", "known", "propensity", "nan", "action", "tenant", "nul"]
)
def test_a_log_with_one_bad_row_leaves_nothing_behind(database, make_row, fault):
    rows = imported(make_row, 30)
    with database.unit_of_work("acme") as work:
        work.decisions.import_rows(rows[:1])
    rows = rows[1:]
    bad, message = {
        "twice": (rows[3], "row 21, column decision_id .* second time"),
        "known": (imported(make_row, 1)[0], "row 21"),
        "propensity": (_changed(rows[20], propensity=1.5), "row 21: .*propensity"),
        "nan": (replace(rows[20], reward=float("nan")), "row 21: .*finite"),
        "action": (_changed(rows[20], action=2**40), "row 21"),
        "tenant": (_changed(rows[20], tenant_id="other"), "row 21: it belongs"),
        "nul": (_changed(rows[20], plan="a\x00"), "row 21: .*NUL"),
    }[fault]
    if fault == "known":
        with database.unit_of_work("acme") as work:
            (known,) = work.decisions.export("public_copy")
            bad = _changed(rows[20], decision_id=known.decision_id)
    with pytest.raises(LogError, match=message), database.unit_of_work("acme") as work:
        work.decisions.import_rows([*rows[:20], bad, *rows[21:]])
    with database.unit_of_work("acme") as work:
        assert work.decisions.count() == 1


def _changed(row, **fields):
    return replace(row, decision=replace(row.decision, **fields))


def test_an_empty_log_is_no_rows(database):
    with database.unit_of_work("acme") as work:
        assert work.decisions.import_rows([]) == 0


def test_a_catalog_is_stored_once_and_the_own_one_comes_before_the_fleets(database):
    with database.unit_of_work("fleet") as work:
        work.catalogs.put("c1", "copy", "1", "fleet text")
    with database.unit_of_work("acme") as work:
        assert work.catalogs.get("c1").text == "fleet text"
        assert work.catalogs.latest("copy").catalog_hash == "c1"
        work.catalogs.put("c0", "copy", "0", "own text")
        work.catalogs.put("c0", "copy", "0", "ignored")
        assert work.catalogs.latest("copy").text == "own text"
        with pytest.raises(NotFoundError, match="no catalog"):
            work.catalogs.get("c9")
        assert work.catalogs.latest("another") is None


def test_a_policy_is_found_by_the_start_of_its_id(database):
    with database.unit_of_work("fleet") as work:
        for policy_id in ("abc1", "abd2", "a%"):
            work.policies.put(PolicyRow(policy_id, "copy", "c", "f", {"t": 1.5}, b"\x00tar"))
    with database.unit_of_work("acme") as work:
        found = work.policies.get("abc")
        assert found == PolicyRow("abc1", "copy", "c", "f", {"t": 1.5}, b"\x00tar")
        assert work.policies.get("a%").policy_id == "a%"
        for unclear in ("ab", "", "zz", "_b"):
            with pytest.raises(NotFoundError):
                work.policies.get(unclear)
        assert {row.policy_id for row in work.policies.list("copy")} == {"abc1", "abd2", "a%"}
        assert work.policies.list("another") == []


def test_evidence_is_stored_once(database):
    row = EvidenceRow("e1", "p", "backtest", "ok", {"n": 3, "value": None}, now())
    for tenant in ("fleet", "acme", "acme"):
        with database.unit_of_work(tenant) as work:
            work.evidence.put(row)
    with database.unit_of_work("acme") as work:
        assert work.evidence.for_policy("p") == [row]
        assert work.evidence.for_policy("q") == []


def test_a_tenant_falls_back_to_the_fleets_pointer_until_it_has_its_own(database):
    with database.unit_of_work("acme") as work:
        first = work.states.get("copy")
        assert (first.champion, first.mode, first.version) == (None, Mode.OBSERVATION, 0)
    with database.unit_of_work("fleet") as work:
        work.states.transition("copy", **MOVE)
        work.states.transition("mail", **MOVE)
    with database.unit_of_work("acme") as work:
        assert work.states.get("copy").tenant_id == "fleet"
        own = work.states.transition("copy", **MOVE | {"champion": "p2"})
        assert (own.version, own.tenant_id) == (1, "acme")
        assert work.states.get("copy") == own
        assert [(s.discipline, s.champion) for s in work.states.all()] == [
            ("copy", "p2"),
            ("mail", "p1"),
        ]
    with database.unit_of_work("fleet") as work:
        assert work.states.get("copy").champion == "p1"


def test_transitions_are_kept_in_order(database):
    with database.unit_of_work("acme") as work:
        work.states.transition("copy", **MOVE | {"evidence_ids": ["e1", "e2"]})
        work.states.transition("copy", **MOVE | {"champion": None, "action": "rollback"})
        kept = work.states.transitions("copy")
        assert [(t.version, t.champion, t.action) for t in kept] == [
            (1, "p1", "promote"),
            (2, None, "rollback"),
        ]
        assert list(kept[0].evidence_ids) == ["e1", "e2"]


def test_a_pointer_that_moved_meanwhile_is_not_overwritten(database):
    with database.unit_of_work("acme") as work:
        seen = work.states.transition("copy", **MOVE).version
        work.states.transition("copy", **MOVE)
    with (
        pytest.raises(InputError, match="moved it meanwhile"),
        database.unit_of_work("acme") as work,
    ):
        work.states.transition("copy", **MOVE, expected_version=seen)


def test_a_transition_needs_a_reason(database):
    with pytest.raises(InputError, match="Say why"), database.unit_of_work("acme") as work:
        work.states.transition("copy", **MOVE | {"reason": " "})
