"""A selection that was answered is never lost, whatever becomes of the process."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from canopy.domain.tenant import FLEET
from canopy.storage.embedded import processes
from policy.catalog import parse_catalog

pytestmark = [pytest.mark.acceptance, pytest.mark.integration]

CANOPY = Path(sys.executable).parent / "canopy"
N_SELECTIONS = 1_000
N_CLIENTS = 6
CATALOG = """\
discipline: public_copy
version: 1
factors:
  tone:
    levels:
      warm: {doctrine: Speak like a neighbour., weight: 3}
      plain: {doctrine: Say it once., weight: 2}
      brisk: {doctrine: Come to the point., weight: 1}
  length: {levels: [short, medium, long]}
default: tone=warm,length=short
"""


class Server:
    """The HTTP process of an installation, started again after it was killed."""

    def __init__(self, settings, log):
        self.home = settings.home
        self.environment = {
            **os.environ,
            "CANOPY_HOME": str(settings.home),
            "CANOPY_DATABASE_URL": settings.database_url,
            "CANOPY_REDIS_URL": settings.redis_url,
        }
        self.log = log

    def start(self):
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(
                [CANOPY, "http"], env=self.environment, stdout=sink, stderr=sink
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            entry = processes.find(self.home, "http")
            if entry is not None and entry.pid == self.process.pid:
                self.address = entry.address
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def server(settings, database, tmp_path):
    catalog = parse_catalog(CATALOG, "copy.yaml")
    with database.unit_of_work(FLEET) as work:
        work.catalogs.put(catalog.content_hash, catalog.discipline, "1", catalog.to_yaml())
    server = Server(settings, tmp_path / "http.log")
    server.start()
    yield server
    if server.process.poll() is None:
        server.end(signal.SIGKILL)


def body(number):
    return {
        "request_id": f"request-{number}",
        "tenant": f"tenant-{number % 3}",
        "discipline": "public_copy",
        "unit_id": f"unit-{number % 97}",
        "context": {"number": number},
    }


def ask_all(server, numbers, answers):
    """Ask for every number over one connection each, until done or the server is gone."""

    def ask(own):
        with httpx.Client(base_url=server.address, timeout=30, trust_env=False) as client:
            for number in own:
                try:
                    answer = client.post("/v1/selections", json=body(number))
                except httpx.HTTPError:
                    return
                assert answer.status_code == 200, answer.text
                answers[number] = answer.content

    threads = [
        threading.Thread(target=ask, args=(numbers[start::N_CLIENTS],))
        for start in range(N_CLIENTS)
    ]
    for thread in threads:
        thread.start()
    return threads


def test_every_answered_selection_is_in_the_record_after_a_kill(server, database):
    answers: dict[int, bytes] = {}
    threads = ask_all(server, range(N_SELECTIONS), answers)
    deadline = time.monotonic() + 60
    while len(answers) < N_SELECTIONS // 2 and time.monotonic() < deadline:
        time.sleep(0.002)
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    for thread in threads:
        thread.join(30)
    before = dict(answers)
    assert N_SELECTIONS // 2 <= len(before) < N_SELECTIONS

    for number, raw in before.items():
        answer = httpx.Response(200, content=raw).json()
        with database.unit_of_work(body(number)["tenant"]) as work:
            row = work.decisions.get(answer["decision_id"])
        assert row is not None, number
        assert (row.plan, row.propensity) == (answer["plan"], answer["propensity"])
        assert row.request_id == body(number)["request_id"]

    server.start()
    for thread in ask_all(server, range(N_SELECTIONS), answers):
        thread.join(60)
    assert len(answers) == N_SELECTIONS
    # A retry of what was answered before the kill reads the same answer, to the byte.
    assert {number: answers[number] for number in before} == before
    counts = []
    for tenant in range(3):
        with database.unit_of_work(f"tenant-{tenant}") as work:
            counts.append(work.decisions.count())
    assert sum(counts) == N_SELECTIONS
    assert server.end(signal.SIGTERM) == 0
