"""Pointers reload behind the readers: a transition is in force within a second."""

import time

import psycopg
import pytest

from canopy.domain.decision import Mode
from canopy.domain.tenant import FLEET
from runtime.registry import register_policy

pytestmark = pytest.mark.integration


def await_policy(served, policy_id, within_s, tenant="acme"):
    """Seconds until a fresh request is chosen by the policy."""
    started_s = time.monotonic()
    number = 0
    while time.monotonic() - started_s < within_s:
        number += 1
        answer = served.select(f"{policy_id}-{number}", tenant=tenant).json()
        if answer["versions"]["policy"] == policy_id:
            return time.monotonic() - started_s
        time.sleep(0.01)
    return None


def test_a_promoted_policy_serves_within_a_second_and_a_rollback_too(served, make_policy, point):
    first, second = make_policy(seed=1), make_policy(seed=2)
    point(first)
    assert await_policy(served, first.policy_id, within_s=1) is not None
    point(second)
    assert await_policy(served, second.policy_id, within_s=1) is not None
    point(first)
    assert await_policy(served, first.policy_id, within_s=1) is not None


def test_the_announcement_alone_reloads(settings, catalog, running, make_policy, point):
    with running(settings.model_copy(update={"pointer_poll_s": 3600.0})) as served:
        served.select("warm-up").raise_for_status()
        policy = make_policy(seed=1)
        point(policy)
        assert await_policy(served, policy.policy_id, within_s=1) is not None


def test_the_poll_reloads_where_the_announcement_is_lost(
    settings, catalog, running, make_policy, point, fresh_database
):
    with running(settings.model_copy(update={"pointer_poll_s": 0.1})) as served:
        served.select("warm-up").raise_for_status()
        policy = make_policy(seed=1)
        with psycopg.connect(fresh_database.admin, autocommit=True) as admin:
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where query = 'listen canopy_state' and datname = current_database()"
            )
        point(policy)
        assert await_policy(served, policy.policy_id, within_s=2) is not None


def test_a_tenants_own_pointer_wins_over_the_fleets(served, make_policy, point):
    fleet, own = make_policy(seed=1), make_policy(seed=2)
    point(fleet)
    point(own, tenant="acme")
    served.runtime.pointers.refresh(["acme"])
    assert served.select("a").json()["versions"]["policy"] == own.policy_id
    assert served.select("b", tenant="globex").json()["versions"]["policy"] == fleet.policy_id


def test_a_known_tenant_gets_its_own_pointer_once_it_is_set(served, make_policy, point):
    served.select("warm-up").raise_for_status()
    own = make_policy(seed=2)
    point(own, tenant="acme")
    assert await_policy(served, own.policy_id, within_s=1) is not None
    assert served.select("other", tenant="globex").json()["versions"]["policy"] is None


def test_a_newer_catalog_is_chosen_from_where_no_policy_serves(served, store_catalog):
    served.select("warm-up").raise_for_status()
    newer = store_catalog(
        "discipline: public_copy\nversion: 2\nfactors:\n"
        "  tone: {levels: [warm, cold]}\ndefault: tone=cold\n"
    )
    served.runtime.pointers.sweep()
    answer = served.select("r-2").json()
    assert answer["versions"]["catalog"] == newer.content_hash
    assert answer["plan"] == "tone=cold"


def test_a_champion_that_cannot_be_loaded_serves_the_default_plan(
    served, database, catalog, make_policy, point, fresh_database
):
    policy = make_policy(seed=1)
    # Damaged before the pointer moves: the watch may load it the moment it does.
    register_policy(database, FLEET, policy.folder)
    with psycopg.connect(fresh_database.admin) as admin:
        admin.execute("update policies set archive = substring(archive from 1 for 2000)")
    point(policy)
    served.runtime.pointers.sweep()
    answer = served.select().json()
    assert answer["reasons"] == ["policy_unavailable"]
    assert answer["plan"] == catalog.plan_ids[catalog.default]
    assert answer["propensity"] is None
    assert answer["served"] is False


def test_a_damaged_cache_heals_from_the_record(served, settings, make_policy, point, running):
    policy = make_policy(seed=1)
    point(policy)
    served.runtime.pointers.sweep()
    (folder,) = (settings.home / "cache" / "policies").iterdir()
    weights = folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    with running(settings) as second:
        assert second.select().json()["versions"]["policy"] == policy.policy_id


def test_a_candidate_of_another_catalog_is_not_compared(served, make_policy, point):
    other = make_policy(seed=1, text=OTHER)
    point(make_policy(seed=2), other, Mode.OBSERVATION)
    served.runtime.pointers.sweep()
    answer = served.select().json()
    assert answer["reasons"] == ["drawn", "shadow_failed"]
    found = served.client.get(
        f"/v1/decisions/{answer['decision_id']}", params={"tenant": "acme"}
    ).json()
    assert found["shadow_plan"] is None


OTHER = """\
discipline: public_copy
version: 9
factors:
  tone: {levels: [warm, cold]}
default: tone=cold
"""


def test_many_tenants_cost_one_fleet_pointer(served):
    for number in range(20):
        served.select(f"r-{number}", tenant=f"tenant-{number}").raise_for_status()
    assert served.runtime.pointers.describe() == {
        "pointers": 1, "policies": 0, "catalogs": 1, "tenants": 20,
    }  # fmt: skip
