"""A served installation: the application on a real socket, in a thread of its own."""

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import numpy as np
import pytest
import uvicorn

from canopy.domain.decision import Mode
from canopy.domain.tenant import FLEET
from policy.artifact import save_artifact
from policy.catalog import parse_catalog
from policy.features import FeatureSchema
from policy.fields import Category, Number
from policy.weights import parameter_shapes
from runtime.bootstrap import Runtime, open_runtime
from runtime.http.app import build_app
from runtime.registry import register_policy

CRAFT = "public_copy"
CATALOG = """\
discipline: public_copy
version: 1
factors:
  tone:
    levels:
      warm: {doctrine: Speak like a neighbour., weight: 3}
      plain: {doctrine: Say it once., weight: 1}
  length: {levels: [short, medium, long]}
feasibility:
  - mask: {length: long}
    unless: {ge: {budget: 3}}
    because: long texts need a budget of 3
default: tone=warm,length=short
"""
FACTS = {
    "training_run_id": None,
    "data_hash": "0" * 32,
    "objective": "bc",
    "reward_spec": None,
    "lineage": {},
    "n_rows": 100,
    "synthetic": True,
}


@dataclass
class Served:
    """The running application and a client of it."""

    runtime: Runtime
    client: httpx.Client
    address: str

    def select(self, request_id="r-1", **parts):
        return self.client.post("/v1/selections", json=asking(request_id, **parts))


def asking(request_id="r-1", **parts):
    body = {
        "request_id": request_id,
        "tenant": "acme",
        "discipline": CRAFT,
        "unit_id": "customer-1",
        "context": {"budget": 4, "channel": "mail"},
    }
    return body | parts


@pytest.fixture(name="asking")
def asking_fixture():
    return asking


@contextmanager
def running(settings, port=0):
    runtime = open_runtime(settings)
    bound = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        build_app(runtime), loop="uvloop", http="httptools", ws="none",
        access_log=False, log_config=None,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.005)
    address = f"http://127.0.0.1:{bound.getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, timeout=30, trust_env=False) as client:
            yield Served(runtime, client, address)
    finally:
        server.should_exit = True
        thread.join(30)
        bound.close()


@pytest.fixture(name="running")
def running_fixture():
    return running


@pytest.fixture
def catalog(database):
    """The catalog of the craft, stored for the fleet: the doctrine policy can serve."""
    return stored_catalog(database, CATALOG)


@pytest.fixture
def store_catalog(database):
    return lambda text, tenant=FLEET: stored_catalog(database, text, tenant)


def stored_catalog(database, text, tenant=FLEET):
    catalog = parse_catalog(text, "copy.yaml")
    with database.unit_of_work(tenant) as work:
        work.catalogs.put(
            catalog.content_hash, catalog.discipline, catalog.version, catalog.to_yaml()
        )
    return catalog


@pytest.fixture
def served(settings, catalog):
    with running(settings) as found:
        yield found


@pytest.fixture
def make_policy(tmp_path):
    """Saves a policy of the craft with drawn weights."""

    def make(seed=0, text=CATALOG):
        catalog = parse_catalog(text, "copy.yaml")
        schema = FeatureSchema((Number("budget", 4.0, 2.0), Category("channel", ("chat", "mail"))))
        rng = np.random.default_rng(seed)
        shapes = parameter_shapes(
            [len(factor.levels) for factor in catalog.factors], schema.width, pairs=True
        )
        return save_artifact(
            tmp_path / f"policy-{seed}-{catalog.version}", catalog=catalog, schema=schema,
            weights={name: rng.normal(size=shape) for name, shape in shapes.items()},
            temperature=1.0, floor=0.1, facts=FACTS,
        )  # fmt: skip

    return make


@pytest.fixture
def point(database):
    """Registers policies and moves a pointer to them."""

    def move(champion=None, candidate=None, mode=Mode.ON, tenant=FLEET, discipline=CRAFT):
        policies = [policy for policy in (champion, candidate) if policy is not None]
        for policy in policies:
            register_policy(database, tenant, policy.folder)
        with database.unit_of_work(tenant) as work:
            return work.states.transition(
                discipline,
                champion=champion and champion.policy_id,
                candidate=candidate and candidate.policy_id,
                mode=mode,
                catalog_hash=policies[0].catalog.content_hash if policies else None,
                actor="test",
                reason="a test",
                action="promote",
            )

    return move
