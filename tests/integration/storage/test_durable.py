import asyncio
from datetime import UTC, datetime

import psycopg
import pytest

from canopy.domain.errors import InputError, ServiceUnreachableError
from canopy.domain.ids import new_decision_id
from canopy.storage.durable import DecisionWriter

pytestmark = pytest.mark.integration


def write(database, rows):
    async def run():
        writer = DecisionWriter(database.app_dsn)
        await writer.start()
        try:
            return await asyncio.gather(
                *(writer.submit(row.tenant_id, row) for row in rows), return_exceptions=True
            )
        finally:
            await writer.stop()

    return asyncio.run(run())


def stored(database, tenant="acme"):
    with database.unit_of_work(tenant) as work:
        return work.decisions.count()


def test_a_submitted_decision_reads_back_as_it_was(database, make_row):
    row = make_row()
    (answer,) = write(database, [row])
    assert (answer.decision_id, answer.is_new) == (row.decision_id, True)
    with database.unit_of_work("acme") as work:
        assert work.decisions.get(row.decision_id) == row
        assert work.decisions.by_request(row.request_id) == row


def test_tenants_of_one_batch_get_their_own_rows(database, make_row):
    rows = [make_row(tenant_id=f"tenant-{n % 3}") for n in range(30)]
    assert all(answer.is_new for answer in write(database, rows))
    assert [stored(database, f"tenant-{n}") for n in range(3)] == [10, 10, 10]


def test_a_request_submitted_twice_is_one_decision(database, make_row):
    first = make_row(request_id="r")
    second = make_row(request_id="r", body_hash="other")
    answers = write(database, [first, second])
    again = write(database, [make_row(request_id="r")])
    assert [a.is_new for a in (*answers, *again)] == [True, False, False]
    assert {a.decision_id for a in (*answers, *again)} == {first.decision_id}
    assert answers[1].body_hash == first.body_hash
    assert stored(database) == 1


def test_the_same_request_id_of_two_tenants_is_two_decisions(database, make_row):
    answers = write(database, [make_row(request_id="r"), make_row(request_id="r", tenant_id="b")])
    assert all(answer.is_new for answer in answers)


def test_a_missing_month_is_made_on_the_way(database, make_row):
    row = make_row(decided_at=datetime(2031, 5, 31, 23, 59, 59, tzinfo=UTC))
    (answer,) = write(database, [row])
    assert answer.is_new
    with database.unit_of_work("acme") as work:
        assert work.decisions.get(row.decision_id).decided_at == row.decided_at


def test_a_row_the_database_refuses_fails_alone(database, make_row):
    bad = make_row(kind="strange")
    answers = write(database, [make_row(), bad, make_row()])
    assert isinstance(answers[1], InputError)
    assert [answers[0].is_new, answers[2].is_new, stored(database)] == [True, True, 2]


def test_a_row_without_a_request_id_is_refused(database, make_row):
    answers = write(database, [make_row(request_id=None, body_hash=None), make_row()])
    assert isinstance(answers[0], InputError)
    assert answers[1].is_new


def test_killed_backends_lose_no_acknowledged_row(fresh_database, database, make_row):
    n_clients, n_kills = 16, 15
    acknowledged = []

    async def client(writer, number, done):
        turn = 0
        while not done.is_set():
            row = make_row(request_id=f"{number}-{turn}")
            acknowledged.append(await writer.submit("acme", row))
            turn += 1

    async def kill_often(writer):
        async with await psycopg.AsyncConnection.connect(
            fresh_database.admin, autocommit=True
        ) as connection:
            for _ in range(n_kills):
                # Writing goes on between two kills, so that each one meets work.
                acknowledged.append(await writer.submit("acme", make_row()))
                await connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where usename = 'canopy_app' and datname = current_database()"
                )

    async def run():
        writer = DecisionWriter(database.app_dsn)
        await writer.start()
        done = asyncio.Event()
        clients = [asyncio.create_task(client(writer, n, done)) for n in range(n_clients)]
        await kill_often(writer)
        done.set()
        await asyncio.gather(*clients)
        await writer.stop()

    asyncio.run(run())
    assert len(acknowledged) > n_clients + n_kills
    assert all(answer.is_new for answer in acknowledged)
    with psycopg.connect(fresh_database.admin) as connection:
        ids = {row[0] for row in connection.execute("select decision_id from decisions")}
        (n_rows,) = connection.execute("select count(*) from decisions").fetchone()
    assert ids == {answer.decision_id for answer in acknowledged}
    assert n_rows == len(ids)


def test_a_server_that_stays_away_is_told_to_the_caller(database, fresh_database, make_row):
    async def run():
        writer = DecisionWriter(database.app_dsn, give_up_s=0.3)
        await writer.start()
        async with await psycopg.AsyncConnection.connect(
            psycopg.conninfo.make_conninfo(fresh_database.admin, dbname="postgres"),
            autocommit=True,
        ) as connection:
            name = psycopg.conninfo.conninfo_to_dict(fresh_database.admin)["dbname"]
            await connection.execute(f"alter database {name} allow_connections false")
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
            )
            with pytest.raises(ServiceUnreachableError, match="same request id"):
                await writer.submit("acme", make_row(request_id="later"))
            await connection.execute(f"alter database {name} allow_connections true")
            assert (await writer.submit("acme", make_row(request_id="later"))).is_new
        await writer.stop()

    asyncio.run(run())


def test_a_stopped_writer_takes_nothing_more(database, make_row):
    async def run():
        writer = DecisionWriter(database.app_dsn)
        await writer.start()
        await writer.stop()
        await writer.submit("acme", make_row(decision_id=new_decision_id()))

    with pytest.raises(ServiceUnreachableError, match="not running"):
        asyncio.run(run())
