"""A real episode stays, whoever asks: all of this is tried as superuser."""

import psycopg
import pytest

from canopy.domain.clock import now
from canopy.domain.decision import Mode
from canopy.domain.episode import EpisodeKind, Outcome
from canopy.storage.database import Database

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def untouched(copy_template, make_row):
    """One database for everything that is refused."""
    with copy_template() as fresh, Database(fresh.app) as database:
        fill(database, make_row)
        with psycopg.connect(fresh.admin, autocommit=True) as connection:
            yield connection


@pytest.fixture
def superuser(fresh_database, database, make_row):
    fill(database, make_row)
    with psycopg.connect(fresh_database.admin, autocommit=True) as connection:
        yield connection


def fill(database, make_row):
    with database.unit_of_work("acme") as work:
        for kind in EpisodeKind:
            row = make_row(kind=kind, plan=kind.value)
            work.decisions.insert_many([row])
            work.outcomes.add(row.decision_id, Outcome("reward", 1.0, now()))
        work.states.transition(
            "copy",
            champion=None,
            candidate=None,
            mode=Mode.ON,
            catalog_hash=None,
            actor="me",
            reason="first",
            action="mode",
        )
        work.interventions.set_stop("copy", is_on=True, actor="me", reason="first")
        work.decisions.mark_not_served(row.decision_id, "another")


def partition(connection):
    return connection.execute("select tableoid::regclass::text from decisions limit 1").fetchone()[
        0
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "delete from decisions where kind = 'real'",
        "delete from {partition}",
        "truncate decisions",
        "truncate {partition}",
        "truncate decisions cascade",
        "update decisions set kind = 'synthetic' where kind = 'real'",
        "update decisions set kind = 'real' where kind = 'synthetic'",
        "update decisions set plan = 'another'",
        "update decisions set context = '{{}}'",
        "update decisions set tenant_id = 'other'",
        "update decisions set propensity = 0.5",
        "drop table {partition}",
        "drop table decisions cascade",
        "alter table decisions detach partition {partition}",
        "drop trigger canopy_keep_real on decisions",
        "drop trigger canopy_keep_whole on {partition}",
        "alter table decisions disable trigger canopy_keep_real",
        "alter table {partition} disable trigger all",
        "drop function canopy_keep_real cascade",
        "drop owned by canopy_owner cascade",
        "drop schema public cascade",
        "delete from outcomes",
        "update outcomes set value = 0",
        "truncate outcomes",
        "drop table outcomes",
        "delete from policy_transitions",
        "update policy_transitions set reason = 'other'",
        "truncate policy_transitions",
        "drop table policy_transitions",
        *(
            statement.format(table)
            for table in ("interventions", "corrections")
            for statement in (
                "delete from {}",
                "update {} set plan = 'x'",
                "truncate {}",
                "drop table {}",
            )
        ),
    ],
)
def test_the_record_refuses(untouched, statement):
    before = untouched.execute("select * from decisions order by plan").fetchall()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        untouched.execute(statement.format(partition=partition(untouched)))
    assert untouched.execute("select * from decisions order by plan").fetchall() == before


def test_a_renamed_partition_is_still_guarded(superuser):
    superuser.execute(f"alter table {partition(superuser)} rename to innocent")
    for statement in ("alter table decisions detach partition innocent", "drop table innocent"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            superuser.execute(statement)


def test_synthetic_and_imported_episodes_may_go(superuser):
    superuser.execute("delete from decisions where kind <> 'real'")
    assert superuser.execute("select kind from decisions").fetchall() == [("real",)]


def test_a_propensity_may_be_taken_back_but_not_given_again(superuser):
    superuser.execute("update decisions set propensity = null, served = false where kind = 'real'")
    for change in ("propensity = 0.25", "served = true"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="never given"):
            superuser.execute(f"update decisions set {change} where kind = 'real'")


def test_other_tables_come_and_go_freely(superuser):
    superuser.execute("create table mine (n int)")
    superuser.execute("alter table mine add column m int")
    superuser.execute("drop table mine")


def test_months_made_later_are_guarded_too(superuser, fresh_database):
    with psycopg.connect(fresh_database.app, autocommit=True) as connection:
        made = connection.execute(
            "select canopy_ensure_partitions('2040-01-31T23:00Z', '2040-03-01T00:00Z')"
        ).fetchone()
        again = connection.execute(
            "select canopy_ensure_partitions('2040-01-01T00:00Z', '2040-03-31T00:00Z')"
        ).fetchone()
    assert (made, again) == ((3,), (0,))
    for statement in ("truncate decisions_2040_02", "drop table decisions_2040_02"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            superuser.execute(statement)


def test_partitions_of_a_nonsense_range_are_refused(fresh_database):
    with (
        psycopg.connect(fresh_database.app) as connection,
        pytest.raises(psycopg.errors.DatetimeFieldOverflow, match="not one log"),
    ):
        connection.execute("select canopy_ensure_partitions('0001-01-01Z', '2040-01-01Z')")
