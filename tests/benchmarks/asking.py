"""The asking side: `wrk` where it is installed, else a client of our own.

Both keep their connections, send the next request as soon as the last is answered, and make
every request id unique. `wrk` costs a sixth of the other, and adds to its latencies the waits
that requests held back by a slow answer would have seen: its percentiles are the stricter ones.
"""

import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path

from tests.benchmarks.policies import DISCIPLINE, N_FEATURES
from tests.benchmarks.serving import Served, running_on

PEERS = Path(__file__).parent / "peers"
N_CLIENTS = 64


@dataclass(frozen=True)
class Round:
    """What one round of asking saw.

    Attributes:
        per_s: Requests answered per second, or decisions where requests hold many.
        p50_ms: Median latency of a request.
        p99_ms: 99th percentile of it.
        server_us: Processor time of the HTTP process per unit of `per_s`.
        postgres_us: The same of all Postgres processes.
        client_us: The same of the asking side.
    """

    per_s: float
    p50_ms: float
    p99_ms: float
    server_us: float
    postgres_us: float
    client_us: float

    def __str__(self) -> str:
        return (
            f"{self.per_s:,.0f}/s, p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.2f} ms; "
            f"processor us each: server {self.server_us:.0f}, Postgres {self.postgres_us:.0f}, "
            f"client {self.client_us:.0f}"
        )


def client_name() -> str:
    """Who asks."""
    return "the built-in client" if shutil.which("wrk") is None else "wrk"


def ask(
    target: Served,
    path: str,
    *,
    seconds: float,
    clients: int = N_CLIENTS,
    batch: int = 1,
    n_tenants: int = 1,
) -> Round:
    """Ask for a while on the asking side's cores.

    Args:
        target: Who is asked.
        path: Route asked for.
        seconds: How long.
        clients: Kept connections.
        batch: Selections per request.
        n_tenants: Tenants `t0`, `t1` and so on, asked for in turn.
    """
    what = [str(time.time_ns()), str(batch), str(n_tenants), str(N_FEATURES), DISCIPLINE]
    if shutil.which("wrk") is None:
        script = str(PEERS / "asking_client.py")
        command = [sys.executable, script, str(target.port), path, str(seconds), str(clients)]
        command += what
    else:
        script = str(PEERS / "selections.lua")
        command = [
            "wrk",
            "-t1",
            "--timeout",
            "30s",
            f"-c{clients}",
            f"-d{seconds:.0f}s",
            "-s",
            script,
        ]
        command += [f"{target.address}{path}", "--", *what]
    server_s, postgres_s = target.cpu_s()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with running_on(target.cores.client):
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(ran.stdout.strip().splitlines()[-1])
    assert found["failed"] == 0, ran.stdout
    n = found["answered"] * batch
    now_server_s, now_postgres_s = target.cpu_s()
    client_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Round(
        per_s=n / found["took_s"],
        p50_ms=found["p50_ms"],
        p99_ms=found["p99_ms"],
        server_us=(now_server_s - server_s) / n * 1e6,
        postgres_us=(now_postgres_s - postgres_s) / n * 1e6,
        client_us=client_s / n * 1e6,
    )


def median_of(rounds: list[Round]) -> Round:
    """Each figure's median over the rounds."""
    return Round(**{
        field.name: statistics.median(getattr(one, field.name) for one in rounds)
        for field in fields(Round)
    })
