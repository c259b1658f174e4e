"""`POST /v1/selections` against a no-op: what durability, a draw and a record cost.

Both routes run in one HTTP process behind the same middleware, read, validate and hash the
same body and answer one of the same shape; the no-op chooses and stores nothing. 64 clients
on kept connections, 256 plans, 32 features, one champion with every pair of 4 factors, fsync
and synchronous_commit on. Rounds alternate; medians are compared.

Budgets: at least 0.5 of the no-op's throughput; p99 at most 15 ms; a batch of 32 selections
gives at least 1.5 times the decisions per second of single ones.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

import numpy as np
import psycopg
import pytest
import uvloop
from fastapi import Request

from canopy.domain.decision import Mode
from canopy.domain.tenant import FLEET
from canopy.settings import Settings
from canopy.storage.database import Database
from canopy.storage.embedded import processes
from canopy.storage.migrate import upgrade
from canopy.storage.servers import ensure_servers, stop_servers
from policy.artifact import save_artifact
from policy.catalog import parse_catalog
from policy.features import FeatureSchema
from policy.fields import Number
from policy.weights import parameter_shapes
from runtime.bootstrap import open_runtime, settle_gc
from runtime.http import selections
from runtime.http.app import build_app
from runtime.http.bodies import read_body
from runtime.http.responses import json_response
from runtime.http.schemas import AnsweredVersions, SelectionAnswer
from runtime.http.server import _bind, _configured, _Server
from runtime.registry import register_policy
from runtime.telemetry import configure_logging

pytestmark = [pytest.mark.benchmark, pytest.mark.integration]

N_CLIENTS, N_FEATURES, ROUNDS, ROUND_S, BATCH = 64, 32, 5, 3.0, 32
SIZES = (4, 4, 4, 4)


# The served side -------------------------------------------------------------------------


def serve(home):
    """Serve the product's application with one more route that does nothing durable."""
    configure_logging()
    bound = _bind("127.0.0.1", 0)

    def on_started():
        settle_gc()
        bound.listen(2048)
        host, port = bound.getsockname()
        processes.register(Path(home), "benchmark", os.getpid(), f"http://{host}:{port}")

    app = build_app(open_runtime(Settings(home=Path(home))), on_started)
    answer = SelectionAnswer.model_construct(
        decision_id=UUID(int=7), plan="f0=l0,f1=l0,f2=l0,f3=l0", propensity=0.0123456789,
        served=True, mode="on", arm=None, reasons=["drawn"],
        versions=AnsweredVersions.model_construct(
            catalog="c" * 32, features="f" * 32, policy="p" * 32, kernel="k" * 16
        ),
    )  # fmt: skip

    @app.post("/noop", response_model=None)
    async def noop(request: Request):
        parsed = selections._shape.read(await read_body(request))
        selections.ask_of(parsed)
        return json_response(selections._dump(answer))

    _Server(_configured(app)).run(sockets=[bound])


def prepare(home):
    settings = Settings(home=home)
    upgrade(settings)
    factors = "".join(
        f"  f{i}: {{levels: [{', '.join(f'l{j}' for j in range(n))}]}}\n"
        for i, n in enumerate(SIZES)
    )
    default = ",".join(f"f{i}=l0" for i in range(len(SIZES)))
    catalog = parse_catalog(
        f"discipline: benchmark\nversion: 1\nfactors:\n{factors}default: {default}\n", "benchmark"
    )
    schema = FeatureSchema(tuple(Number(f"x{i}", 0.0, 1.0) for i in range(N_FEATURES)))
    rng = np.random.default_rng(0)
    shapes = parameter_shapes(list(SIZES), schema.width, pairs=True)
    artifact = save_artifact(
        home / "policy", catalog=catalog, schema=schema,
        weights={name: rng.normal(size=shape) * 0.1 for name, shape in shapes.items()},
        temperature=1.0, floor=0.05,
        facts={
            "training_run_id": None, "data_hash": "0" * 32, "objective": "bc", "lineage": {},
            "reward_spec": None, "n_rows": 1, "synthetic": True,
        },
    )  # fmt: skip
    with Database.connect(settings) as database:
        register_policy(database, FLEET, artifact.folder)
        with database.unit_of_work(FLEET) as work:
            work.states.transition(
                "benchmark", champion=artifact.policy_id, candidate=None, mode=Mode.ON,
                catalog_hash=catalog.content_hash, actor="benchmark", reason="to be measured",
                action="promote",
            )  # fmt: skip
    return settings


# The asking side: its own process, so that it takes no turn of the server's loop ---------


class Caller(asyncio.Protocol):
    """One kept connection: sends the next request as soon as the last is answered."""

    def __init__(self, next_request, latencies, until_s):
        self.next_request, self.latencies, self.until_s = next_request, latencies, until_s
        self.done = asyncio.get_running_loop().create_future()
        self.seen = b""

    def connection_made(self, transport):
        self.transport = transport
        self.send()

    def send(self):
        self.sent_s = time.perf_counter()
        self.transport.write(self.next_request())

    def data_received(self, chunk):
        self.seen += chunk
        head = self.seen.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self.seen.find(b"content-length: ") + 16
        length = int(self.seen[at : self.seen.find(b"\r\n", at)])
        if len(self.seen) < head + 4 + length:
            return
        assert self.seen.startswith(b"HTTP/1.1 200"), self.seen
        now_s = time.perf_counter()
        self.latencies.append(now_s - self.sent_s)
        self.seen = b""
        if now_s < self.until_s:
            self.send()
        elif not self.done.done():
            self.done.set_result(None)
            self.transport.close()

    def connection_lost(self, error):
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("closed"))


def bodies(salt, batch):
    """Unique requests over 64 prepared contexts."""
    rng = np.random.default_rng(0)
    contexts = [
        json.dumps({f"x{i}": round(float(v), 6) for i, v in enumerate(rng.normal(size=N_FEATURES))})
        for _ in range(64)
    ]
    number = 0

    def one():
        nonlocal number
        number += 1
        return (
            f'{{"request_id":"{salt}-{number}","tenant":"acme","discipline":"benchmark",'
            f'"unit_id":"unit-{number % 977}","context":{contexts[number % 64]}}}'
        )

    return one if batch == 1 else lambda: f'{{"items":[{",".join(one() for _ in range(batch))}]}}'


async def drive(port, path, seconds, clients, batch):
    body = bodies(time.time_ns(), batch)
    latencies: list[float] = []

    def next_request():
        raw = body().encode()
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(raw)}\r\n\r\n"
        return head.encode() + raw

    started_s = time.perf_counter()
    loop = asyncio.get_running_loop()
    callers = []
    for _ in range(clients):
        _, caller = await loop.create_connection(
            lambda: Caller(next_request, latencies, started_s + seconds), "127.0.0.1", port
        )
        callers.append(caller)
    await asyncio.gather(*(caller.done for caller in callers))
    took_s = time.perf_counter() - started_s
    p50, p99 = np.quantile(latencies, [0.5, 0.99]) * 1e3
    print(json.dumps({"per_s": len(latencies) * batch / took_s, "p50_ms": p50, "p99_ms": p99}))


def round_of(address, path, *, seconds=ROUND_S, clients=N_CLIENTS, batch=1):
    port = address.rpartition(":")[2]
    ran = subprocess.run(
        [sys.executable, __file__, "drive", port, path, str(seconds), str(clients), str(batch)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(ran.stdout)


# The measurement -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address():
    """A served installation on a real disk; the tests' own servers may live in memory."""
    home = Path(tempfile.mkdtemp(prefix="canopy-benchmark-", dir="/var/tmp"))
    home.chmod(0o755)
    settings = prepare(home)
    log = (home / "http.log").open("wb")
    server = subprocess.Popen([sys.executable, __file__, "serve", home], stderr=log)
    deadline = time.monotonic() + 30
    while (entry := processes.find(home, "benchmark")) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert entry is not None, (home / "http.log").read_text()
    with psycopg.connect(ensure_servers(settings).database_url) as connection:
        for name in ("fsync", "synchronous_commit"):
            assert connection.execute(f"show {name}").fetchone() == ("on",)
    try:
        yield entry.address
    finally:
        server.terminate()
        assert server.wait(30) == 0
        log.close()
        stop_servers(settings)
        shutil.rmtree(home, ignore_errors=True)


def median_of(rounds):
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def test_a_durable_selection_holds_half_of_a_noops_throughput(address):
    for path in ("/noop", "/v1/selections"):
        round_of(address, path, seconds=1)
    rounds = {"/noop": [], "/v1/selections": []}
    for _ in range(ROUNDS):
        for path, found in rounds.items():
            found.append(round_of(address, path))
    noop, durable = (median_of(found) for found in rounds.values())
    print(f"\nno-op {noop}\ndurable {durable}\nratio {durable['per_s'] / noop['per_s']:.3f}")
    assert durable["per_s"] >= 0.5 * noop["per_s"]
    assert durable["p99_ms"] <= 15


def test_a_batch_decides_more_per_second_than_single_requests(address):
    rounds = {1: [], BATCH: []}
    for _ in range(3):
        rounds[1].append(round_of(address, "/v1/selections"))
        rounds[BATCH].append(round_of(address, "/v1/selections", clients=8, batch=BATCH))
    single, batched = (median_of(found) for found in rounds.values())
    print(f"\nsingle {single}\nbatched {batched}")
    assert batched["per_s"] >= 1.5 * single["per_s"]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        port, path, seconds, clients, batch = sys.argv[2:]
        uvloop.run(drive(int(port), path, float(seconds), int(clients), int(batch)))
