import psycopg
import pytest

from canopy.domain.access import Scope
from canopy.domain.clock import now
from canopy.domain.decision import Mode
from canopy.domain.episode import Outcome
from canopy.domain.errors import InputError
from canopy.storage.database import Database
from canopy.storage.rows import EvidenceRow, PolicyRow
from canopy.storage.servers import application_dsn, ensure_servers
from canopy.storage.tables import OWN_TABLES, SHARED_TABLES, metadata

pytestmark = pytest.mark.integration

TABLES = [table.name for table in metadata.sorted_tables]


@pytest.fixture(scope="module")
def fresh_database(copy_template):
    """One database for all of these tests: what they try is refused."""
    with copy_template() as fresh:
        yield fresh


@pytest.fixture(scope="module")
def two_tenants(fresh_database, make_row):
    """One row of `acme` and one of the fleet in every table."""
    with Database(fresh_database.app) as database:
        _fill(database, make_row)


def _fill(database, make_row):
    for tenant in ("acme", "fleet"):
        with database.unit_of_work(tenant) as work:
            row = make_row(tenant_id=tenant)
            work.decisions.insert_many([row])
            work.outcomes.add(row.decision_id, Outcome("reward", 1.0, now()))
            work.catalogs.put("c", "copy", "1", "text")
            work.policies.put(PolicyRow("p", "copy", "c", None, {}, b"x"))
            work.evidence.put(EvidenceRow("e", "p", "backtest", "ok", {}, now()))
            work.states.transition(
                "copy",
                champion="p",
                candidate=None,
                mode=Mode.ON,
                catalog_hash="c",
                actor="me",
                reason="first",
                action="promote",
            )
            work.interventions.set_stop("copy", is_on=True, actor="me", reason="first")
            work.keys.create("app", [Scope.SELECT], actor="me")
            work.decisions.mark_not_served(row.decision_id, "another")


def as_tenant(fresh_database, tenant):
    connection = psycopg.connect(fresh_database.app)
    connection.execute("select set_config('canopy.tenant', %s, false)", (tenant,))
    return connection


def owners(connection, table):
    return {row[0] for row in connection.execute(f"select distinct tenant_id from {table}")}


def test_every_tenant_table_is_bound_by_row_security(fresh_database):
    assert sorted(TABLES) == sorted(OWN_TABLES + SHARED_TABLES)
    with psycopg.connect(fresh_database.admin) as connection:
        loose = connection.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace"
            " and relkind in ('r', 'p') and relname <> 'alembic_version'"
            " and not (relrowsecurity and relforcerowsecurity)"
        ).fetchall()
    assert loose == []


@pytest.mark.parametrize("table", TABLES)
def test_a_tenant_never_reads_another_ones_rows(fresh_database, two_tenants, table):
    with as_tenant(fresh_database, "other") as connection:
        shared = {"fleet"} if table in SHARED_TABLES else set()
        assert owners(connection, table) == shared
    with as_tenant(fresh_database, "acme") as connection:
        assert owners(connection, table) == {"acme"} | shared


@pytest.mark.parametrize("table", TABLES)
def test_no_tenant_set_means_no_row(fresh_database, two_tenants, table):
    with psycopg.connect(fresh_database.app) as connection:
        assert owners(connection, table) - {"fleet"} == set()
    with as_tenant(fresh_database, "") as connection:
        assert owners(connection, table) - {"fleet"} == set()


@pytest.mark.parametrize("table", TABLES)
def test_a_tenant_never_writes_another_ones_rows(fresh_database, two_tenants, table):
    with (
        as_tenant(fresh_database, "other") as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"),
    ):
        connection.execute(
            f"insert into {table} select (jsonb_populate_record(null::{table},"
            ' to_jsonb(t) || \'{"tenant_id": "acme"}\')).* from '
            f"(select * from {_donor(fresh_database, table)}) t"
        )


def _donor(fresh_database, table):
    """A row's own content as a derived table: the tenant could have copied it by hand."""
    with psycopg.connect(fresh_database.admin) as connection:
        (document,) = connection.execute(
            f"select to_jsonb(t)::text from {table} t where tenant_id = 'acme'"
        ).fetchone()
    literal = psycopg.sql.Literal(document).as_string()
    return f"jsonb_populate_record(null::{table}, {literal}::jsonb)"


def test_a_tenant_never_changes_the_fleets_pointer(fresh_database, two_tenants):
    with as_tenant(fresh_database, "other") as connection:
        changed = connection.execute("update policy_states set mode = 'canary'")
        assert changed.rowcount == 0


def test_partitions_are_closed_to_the_plain_role(fresh_database):
    with psycopg.connect(fresh_database.admin) as connection:
        parts = connection.execute(
            "select inhrelid::regclass::text from pg_inherits"
            " where inhparent = 'decisions'::regclass"
        ).fetchall()
    assert len(parts) >= 3
    for (part,) in parts:
        with (
            as_tenant(fresh_database, "acme") as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(f"select from {part}")


@pytest.mark.parametrize("statement", ["delete from {}", "truncate {}", "drop table {} cascade"])
@pytest.mark.parametrize("table", TABLES)
def test_the_application_removes_nothing(fresh_database, table, statement):
    with (
        as_tenant(fresh_database, "acme") as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement.format(table))


def test_the_application_role_is_plain(fresh_database):
    with psycopg.connect(fresh_database.app) as connection:
        powers = connection.execute(
            "select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb from pg_roles"
            " where rolname = session_user"
        ).fetchone()
        assert powers == (False, False, False, False)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("set role canopy_owner")


def test_on_a_database_named_by_url_every_session_takes_the_plain_role(settings):
    address = application_dsn(settings, ensure_servers(settings))
    with psycopg.connect(address) as connection:
        assert connection.execute("select current_user").fetchone() == ("canopy_app",)
        connection.execute("reset role")
        assert connection.execute("select current_user").fetchone() == ("canopy_app",)
    with Database.connect(settings) as database, database.unit_of_work("acme") as work:
        assert work.decisions.count("none") == 0


def test_the_tenant_is_forgotten_with_its_transaction(database):
    with database.unit_of_work("acme") as work:
        work.catalogs.put("own", "mail", "1", "text")
    with database.unit_of_work("other") as work:
        assert work.catalogs.latest("mail") is None


def test_a_batch_touches_the_tenants_it_names_alone(fresh_database, two_tenants):
    with psycopg.connect(fresh_database.app) as connection:
        connection.execute("select set_config('canopy.batch', %s, true)", ("acme\x1fother",))
        assert owners(connection, "decisions") == owners(connection, "requests") == {"acme"}
        assert owners(connection, "outcomes") == set()
        connection.commit()
        assert owners(connection, "decisions") == set()


def test_a_unit_of_work_needs_a_tenant(database):
    with pytest.raises(InputError, match="Name the tenant"), database.unit_of_work(""):
        pass
