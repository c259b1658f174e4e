"""HTTP processes of their own, started, killed and started again."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from canopy.domain.tenant import FLEET
from canopy.storage.embedded import processes
from policy.catalog import parse_catalog

CANOPY = Path(sys.executable).parent / "canopy"
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


class HttpProcess:
    """The HTTP process of one home folder, started again after it was killed."""

    def __init__(self, settings, home, log):
        self.home, self.log = home, log
        self.environment = {
            **os.environ,
            "CANOPY_HOME": str(home),
            "CANOPY_DATABASE_URL": settings.database_url,
            "CANOPY_REDIS_URL": settings.redis_url,
        }
        self.process = self.address = None

    def launch(self):
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(
                [CANOPY, "http"], env=self.environment, stdout=sink, stderr=sink
            )

    def await_ready(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            entry = processes.find(self.home, "http")
            if entry is not None and entry.pid == self.process.pid:
                self.address = entry.address
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def start(self):
        self.launch()
        self.await_ready()

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(30)

    def is_running(self):
        return self.process is not None and self.process.poll() is None


@pytest.fixture
def store_catalog():
    """Stores the catalog of these tests for the fleet of a database."""

    def store(database):
        catalog = parse_catalog(CATALOG, "copy.yaml")
        with database.unit_of_work(FLEET) as work:
            work.catalogs.put(catalog.content_hash, catalog.discipline, "1", catalog.to_yaml())
        return catalog

    return store


@pytest.fixture
def stored_catalog(store_catalog, database):
    return store_catalog(database)


@pytest.fixture
def make_process(settings, tmp_path):
    """Makes HTTP processes, each of a home of its own; all are killed at the end."""
    made = []

    def make(name="http", of=settings):
        process = HttpProcess(of, tmp_path / name, tmp_path / f"{name}.log")
        made.append(process)
        return process

    yield make
    for process in made:
        if process.is_running():
            process.process.kill()
            process.process.wait(30)
