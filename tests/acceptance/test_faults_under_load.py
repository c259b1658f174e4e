"""Kills, lost connections and a restarted database during 10,000 selections lose nothing."""

import signal
import threading
import time

import httpx
import psycopg
import pytest

pytestmark = [pytest.mark.acceptance, pytest.mark.integration]

N_SELECTIONS = 10_000
N_CLIENTS = 16
ITEMS = 5
"""Selections per call: the clients share two cores with what they ask."""

N_KILLS = 3


def item(number):
    return {
        "request_id": f"request-{number}",
        "tenant": f"tenant-{number % 3}",
        "discipline": "public_copy",
        "unit_id": f"unit-{number % 97}",
        "context": {"number": number},
    }


class Clients:
    """Callers that ask for every number until it is answered, wherever the server is by then."""

    def __init__(self, server, n_selections):
        self.server, self.answers = server, {}
        self.asked_again = 0
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
            found = answer.json()["items"]
        except (httpx.HTTPError, ValueError, KeyError):
            self.asked_again += 1
            time.sleep(0.05)
            return set()
        done = set()
        for number, one in zip(numbers, found, strict=True):
            if "decision_id" in one:
                # An answer once given stays the answer.
                before = self.answers.setdefault(number, one)
                assert before == one
                done.add(number)
            else:
                assert one["error"] in {"in_flight", "unreachable"}, one
        return done

    def run(self):
        for thread in self.threads:
            thread.start()

    def wait(self):
        for thread in self.threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self.threads)


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
    assert clients.asked_again > 0
    assert len(clients.answers) == N_SELECTIONS
    require_one_row_per_answer(fresh_database.admin, clients.answers, N_SELECTIONS)
    assert server.end(signal.SIGTERM) == 0
