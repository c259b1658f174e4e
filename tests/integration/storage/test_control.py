"""Stops, pins, keys and canaries as they are kept, and how processes learn of a change."""

import json
from datetime import timedelta

import psycopg
import pytest

from canopy.domain.access import Scope, key_id_of, token_digest
from canopy.domain.clock import now
from canopy.domain.decision import Mode
from canopy.domain.errors import InputError, NotFoundError
from canopy.domain.intervention import EVERY_DISCIPLINE, InterventionKind
from canopy.storage.states import STATE_CHANNEL

pytestmark = pytest.mark.integration

TRANSITION = {
    "champion": None,
    "catalog_hash": "c",
    "actor": "me",
    "reason": "because",
    "action": "mode",
}


def stop(work, discipline, *, is_on=True):
    return work.interventions.set_stop(discipline, is_on=is_on, actor="me", reason="because")


def pin(work, plan):
    return work.interventions.set_pin("copy", plan=plan, actor="me", reason="because")


def test_a_stop_stands_until_it_is_taken_back(database):
    with database.unit_of_work("acme") as work:
        assert stop(work, "copy").version == 1
        assert [row.kind for row in work.interventions.standing()] == [InterventionKind.STOP]
        assert stop(work, "copy", is_on=False).version == 2
        assert work.interventions.standing() == []
        assert [row.is_on for row in work.interventions.history()] == [True, False]


def test_setting_what_stands_already_changes_nothing(database):
    with database.unit_of_work("acme") as work:
        first = stop(work, "copy")
        assert stop(work, "copy") == first
        assert pin(work, "a").version == 1
        assert pin(work, "b").version == 2
        assert len(work.interventions.history("copy")) == 3


def test_taking_back_what_was_never_set_leaves_a_row_that_stands_for_nothing(database):
    with database.unit_of_work("acme") as work:
        assert not stop(work, "copy", is_on=False).is_on
        assert work.interventions.standing() == []


def test_a_tenant_sees_its_own_and_the_fleets_interventions(database):
    for tenant in ("acme", "fleet", "other"):
        with database.unit_of_work(tenant) as work:
            stop(work, EVERY_DISCIPLINE)
    with database.unit_of_work("acme") as work:
        assert [row.tenant_id for row in work.interventions.standing()] == ["acme", "fleet"]


def test_a_pin_names_its_discipline_and_every_change_its_reason(database):
    with database.unit_of_work("acme") as work:
        with pytest.raises(InputError, match="name it"):
            work.interventions.set_pin(EVERY_DISCIPLINE, plan="a", actor="me", reason="because")
        with pytest.raises(InputError, match="reason is blank"):
            work.interventions.set_stop("copy", is_on=True, actor="me", reason=" ")


def test_a_key_is_found_by_what_its_token_hashes_to(database):
    with database.unit_of_work("acme") as work:
        made = work.keys.create("app", [Scope.SELECT, Scope.READ], rate_per_s=5.0, actor="me")
    digest = token_digest(made.token)
    permit = database.find_permit(digest)
    assert (permit.tenant_id, permit.key_id, permit.rate_per_s) == ("acme", key_id_of(digest), 5.0)
    assert permit.scopes == {Scope.SELECT, Scope.READ}
    assert permit.is_valid(now())
    assert database.find_permit(token_digest(made.token + "x")) is None


def test_no_table_holds_a_token(database, fresh_database):
    with database.unit_of_work("acme") as work:
        made = work.keys.create("app", [Scope.SELECT], actor="me")
    with psycopg.connect(fresh_database.admin) as connection:
        (kept,) = connection.execute("select to_jsonb(t)::text from api_keys t").fetchone()
    assert made.token not in kept
    assert made.token.removeprefix("canopy_") not in kept


def test_a_revoked_key_stays_revoked(database, fresh_database):
    with database.unit_of_work("acme") as work:
        made = work.keys.create("app", [Scope.SELECT], actor="me")
        revoked = work.keys.revoke(made.row.key_id, actor="you", reason="it leaked")
        again = work.keys.revoke(made.row.key_id, actor="me", reason="again")
    assert revoked == again
    assert revoked.revoked_because == "it leaked"
    assert not database.find_permit(token_digest(made.token)).is_valid(now())
    with (
        psycopg.connect(fresh_database.admin) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="for good"),
    ):
        connection.execute("update api_keys set revoked_at = null")


def test_an_expired_key_is_not_valid(database):
    with database.unit_of_work("acme") as work:
        ends = now() + timedelta(hours=1)
        made = work.keys.create("app", [Scope.SELECT], expires_at=ends, actor="me")
    permit = database.find_permit(token_digest(made.token))
    assert permit.is_valid(ends - timedelta(seconds=1))
    assert not permit.is_valid(ends)


def test_keys_of_another_tenant_are_neither_listed_nor_revoked(database):
    with database.unit_of_work("acme") as work:
        made = work.keys.create("app", [Scope.SELECT], actor="me")
        assert work.keys.list() == [made.row]
    with database.unit_of_work("other") as work:
        assert work.keys.list() == []
        with pytest.raises(NotFoundError, match="canopy key list"):
            work.keys.revoke(made.row.key_id, actor="me", reason="because")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": " "}, "lacks a name"),
        ({"scopes": []}, "lacks a name or a scope"),
        ({"rate_per_s": 0.0}, "positive"),
        ({"rate_per_s": float("inf")}, "positive"),
        ({"expires_at": now().replace(tzinfo=None)}, "aware"),
    ],
    ids=["name", "scopes", "zero", "infinite", "naive"],
)
def test_a_key_that_makes_no_sense_is_refused(database, change, message):
    wanted = {"name": "app", "scopes": [Scope.SELECT], "actor": "me"} | change
    name, scopes = wanted.pop("name"), wanted.pop("scopes")
    with database.unit_of_work("acme") as work, pytest.raises(InputError, match=message):
        work.keys.create(name, scopes, **wanted)


def test_whoever_changes_something_is_found_by_the_sweep(database):
    with database.unit_of_work("acme") as work:
        start = work.changes.since(None)
    assert start.changed_at == {}
    acts = {
        "stopped": lambda work: stop(work, "copy"),
        "keyed": lambda work: work.keys.create("app", [Scope.SELECT], actor="me"),
        "listed": lambda work: work.catalogs.put("c", "copy", "1", "text"),
        "moved": lambda work: work.states.transition(
            "copy", candidate=None, mode=Mode.ON, **TRANSITION
        ),
    }
    for tenant, act in acts.items():
        with database.unit_of_work(tenant) as work:
            act(work)
    with database.unit_of_work("onlooker") as work:
        seen = work.changes.since(start.read_at)
        assert seen.changed_at.keys() == acts.keys()
        assert max(seen.changed_at.values()) < seen.read_at
        assert work.changes.since(seen.read_at).changed_at == {}


def test_a_change_is_announced_when_it_is_committed_and_not_before(database, fresh_database):
    with psycopg.connect(fresh_database.app, autocommit=True) as listener:
        listener.execute(f"listen {STATE_CHANNEL}")
        with database.unit_of_work("acme") as work:
            stop(work, "copy")
            assert list(listener.notifies(timeout=0.1)) == []
        (notice,) = listener.notifies(timeout=5, stop_after=1)
    assert json.loads(notice.payload) == {"tenant": "acme"}


def test_a_canary_keeps_its_salt_and_share(database):
    with database.unit_of_work("acme") as work:
        made = work.states.transition(
            "copy",
            candidate="p",
            mode=Mode.CANARY,
            canary_salt="first",
            canary_share=0.05,
            **TRANSITION,
        )
        assert work.states.get("copy") == made
        (kept,) = work.states.transitions("copy")
    assert (kept.canary_salt, kept.canary_share) == ("first", 0.05)


@pytest.mark.parametrize(
    ("mode", "candidate", "salt", "share"),
    [
        (Mode.CANARY, "p", None, 0.5),
        (Mode.CANARY, "p", "first", None),
        (Mode.CANARY, "p", "first", 1.5),
        (Mode.CANARY, "p", "first", float("nan")),
        (Mode.OBSERVATION, "p", "first", 0.5),
        (Mode.ON, None, None, 0.5),
    ],
)
def test_a_salt_and_a_share_belong_to_a_canary_and_to_nothing_else(
    database, mode, candidate, salt, share
):
    with database.unit_of_work("acme") as work, pytest.raises(InputError, match="canary"):
        work.states.transition(
            "copy",
            candidate=candidate,
            mode=mode,
            canary_salt=salt,
            canary_share=share,
            **TRANSITION,
        )
