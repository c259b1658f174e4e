import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from canopy.domain.errors import ProtectedRowError, SchemaBehindError
from canopy.storage import migrate
from canopy.storage.database import Database
from canopy.storage.tables import PARTITION_NAME, REVISION, metadata

pytestmark = pytest.mark.integration


def differences(settings):
    def of_the_record(name, kind, _):
        return not (kind == "table" and (PARTITION_NAME.match(name) or name == "alembic_version"))

    with migrate.migrating(settings.database_url) as connection:
        context = MigrationContext.configure(
            connection, opts={"include_name": of_the_record, "compare_type": True}
        )
        keys = {
            table.name: (
                [column.name for column in table.primary_key],
                inspect(connection).get_pk_constraint(table.name)["constrained_columns"],
            )
            for table in metadata.sorted_tables
        }
        return compare_metadata(context, metadata), [k for k, (a, b) in keys.items() if a != b]


def test_the_code_names_the_newest_migration():
    assert ScriptDirectory(str(migrate.files("canopy.storage") / "migrations")).get_heads() == [
        REVISION
    ]
    assert migrate.head() == REVISION


def test_migrations_apply_reverse_and_apply_again(settings):
    assert migrate.current(settings) == REVISION
    assert differences(settings) == ([], [])
    migrate.downgrade(settings, "base")
    assert migrate.current(settings) is None
    with psycopg.connect(settings.database_url) as connection:
        left = connection.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace"
            " and relname not like 'alembic%'"
            " union select proname from pg_proc where proname like 'canopy%'"
            " union select evtname from pg_event_trigger"
        ).fetchall()
    assert left == []
    migrate.upgrade(settings)
    assert differences(settings) == ([], [])


def test_each_migration_alone_reverses(settings):
    for revision in ("0003", "0002", "0001"):
        migrate.downgrade(settings, revision)
        assert migrate.current(settings) == revision
    for revision in ("0002", "0003", REVISION):
        migrate.upgrade(settings, revision)
        assert migrate.current(settings) == revision


def test_a_schema_that_is_behind_is_refused(settings):
    migrate.downgrade(settings, "0002")
    with pytest.raises(SchemaBehindError, match="canopy migrate"):
        Database.connect(settings)
    migrate.upgrade(settings)
    with Database.connect(settings) as database, database.unit_of_work("acme") as work:
        assert work.decisions.count() == 0


def test_an_empty_database_is_a_schema_that_is_behind(settings):
    migrate.downgrade(settings, "base")
    with pytest.raises(SchemaBehindError, match="at nothing"):
        Database.connect(settings)


def test_going_back_never_removes_a_real_episode(settings, database, make_row):
    with database.unit_of_work("acme") as work:
        work.decisions.insert_many([make_row()])
    database.close()
    with pytest.raises(ProtectedRowError, match="never removed"):
        migrate.downgrade(settings, "base")
    assert migrate.current(settings) == REVISION


def test_tenant_comes_first_in_every_key_and_index():
    for table in metadata.sorted_tables:
        assert table.primary_key.columns.keys()[0] == "tenant_id"
        # The sweep of a serving process asks for all tenants that changed since a moment.
        indexes = [index for index in table.indexes if index.name != "changes_moment"]
        assert all(index.columns.keys()[0] == "tenant_id" for index in indexes)
