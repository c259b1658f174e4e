"""Moving the schema: up to this code's revision, or back."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

from canopy.domain.clock import now
from canopy.domain.errors import ServiceUnreachableError
from canopy.settings import Settings
from canopy.storage.servers import ensure_servers
from canopy.storage.tables import REVISION

if TYPE_CHECKING:
    from alembic.config import Config

PARTITIONS_AHEAD_DAYS: Final = 93
"""How far ahead monthly partitions are made; the writer makes a missing one itself."""


def head() -> str:
    """The revision this code was written for."""
    return REVISION


def current(settings: Settings) -> str | None:
    """The revision the database is at; None for an empty one.

    Raises:
        ServiceUnreachableError: If the database does not answer.
    """
    with migrating(ensure_servers(settings).database_url) as connection:
        return revision_of(connection)


def revision_of(connection: Connection) -> str | None:
    """The revision of the connected database; None for an empty one."""
    if connection.scalar(text("select to_regclass('public.alembic_version')")) is None:
        return None
    found: str | None = connection.scalar(text("select version_num from alembic_version"))
    return found


def upgrade(settings: Settings, revision: str = REVISION) -> str:
    """Bring the schema up and make the coming months' partitions; safe for many at once.

    Returns:
        The revision the database is at now.

    Raises:
        ServiceUnreachableError: If the database does not answer.
    """
    with migrating(ensure_servers(settings).database_url) as connection:
        return upgrade_connected(connection, revision)


def upgrade_connected(connection: Connection, revision: str = REVISION) -> str:
    """Bring the connected database up to a revision and commit."""
    from alembic import command  # noqa: PLC0415 - a fifth of a second nobody else should wait for

    command.upgrade(_configuration(connection), revision)
    if revision == REVISION:
        connection.execute(text("select canopy_guard.arm()"))
        add_partitions(connection)
    connection.commit()
    return revision


def downgrade(settings: Settings, revision: str) -> str:
    """Take the schema back to a revision; `base` empties the database.

    Returns:
        The revision asked for.

    Raises:
        ProtectedRowError: If that would remove real episodes.
        ServiceUnreachableError: If the database does not answer.
    """
    from alembic import command  # noqa: PLC0415 - as in `upgrade_connected`

    with migrating(ensure_servers(settings).database_url) as connection:
        command.downgrade(_configuration(connection), revision)
        connection.commit()
    return revision


def add_partitions(connection: Connection) -> None:
    """Make the partitions of this month and the next ones."""
    connection.execute(
        text("select canopy_ensure_partitions(:at, :at + make_interval(days => :days))"),
        {"at": now(), "days": PARTITIONS_AHEAD_DAYS},
    )


@contextmanager
def migrating(database_url: str) -> Iterator[Connection]:
    """A connection as the migrating role, alone in this at any time.

    Raises:
        ServiceUnreachableError: If the database does not answer.
        OperationalError: If a statement fails for the server's own reasons.
    """
    engine = create_engine(
        "postgresql+psycopg://",
        connect_args=dict(conninfo_to_dict(database_url)),
        poolclass=NullPool,
    )
    try:
        with engine.connect() as connection:
            # Released when the connection closes, so a killed migration blocks nobody.
            connection.execute(text("select pg_advisory_lock(hashtext('canopy.migrate'))"))
            connection.commit()
            yield connection
    except OperationalError as error:
        if isinstance(error.orig, psycopg.Error) and error.orig.sqlstate is None:
            raise ServiceUnreachableError(
                "Postgres", f"{error.orig}.", "Check CANOPY_DATABASE_URL, or run `canopy up`."
            ) from error
        raise
    finally:
        engine.dispose()


def _configuration(connection: Connection) -> "Config":
    from alembic.config import Config  # noqa: PLC0415 - as in `upgrade_connected`

    configuration = Config()
    folder = str(files("canopy.storage") / "migrations")
    configuration.set_main_option("script_location", folder.replace("%", "%%"))
    configuration.attributes["connection"] = connection
    return configuration
