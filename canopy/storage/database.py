"""The door to the record: one transaction per unit of work, bound to one tenant."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from canopy.domain.access import Permit
from canopy.domain.errors import InputError, SchemaBehindError, ServiceUnreachableError
from canopy.settings import Settings
from canopy.storage.keys import permit_of
from canopy.storage.migrate import revision_of
from canopy.storage.servers import application_dsn, ensure_servers
from canopy.storage.tables import REVISION
from canopy.storage.unit_of_work import UnitOfWork


class Database:
    """A pool of connections under the application's plain role.

    Attributes:
        app_dsn: libpq connection string of that role, for callers with their own connections.
    """

    def __init__(self, app_dsn: str) -> None:
        self.app_dsn = app_dsn
        self._engine = _engine(app_dsn)
        # Also at interpreter exit: an open connection must not outlive its owner unseen.
        self._finalizer = weakref.finalize(self, self._engine.dispose)

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        """Open the database of an installation, starting the embedded servers if need be.

        Raises:
            SchemaBehindError: If the schema is not the one this code was written for.
            ServiceUnreachableError: If Postgres does not answer.
        """
        database = cls(application_dsn(settings, ensure_servers(settings)))
        try:
            found = database.revision()
        except ServiceUnreachableError:
            database.close()
            raise
        if found != REVISION:
            database.close()
            raise SchemaBehindError(found, REVISION)
        return database

    def revision(self) -> str | None:
        """The schema's revision; None where there is no schema, or no role to read it with.

        Raises:
            ServiceUnreachableError: If Postgres does not answer.
        """
        try:
            with self._engine.connect() as connection:
                return revision_of(connection)
        except ProgrammingError:
            return None  # a schema taken back leaves a revision table the plain role may not read
        except OperationalError as error:
            # Before the first migration the plain role does not exist.
            if 'role "canopy_app" does not exist' in str(error):
                return None
            raise ServiceUnreachableError(
                "Postgres", f"{error.orig}.", "Run `canopy doctor`; check CANOPY_DATABASE_URL."
            ) from error

    @contextmanager
    def unit_of_work(self, tenant: str) -> Iterator[UnitOfWork]:
        """One transaction on behalf of a tenant: all of it is kept, or on an error nothing.

        Raises:
            InputError: If the tenant is empty.
            ServiceUnreachableError: If Postgres does not answer.
            OperationalError: If a statement fails for the server's own reasons.
        """
        if not tenant:
            raise InputError("tenant", "expected a name, got none.", "Name the tenant.")
        try:
            with self._engine.begin() as connection:
                connection.execute(
                    text("select set_config('canopy.tenant', :tenant, true)"), {"tenant": tenant}
                )
                yield UnitOfWork(connection, tenant)
        except OperationalError as error:
            if _is_absent(error):
                raise ServiceUnreachableError(
                    "Postgres", f"{error.orig}.", "Nothing was kept; try again."
                ) from error
            raise

    def find_permit(self, digest: str) -> Permit | None:
        """What the key with that digest permits, whoever's it is; None where there is none.

        Raises:
            ServiceUnreachableError: If Postgres does not answer.
        """
        try:
            with self._engine.begin() as connection:
                return permit_of(connection, digest)
        except OperationalError as error:
            raise ServiceUnreachableError(
                "Postgres", f"{error.orig}.", "Nothing was kept; try again."
            ) from error

    def close(self) -> None:
        """Close every pooled connection."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_absent(error: OperationalError) -> bool:
    """True where no connection came about, or the one there was is lost."""
    if error.connection_invalidated or error.statement is None:
        return True
    state = error.orig.sqlstate if isinstance(error.orig, psycopg.Error) else None
    # Connection exceptions; the server is shutting down, crashed, or is starting.
    return state is not None and state.startswith(("08", "57P"))


def _engine(dsn: str) -> Engine:
    return create_engine(
        "postgresql+psycopg://",
        connect_args=dict(conninfo_to_dict(dsn)),
        # A server that was restarted is noticed before the unit of work, not in it.
        pool_pre_ping=True,
        pool_size=4,
        max_overflow=16,
    )
