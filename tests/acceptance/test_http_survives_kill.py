"""A selection that was answered is never lost, whatever becomes of the process."""

import signal
import threading
import time

import httpx
import pytest

pytestmark = [pytest.mark.acceptance, pytest.mark.integration]

N_SELECTIONS = 1_000
N_CLIENTS = 6


@pytest.fixture
def server(make_process, stored_catalog):
    process = make_process()
    process.start()
    return process


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
