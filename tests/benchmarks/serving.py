"""A served installation to measure, on cores of its own.

Run as a program it is the served side: the product's application with one more route, `/noop`,
that goes through the same middleware and the same door, reads, validates and hashes the same
body and answers one of the same shape; it chooses and stores nothing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psycopg
from fastapi import Request

from canopy.domain.access import Scope
from canopy.domain.decision import Mode
from canopy.domain.tenant import FLEET
from canopy.settings import Settings
from canopy.storage.database import Database
from canopy.storage.embedded import processes
from canopy.storage.embedded.paths import postgres_place
from canopy.storage.migrate import upgrade
from canopy.storage.servers import ensure_servers, stop_servers
from runtime.bootstrap import open_runtime, settle_gc
from runtime.http import selections
from runtime.http.app import build_app
from runtime.http.bodies import read_body
from runtime.http.guard import admit, identified
from runtime.http.responses import json_response
from runtime.http.server import _bind, _configured, _Server
from runtime.registry import register_policy
from runtime.telemetry import configure_logging
from tests.benchmarks.policies import DISCIPLINE, default_plan, policy_of

N_PLANS = 256
START_WAIT_S = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cores:
    """Who may run where; every set is all cores where there is but one."""

    server: set[int]
    postgres: set[int]
    client: set[int]

    @classmethod
    def of_this_machine(cls) -> "Cores":
        """The server alone on the first core; Postgres and the asking side share the others."""
        first, *others = sorted(os.sched_getaffinity(0))
        if not others:
            return cls({first}, {first}, {first})
        if len(others) == 1:
            return cls({first}, set(others), set(others))
        return cls({first}, {others[0]}, set(others[1:]))


@dataclass(frozen=True)
class Served:
    """A running installation."""

    settings: Settings
    address: str
    pid: int
    cores: Cores

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def cpu_s(self) -> tuple[float, float]:
        """Processor seconds used so far: by the HTTP process, and by Postgres."""
        postgres = sum(_cpu_s(pid) for pid in _postgres_pids(self.settings.home))
        return _cpu_s(self.pid), postgres


@contextmanager
def running_on(cores: set[int]) -> Iterator[None]:
    """Keep this thread, and what it starts, on some cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def served(tenants: tuple[str, ...] = ()) -> Iterator[Served]:
    """A served installation on a real disk; the tests' own servers may live in memory.

    Args:
        tenants: Tenants that get a pointer of their own; all others are served by the fleet's.
    """
    cores = Cores.of_this_machine()
    home = Path(tempfile.mkdtemp(prefix="canopy-benchmark-", dir="/var/tmp"))
    home.chmod(0o755)
    with running_on(cores.postgres):
        settings = prepare(home, tenants)
    log = (home / "http.log").open("wb")
    with running_on(cores.server):
        server = subprocess.Popen([sys.executable, __file__, home], stderr=log)
    try:
        entry = _awaited(home, server)
        _require_durable(settings)
        yield Served(settings, entry.address, server.pid, cores)
    finally:
        server.terminate()
        code = server.wait(30)
        log.close()
        stop_servers(settings)
        shutil.rmtree(home, ignore_errors=True)
    assert code == 0


def _awaited(home, server):
    deadline_s = time.monotonic() + START_WAIT_S
    while time.monotonic() < deadline_s and server.poll() is None:
        entry = processes.find(home, "benchmark")
        if entry is not None:
            return entry
        time.sleep(0.05)
    raise AssertionError((home / "http.log").read_text())


def _require_durable(settings):
    with psycopg.connect(ensure_servers(settings).database_url) as connection:
        for name in ("fsync", "synchronous_commit"):
            assert connection.execute(f"show {name}").fetchone() == ("on",)


def prepare(home: Path, tenants: tuple[str, ...] = ()) -> Settings:
    """A migrated installation with one champion: 256 plans, 32 features, every pair of factors."""
    settings = Settings(home=home)
    upgrade(settings)
    artifact = policy_of(home / "policy", N_PLANS, n_rules=0)
    with Database.connect(settings) as database:
        register_policy(database, FLEET, artifact.folder)
        for owner in (FLEET, *tenants):
            with database.unit_of_work(owner) as work:
                work.states.transition(
                    DISCIPLINE,
                    champion=artifact.policy_id,
                    candidate=None,
                    mode=Mode.ON,
                    catalog_hash=artifact.catalog.content_hash,
                    actor="benchmark",
                    reason="to be measured",
                    action="promote",
                )
    return settings


def serve(home: Path) -> None:
    """Serve the product's application with the no-op beside."""
    configure_logging()
    bound = _bind("127.0.0.1", 0)

    def on_started():
        settle_gc()
        bound.listen(2048)
        host, port = bound.getsockname()
        processes.register(home, "benchmark", os.getpid(), f"http://{host}:{port}")

    app = build_app(open_runtime(Settings(home=home)), on_started)
    answer = {
        "decision_id": UUID(int=7),
        "plan": default_plan(N_PLANS),
        "propensity": 0.0123456789,
        "served": True,
        "mode": "on",
        "arm": None,
        "reasons": ["drawn"],
        "versions": {
            "catalog": "c" * 32, "features": "f" * 32, "policy": "p" * 32, "kernel": "k" * 16,
        },
    }  # fmt: skip

    @app.post("/noop", response_model=None)
    async def noop(request: Request):
        permit = await identified(request)
        parsed = selections._shape.read(await read_body(request))
        admit(request, permit, parsed.tenant, Scope.SELECT)
        selections.ask_of(parsed)
        return json_response(selections._dump(answer))

    # Routes are tried in their order: at the end, the no-op would pay for all of the others.
    app.router.routes.insert(0, app.router.routes.pop())
    _Server(_configured(app)).run(sockets=[bound])


def _postgres_pids(home: Path) -> list[int]:
    """The postmaster and what it started."""
    data = postgres_place(home).folder / "pg"
    first = int((data / "postmaster.pid").read_text().split()[0])
    found = [first]
    for entry in Path("/proc").glob("[0-9]*"):
        facts = _stat(int(entry.name))
        if facts is not None and int(facts[1]) == first:
            found.append(int(entry.name))
    return found


def _cpu_s(pid: int) -> float:
    facts = _stat(pid)
    return 0.0 if facts is None else (int(facts[11]) + int(facts[12])) / TICKS_PER_S


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/pid/stat from the state on; None for a process that ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
