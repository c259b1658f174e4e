"""The client against a real server that is there, is not there, and comes back."""

import socket
import threading
import time
from uuid import uuid4

import httpx
import pytest

from canopy.domain.errors import (
    InputError,
    NotFoundError,
    RequestConflictError,
    ServiceUnreachableError,
    UnauthorizedError,
)
from runtime.client import Client, Measured, SelectionAsk
from runtime.client.http_client import SETTLED_AT_ONCE

pytestmark = pytest.mark.integration

CRAFT = "public_copy"
DEFAULT = "tone=warm,length=short"


def ask(client, n=0, **parts):
    return client.select(
        CRAFT, **{"unit_id": f"unit-{n}", "context": {"budget": 4, "channel": "mail"}} | parts
    )


@pytest.fixture
def client(served):
    with Client(served.address, tenant="acme", timeout_s=10) as found:
        yield found


def test_a_choice_is_the_recorded_decision(client, database):
    chosen = ask(client)
    with database.unit_of_work("acme") as work:
        row = work.decisions.get(chosen.decision_id)
    assert (row.plan, row.propensity, row.request_id) == (
        chosen.plan, chosen.propensity, chosen.request_id,
    )  # fmt: skip
    assert not chosen.is_local


def test_the_same_request_id_gives_the_same_choice(client):
    assert ask(client, request_id="r-1") == ask(client, request_id="r-1")
    with pytest.raises(RequestConflictError, match="r-1"):
        ask(client, 1, request_id="r-1")


def test_outcomes_and_corrections_reach_the_record(client, database):
    chosen = ask(client)
    client.report_outcome(chosen, None, final=False)
    client.report_outcome(chosen.decision_id, 0.5)
    client.report_served(chosen, chosen.plan)
    with database.unit_of_work("acme") as work:
        assert [one.value for one in work.outcomes.of(chosen.decision_id)] == [None, 0.5]
        assert work.decisions.get(chosen.decision_id).served
    client.report_served(chosen, chosen.plan, imposed=True)
    with database.unit_of_work("acme") as work:
        row = work.decisions.get(chosen.decision_id)
        assert (row.served, row.propensity) == (False, None)
        (kept,) = work.decisions.corrections(chosen.decision_id)
    assert kept.plan == chosen.plan


def test_what_is_wrong_comes_back_as_the_products_own_error(client, served):
    with pytest.raises(NotFoundError, match="'nowhere'"):
        client.select("nowhere", unit_id="u", context={})
    with pytest.raises(InputError, match="no plan 'x'"):
        ask(client, override="x")
    with (
        Client(served.address, tenant="acme", token="canopy_wrong") as stranger,
        pytest.raises(UnauthorizedError, match="unknown"),
    ):
        ask(stranger)


def unused_address():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return f"http://127.0.0.1:{bound.getsockname()[1]}"


def test_without_a_default_an_absent_service_is_an_error_within_the_time(served):
    with Client(unused_address(), tenant="acme", timeout_s=0.3) as client:
        started_s = time.monotonic()
        with pytest.raises(ServiceUnreachableError, match="it is safe"):
            ask(client)
        assert time.monotonic() - started_s < 2


def test_a_local_default_stands_in_and_is_told_once_the_service_is_back(
    settings, catalog, running, database
):
    with running(settings) as first:
        address = first.address
    port = int(address.rpartition(":")[2])
    n_local = SETTLED_AT_ONCE + 2
    with Client(address, tenant="acme", timeout_s=0.3, local_default=DEFAULT) as client:
        local = [ask(client, n, request_id=f"local-{n}") for n in range(n_local)]
        assert {(one.plan, one.is_local, one.propensity) for one in local} == {
            (DEFAULT, True, None)
        }
        assert client.n_unsettled == n_local
        with pytest.raises(InputError, match="settle_local"):
            client.report_outcome(local[-1], 1.0)
        with running(settings, port) as again:
            assert again.address == address
            chosen = answered(client, 9)
            # A selection tells of a few on its way, so that it stays quick.
            assert client.n_unsettled == n_local - SETTLED_AT_ONCE
            told = client.settle_local()
            assert [one.request_id for one in told] == ["local-4", "local-5"]
            assert client.n_unsettled == 0
            client.report_outcome(local[-1], 1.0)
    with database.unit_of_work("acme") as work:
        for one in local:
            row = work.decisions.by_request(one.request_id)
            assert (row.served, row.propensity) == (False, None)
            assert row.reasons == ("doctrine",)
            (kept,) = work.decisions.corrections(row.decision_id)
            assert kept.plan == DEFAULT
        assert work.decisions.get(chosen.decision_id).propensity == chosen.propensity


def answered(client, n):
    """A choice that the service made; a client of little patience may need to ask again."""
    for _ in range(20):
        chosen = ask(client, n, request_id="answered")
        if not chosen.is_local:
            return chosen
    raise AssertionError("the service never answered in time")


def test_many_choices_in_one_call_are_answered_each_by_itself(client, database):
    asks = [
        SelectionAsk(CRAFT, f"unit-{n}", {"budget": 4, "channel": "mail"}, request_id=f"many-{n}")
        for n in range(3)
    ]
    wrong = SelectionAsk("nowhere", "unit-9", {}, request_id="many-9")
    first, missing, *others = client.select_many([asks[0], wrong, *asks[1:]])
    assert isinstance(missing, NotFoundError)
    chosen = [first, *others]
    assert [one.request_id for one in chosen] == ["many-0", "many-1", "many-2"]
    assert tuple(chosen) == client.select_many(asks)
    outcomes = client.report_outcomes([
        Measured(first, 1.0),
        Measured(others[0], None, final=False),
        Measured(uuid4(), 0.5),
    ])
    assert outcomes[:2] == (None, None)
    assert isinstance(outcomes[2], NotFoundError)
    assert [row["value"] for row in client.decision(first)["outcomes"]] == [1.0]
    with database.unit_of_work("acme") as work:
        assert work.decisions.count() == 3
    assert client.select_many([]) == ()
    assert client.report_outcomes([]) == ()


def test_many_choices_fall_back_locally_where_nobody_answers():
    asks = [SelectionAsk(CRAFT, f"unit-{n}", {}) for n in range(3)]
    default = {"unit-0": DEFAULT, "unit-1": "tone=plain,length=long", "unit-2": DEFAULT}
    client = Client(
        unused_address(), tenant="acme", timeout_s=0.05, local_default=lambda a: default[a.unit_id]
    )
    chosen = client.select_many(asks)
    assert [one.plan for one in chosen] == list(default.values())
    assert all(one.is_local and one.propensity is None for one in chosen)
    client.close()
    assert client.n_dropped == 3


def test_choices_told_never_are_counted(served):
    client = Client(unused_address(), tenant="acme", timeout_s=0.05, local_default=DEFAULT)
    ask(client)
    assert client.n_unsettled == 1
    client.close()
    assert client.n_dropped == 1


def test_a_dropped_connection_is_tried_again_under_the_same_id(served):
    """A proxy that hangs up on the first two requests after the server has answered them."""
    upstream = served.address.removeprefix("http://").split(":")
    listener = socket.create_server(("127.0.0.1", 0))
    n_dropped = []

    def relay():
        for n in range(3):
            down, _ = listener.accept()
            raw = down.recv(65536)
            while b"}" not in raw.partition(b"\r\n\r\n")[2]:
                raw += down.recv(65536)
            with socket.create_connection((upstream[0], int(upstream[1]))) as up:
                up.sendall(raw)
                answer = b""
                while not answer.endswith(b"}}"):
                    answer += up.recv(65536)
            if n < 2:
                n_dropped.append(answer)
            else:
                down.sendall(answer)
            down.close()

    thread = threading.Thread(target=relay)
    thread.start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with Client(address, tenant="acme", timeout_s=10) as client:
        chosen = ask(client, request_id="r-1")
    thread.join(10)
    listener.close()
    assert len(n_dropped) == 2
    direct = httpx.get(
        f"{served.address}/v1/decisions/{chosen.decision_id}", params={"tenant": "acme"}
    )
    assert direct.json()["request_id"] == "r-1"
