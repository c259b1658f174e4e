"""Whatever is stopped, pinned or promoted is in force in every process within a second."""

import threading
import time
from datetime import timedelta

import httpx
import numpy as np
import psycopg
import pytest

from canopy.domain.clock import now
from canopy.domain.decision import Mode
from canopy.domain.tenant import FLEET
from policy.artifact import save_artifact
from policy.features import FeatureSchema
from policy.fields import Number
from policy.weights import parameter_shapes
from runtime.registry import register_policy

pytestmark = [pytest.mark.acceptance, pytest.mark.integration]

N_PROCESSES = 4
CRAFT = "public_copy"
GRACE = timedelta(seconds=1)
WATCHED_S = 2.5
"""How long the load runs on after each change: the grace, and what must hold after it."""

PIN = "tone=plain,length=medium"


class Load:
    """One caller per process that asks without a pause until it is told to stop."""

    def __init__(self, servers):
        self.done = threading.Event()
        self.failures = []
        self.threads = [
            threading.Thread(target=self.ask, args=(number, server.address))
            for number, server in enumerate(servers)
        ]

    def ask(self, number, address):
        count = 0
        with httpx.Client(base_url=address, timeout=30, trust_env=False) as client:
            while not self.done.is_set():
                items = [self.item(number, count + n) for n in range(5)]
                count += len(items)
                answer = client.post("/v1/selections", json={"items": items})
                failed = [one for one in answer.json()["items"] if "error" in one]
                self.failures.extend(failed)

    @staticmethod
    def item(number, count):
        return {
            "request_id": f"{number}-{count}",
            "tenant": "acme",
            "discipline": CRAFT,
            "unit_id": f"process-{number}",
            "context": {"budget": count % 7},
        }

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        for thread in self.threads:
            thread.join(60)


@pytest.fixture
def serving(make_process, stored_catalog):
    made = [make_process(f"home-{number}") for number in range(N_PROCESSES)]
    for server in made:
        server.launch()
    for server in made:
        server.await_ready()
    return made


@pytest.fixture
def policy(tmp_path, stored_catalog, database):
    schema = FeatureSchema((Number("budget", 3.0, 2.0),))
    rng = np.random.default_rng(0)
    shapes = parameter_shapes([3, 3], schema.width, pairs=True)
    artifact = save_artifact(
        tmp_path / "policy", catalog=stored_catalog, schema=schema,
        weights={name: rng.normal(size=shape) for name, shape in shapes.items()},
        temperature=1.0, floor=0.1,
        facts={
            "training_run_id": None, "data_hash": None, "objective": None, "reward_spec": None,
            "lineage": {}, "n_rows": None, "synthetic": True,
        },
    )  # fmt: skip
    register_policy(database, FLEET, artifact.folder)
    return artifact


def stop(work, *, is_on):
    work.interventions.set_stop(CRAFT, is_on=is_on, actor="test", reason="a test")


def promote(work, policy):
    work.states.transition(
        CRAFT, champion=policy.policy_id, candidate=None, mode=Mode.ON,
        catalog_hash=policy.catalog.content_hash, actor="test", reason="a test", action="promote",
    )  # fmt: skip


def deafen(admin_dsn, n):
    """End the connections over which so many processes listen."""
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        ended = connection.execute(
            "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity "
            "where query = 'listen canopy_state' and datname = current_database() limit %s) x",
            (n,),
        ).fetchone()
    assert ended == (n,)


def test_no_process_follows_an_old_state_for_more_than_a_second(
    serving, database, policy, fresh_database
):
    changes = [
        ("stopped", "killed", lambda work: stop(work, is_on=True)),
        ("resumed", "doctrine", lambda work: stop(work, is_on=False)),
        ("pinned", "pinned", lambda work: work.interventions.set_pin(
            CRAFT, plan=PIN, actor="test", reason="a test")),
        ("unpinned", "doctrine", lambda work: work.interventions.set_pin(
            CRAFT, plan=None, actor="test", reason="a test")),
        ("promoted", "drawn", lambda work: promote(work, policy)),
        ("stopped again", "killed", lambda work: stop(work, is_on=True)),
    ]  # fmt: skip
    deaf = {"resumed": N_PROCESSES, "stopped again": 2}
    spans = []
    with Load(serving) as load:
        time.sleep(1.0)
        for name, reason, act in changes:
            if name in deaf:
                deafen(fresh_database.admin, deaf[name])
            with database.unit_of_work(FLEET) as work:
                act(work)
            committed_at = now()
            time.sleep(WATCHED_S)
            spans.append((name, reason, committed_at + GRACE, now()))
    assert load.failures == []
    with psycopg.connect(fresh_database.admin) as connection:
        rows = connection.execute(
            "select unit_id, decided_at, reasons[1] from decisions order by decided_at"
        ).fetchall()
    for name, reason, start, end in spans:
        found = [(unit, why) for unit, at, why in rows if start < at < end]
        assert {why for _, why in found} == {reason}, name
        assert len({unit for unit, _ in found}) == N_PROCESSES, name
