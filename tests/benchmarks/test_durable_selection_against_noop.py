"""`POST /v1/selections` against a no-op: what durability, a draw and a record cost.

Both routes run in one HTTP process behind the same middleware and the same door, read, validate
and hash the same body and answer one of the same shape; the no-op chooses and stores nothing.
64 clients on kept connections, 256 plans, 32 features, one champion with every pair of 4
factors, fsync and synchronous_commit on. The server has a core to itself, the asking side and
Postgres have the others. Rounds alternate; medians are compared.

Budgets: at least 0.5 of the no-op's throughput; p99 at most 15 ms; a batch of 32 selections
gives at least 1.5 times the decisions per second of single ones.
"""

import pytest

from tests.benchmarks.asking import N_CLIENTS, ask, client_name, median_of
from tests.benchmarks.serving import served

pytestmark = [pytest.mark.benchmark, pytest.mark.integration]

ROUNDS, ROUND_S, BATCH, BATCH_CLIENTS = 5, 3, 32, 8
SELECTIONS, NOOP = "/v1/selections", "/noop"


@pytest.fixture(scope="module")
def installation():
    with served() as found:
        for path in (NOOP, SELECTIONS):
            ask(found, path, seconds=1)
        yield found


def test_a_durable_selection_holds_half_of_a_noops_throughput(installation, record):
    rounds = {NOOP: [], SELECTIONS: []}
    for _ in range(ROUNDS):
        for path, found in rounds.items():
            found.append(ask(installation, path, seconds=ROUND_S))
    noop, durable = (median_of(found) for found in rounds.values())
    print(f"\nasked by {client_name()}\nno-op {noop}\ndurable {durable}")
    throughput = record(
        "durable selections over HTTP",
        peer="a no-op through the same middleware",
        ours=durable.per_s,
        against=noop.per_s,
        unit="/s",
        ratio=durable.per_s / noop.per_s,
        at_least=0.5,
    )
    record(f"their median latency, {N_CLIENTS} clients", ours=durable.p50_ms, unit="ms")
    latency = record(
        f"their p99 latency, {N_CLIENTS} clients, by {client_name()}",
        ours=durable.p99_ms,
        unit="ms",
        at_most=15,
    )
    assert throughput.holds, throughput
    assert latency.holds, latency


def test_a_batch_decides_more_per_second_than_single_requests(installation, record):
    singles, batches = [], []
    for _ in range(3):
        singles.append(ask(installation, SELECTIONS, seconds=ROUND_S))
        batches.append(
            ask(installation, SELECTIONS, seconds=ROUND_S, clients=BATCH_CLIENTS, batch=BATCH)
        )
    single, batched = median_of(singles), median_of(batches)
    print(f"\nsingle {single}\nbatched {batched}")
    row = record(
        f"selections in batches of {BATCH}",
        peer="one per request",
        ours=batched.per_s,
        against=single.per_s,
        unit="/s",
        ratio=batched.per_s / single.per_s,
        at_least=1.5,
    )
    assert row.holds, row
