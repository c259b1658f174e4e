"""Kills, lost connections and a restarted database during 10,000 selections lose nothing."""

import shutil
import signal
import threading
import time

import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from canopy.domain.intervention import EVERY_DISCIPLINE
from canopy.domain.tenant import FLEET
from canopy.storage.database import Database
from canopy.storage.embedded.postgres import conninfo, start_postgres, stop_postgres
from canopy.storage.migrate import migrating, upgrade_connected
from canopy.storage.servers import APP_ROLE

pytestmark = [pytest.mark.acceptance, pytest.mark.integration]

N_SELECTIONS = 10_000
N_CLIENTS = 32
ITEMS = 5
"""Selections per call: the clients share two cores with what they ask."""

N_KILLS = 3
N_RESTARTS = 3
PER_TENANT = 100
"""Selections after which another tenant asks: each new one makes the process read the record."""


def item(number):
    return {
        "request_id": f"request-{number}",
        "tenant": f"tenant-{number // PER_TENANT}",
        "discipline": "public_copy",
        "unit_id": f"unit-{number % 97}",
        "context": {"number": number},
    }


class Clients:
    """Callers that ask for every number until it is answered, wherever the server is by then."""

    def __init__(self, server, n_selections):
        self.server, self.answers = server, {}
        self.asked_again, self.unexpected = 0, []
        batches = [range(start, start + ITEMS) for start in range(0, n_selections, ITEMS)]
        self.threads = [
            threading.Thread(target=self.ask_all, args=(batches[own::N_CLIENTS],))
            for own in range(N_CLIENTS)
        ]

    def ask_all(self, batches):
        with httpx.Client(timeout=30, trust_env=False) as client:
            for numbers in batches:
                wanted = set(numbers)
                while wanted:
                    wanted -= self.ask(client, sorted(wanted))

    def ask(self, client, numbers):
        """Ask once; gives the numbers answered."""
        try:
            answer = client.post(
                f"{self.server.address}/v1/selections",
                json={"items": [item(number) for number in numbers]},
            )
        except httpx.HTTPError:
            self.asked_again += 1
            time.sleep(0.05)
            return set()
        if answer.status_code != 200:
            self.unexpected.append(answer.text)
            return set(numbers)
        found = answer.json()["items"]
        done = set()
        for number, one in zip(numbers, found, strict=True):
            if "decision_id" in one:
                # An answer once given stays the answer.
                if self.answers.setdefault(number, one) != one:
                    self.unexpected.append(one)
                done.add(number)
            elif one["error"] in {"in_flight", "unreachable"}:
                self.asked_again += 1
            else:
                self.unexpected.append(one)
                done.add(number)
        return done

    def run(self):
        for thread in self.threads:
            thread.start()

    def wait(self):
        for thread in self.threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self.threads)
        assert self.unexpected == []
        assert self.asked_again > 0

    def await_answers(self, n):
        """Wait until so many are answered, or something unexpected is."""
        deadline = time.monotonic() + 120
        while len(self.answers) < n and not self.unexpected and time.monotonic() < deadline:
            time.sleep(0.01)


def end_connections(admin_dsn):
    """End every connection of the application, the writer's and the listener's among them."""
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )


def require_one_row_per_answer(dsn, answers, n):
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select request_id, decision_id::text, plan, propensity from decisions"
        ).fetchall()
    kept = {request_id: rest for request_id, *rest in rows}
    assert len(rows) == len(kept) == n
    for number, one in answers.items():
        standing = [one["decision_id"], one["plan"], one["propensity"]]
        assert kept[f"request-{number}"] == standing


def test_ten_thousand_selections_survive_kills_and_lost_connections(
    make_process, stored_catalog, fresh_database
):
    server = make_process()
    server.start()
    clients = Clients(server, N_SELECTIONS)
    clients.run()
    for kill in range(1, N_KILLS + 1):
        until = kill * N_SELECTIONS // (N_KILLS + 1)
        while len(clients.answers) < until:
            end_connections(fresh_database.admin)
            time.sleep(0.2)
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
        server.start()
    clients.wait()
    assert len(clients.answers) == N_SELECTIONS
    require_one_row_per_answer(fresh_database.admin, clients.answers, N_SELECTIONS)
    assert server.end(signal.SIGTERM) == 0


@pytest.fixture
def own_postgres(new_folder, settings, store_catalog):
    """A Postgres that this test may stop: its home, and settings that name it."""
    folder = new_folder("canopy-restart-")
    dsn = conninfo(start_postgres(folder / "home"))
    with migrating(dsn) as schema:
        upgrade_connected(schema)
    with Database(make_conninfo(dsn, user=APP_ROLE)) as database:
        store_catalog(database)
    yield folder / "home", settings.model_copy(update={"database_url": dsn})
    stop_postgres(folder / "home")
    shutil.rmtree(folder, ignore_errors=True)


def test_a_restarted_database_loses_no_answer_and_is_watched_again(make_process, own_postgres):
    home, own = own_postgres
    server = make_process(of=own)
    server.start()
    clients = Clients(server, N_SELECTIONS // 2)
    clients.run()
    for restart in range(1, N_RESTARTS + 1):
        clients.await_answers(restart * N_SELECTIONS // 2 // (N_RESTARTS + 1))
        assert stop_postgres(home)
        start_postgres(home)
    clients.wait()
    assert len(clients.answers) == N_SELECTIONS // 2
    require_one_row_per_answer(own.database_url, clients.answers, N_SELECTIONS // 2)

    with (
        Database(make_conninfo(own.database_url, user=APP_ROLE)) as database,
        database.unit_of_work(FLEET) as work,
    ):
        work.interventions.set_stop(EVERY_DISCIPLINE, is_on=True, actor="test", reason="a test")
    time.sleep(1.0)
    answer = httpx.post(
        f"{server.address}/v1/selections", json=item(N_SELECTIONS), trust_env=False
    ).json()
    assert answer["reasons"] == ["killed"]
    assert server.end(signal.SIGTERM) == 0
