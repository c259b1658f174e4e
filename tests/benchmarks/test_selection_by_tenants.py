"""Selections with 10 and with 10,000 tenants, each with a pointer of its own.

Two installations of one HTTP process each, all pointers loaded before; requests go through the
tenants in turn and rounds alternate. A tenant's first selection loads its pointer: that is
measured too, with few and with many tenants loaded.

Budget: the median latency changes by less than 1.3 times.
"""

import statistics
import time
from uuid import uuid4

import httpx
import pytest

from tests.benchmarks.asking import ask, median_of
from tests.benchmarks.policies import DISCIPLINE, N_FEATURES
from tests.benchmarks.serving import served

pytestmark = [pytest.mark.benchmark, pytest.mark.integration]

FEW, MANY = 10, 10_000
ROUNDS, ROUND_S, N_CLIENTS, CHUNK, N_FIRST = 5, 3, 16, 500, 50
PATH = "/v1/selections"


def body(tenant):
    context = {f"x{i}": 0.5 for i in range(N_FEATURES)}
    return {
        "request_id": uuid4().hex,
        "tenant": tenant,
        "discipline": DISCIPLINE,
        "unit_id": "unit",
        "context": context,
    }


def load(client, n_tenants):
    """Have every tenant's pointer loaded."""
    for start in range(0, n_tenants, CHUNK):
        items = [body(f"t{i}") for i in range(start, min(start + CHUNK, n_tenants))]
        answer = client.post(PATH, json={"items": items}, timeout=120)
        assert all("plan" in item for item in answer.json()["items"]), answer.text[:500]


def first_ms(client):
    """Median milliseconds of the first selection of tenants never seen before."""
    took_ms = []
    for _ in range(N_FIRST):
        asked = body(f"new-{uuid4().hex}")
        started_s = time.perf_counter()
        answer = client.post(PATH, json=asked)
        took_ms.append((time.perf_counter() - started_s) * 1e3)
        assert answer.status_code == 200, answer.text
    return statistics.median(took_ms)


@pytest.fixture(scope="module")
def installations():
    """One with few tenants and one with many, their pointers loaded."""
    names = tuple(f"t{i}" for i in range(MANY))
    with served(names[:FEW]) as few, served(names) as many:
        for n_tenants, found in ((FEW, few), (MANY, many)):
            with httpx.Client(base_url=found.address, trust_env=False) as client:
                load(client, n_tenants)
            ask(found, PATH, seconds=1, clients=N_CLIENTS, n_tenants=n_tenants)
        yield {FEW: few, MANY: many}


def test_a_thousand_times_the_tenants_hardly_change_a_selection(installations, record):
    rounds = {FEW: [], MANY: []}
    for _ in range(ROUNDS):
        for n_tenants, found in rounds.items():
            found.append(
                ask(
                    installations[n_tenants],
                    PATH,
                    seconds=ROUND_S,
                    clients=N_CLIENTS,
                    n_tenants=n_tenants,
                )
            )
    few, many = (median_of(found) for found in rounds.values())
    print(f"\n{FEW:,} tenants {few}\n{MANY:,} tenants {many}")
    row = record(
        f"median latency of a selection, {MANY:,} tenants",
        peer=f"{FEW:,} tenants",
        ours=many.p50_ms,
        against=few.p50_ms,
        unit="ms",
        ratio=many.p50_ms / few.p50_ms,
        at_most=1.3,
    )
    assert row.holds, row


def test_a_new_tenants_first_selection_does_not_wait_for_the_others(installations, record):
    took_ms = {}
    for n_tenants, found in installations.items():
        with httpx.Client(base_url=found.address, trust_env=False) as client:
            took_ms[n_tenants] = first_ms(client)
    row = record(
        f"first selection of a new tenant, {MANY:,} others loaded",
        peer=f"{FEW:,} others",
        ours=took_ms[MANY],
        against=took_ms[FEW],
        unit="ms",
        ratio=took_ms[MANY] / took_ms[FEW],
    )
    assert row.ours < 1000
