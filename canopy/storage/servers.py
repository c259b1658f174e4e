"""The two servers of an installation: named by settings, or embedded and started on demand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import URL

from canopy.domain.errors import ServiceUnreachableError, SettingError
from canopy.settings import Settings
from canopy.storage.embedded import postgres, redis
from canopy.storage.embedded.paths import postgres_place, redis_place

APP_ROLE: Final = "canopy_app"
"""The plain role of the application: row-level security binds it and it owns nothing."""


MLFLOW_ROLE: Final = "canopy_mlflow"
"""Owner of MLflow's database on the embedded server; it sees nothing of the record."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of the servers.

    Attributes:
        database_url: Connection string of the role that migrates; libpq form or URL.
        redis_url: Address of Redis.
        embedded: Names of the servers that are ours to stop.
        notes: What a person should know about where they run.
    """

    database_url: str
    redis_url: str
    embedded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def ensure_servers(settings: Settings) -> Endpoints:
    """Give the addresses of both servers, starting the embedded ones where none is set.

    Applies no migration.

    Raises:
        ServiceUnreachableError: If an embedded server is needed and does not come up.
        SettingError: If the database's address is malformed.
    """
    embedded, notes = [], []
    database_url, redis_url = given_database(settings), settings.redis_url
    if database_url is None:
        place = postgres.start_postgres(settings.home)
        database_url = postgres.conninfo(place)
        embedded.append("postgres")
        notes += [place.note] if place.note else []
    if redis_url is None:
        redis_url = redis.redis_url(redis.start_redis(settings.home))
        embedded.append("redis")
    return Endpoints(database_url, redis_url, tuple(embedded), tuple(notes))


def endpoints_if_running(settings: Settings) -> Endpoints | None:
    """The addresses of both servers if the embedded ones among them answer; starts nothing."""
    database_url, redis_url = given_database(settings), settings.redis_url
    embedded = []
    if database_url is None:
        if not settings.home.exists():
            return None
        place = postgres_place(settings.home)
        if not postgres.answers(place):
            return None
        database_url = postgres.conninfo(place)
        embedded.append("postgres")
    if redis_url is None:
        if not settings.home.exists():
            return None
        place = redis_place(settings.home)
        if not redis.answers(place):
            return None
        redis_url = redis.redis_url(place)
        embedded.append("redis")
    return Endpoints(database_url, redis_url, tuple(embedded))


def stop_servers(settings: Settings) -> tuple[str, ...]:
    """Stop the embedded servers of this home; servers named by URL are not ours to stop.

    Returns:
        The names of what was stopped.
    """
    stopped = []
    if settings.redis_url is None and redis.stop_redis(settings.home):
        stopped.append("redis")
    if settings.database_url is None and postgres.stop_postgres(settings.home):
        stopped.append("postgres")
    return tuple(stopped)


def application_dsn(settings: Settings, endpoints: Endpoints) -> str:
    """Connection string under which the application works: never as owner or superuser.

    The embedded server trusts its socket's folder, so the plain role logs in itself. On a
    database named by URL the login is somebody's choice, and the session takes the plain role
    at its start; `RESET ROLE` comes back to it too.
    """
    if settings.database_url is None:
        return make_conninfo(endpoints.database_url, user=APP_ROLE)
    given = conninfo_to_dict(endpoints.database_url).get("options")
    options = f"{given} -c role={APP_ROLE}" if given else f"-c role={APP_ROLE}"
    return make_conninfo(endpoints.database_url, options=options)


def given_database(settings: Settings) -> str | None:
    """The database's address as libpq reads it; None where the embedded server is meant.

    Raises:
        SettingError: If it is malformed.
    """
    if settings.database_url is None:
        return None
    # Whoever copies an SQLAlchemy address means the same database.
    address = settings.database_url.replace("postgresql+psycopg://", "postgresql://", 1)
    try:
        return make_conninfo(address)
    except psycopg.ProgrammingError as error:
        raise SettingError(
            "database_url",
            f"not an address of Postgres: {str(error).strip()}.",
            "Write postgresql://user@host:5432/database.",
        ) from error


def mlflow_url(settings: Settings) -> str:
    """SQLAlchemy address of MLflow's own database, made on the same server when it is missing.

    It is named `mlflow` beside the embedded database, `<database>_mlflow` beside another. A
    tracking address in the settings is given back as it is.

    Raises:
        ServiceUnreachableError: If the server does not answer or does not let us make it.
    """
    if settings.mlflow_url is not None:
        return settings.mlflow_url
    facts = conninfo_to_dict(ensure_servers(settings).database_url)
    is_embedded = settings.database_url is None
    name = "mlflow" if is_embedded else f"{facts.get('dbname') or facts.get('user')}_mlflow"
    try:
        with psycopg.connect(**facts, autocommit=True) as connection:  # type: ignore[arg-type]
            # Two callers at once: the second finds what the first made.
            connection.execute("select pg_advisory_lock(hashtext('canopy.mlflow'))")
            _make_mlflow(connection, name, MLFLOW_ROLE if is_embedded else None)
    except psycopg.Error as error:
        raise ServiceUnreachableError(
            "MLflow's database",
            f"{name!r} cannot be made: {str(error).strip()}.",
            "Make it yourself, or set CANOPY_MLFLOW_URL to a tracking server.",
        ) from error
    user = MLFLOW_ROLE if is_embedded else facts.pop("user", None)
    return _sqlalchemy_url(facts | {"user": user, "dbname": name})


def _make_mlflow(
    connection: psycopg.Connection[tuple[object, ...]], name: str, role: str | None
) -> None:
    found = connection.execute("select 1 from pg_database where datname = %s", (name,))
    if found.fetchone() is not None:
        return
    owner: sql.Composable = sql.SQL("")
    if role is not None:
        known = connection.execute("select 1 from pg_roles where rolname = %s", (role,))
        if known.fetchone() is None:
            connection.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
        owner = sql.SQL(" owner {}").format(sql.Identifier(role))
    make = sql.SQL("create database {} template template0").format(sql.Identifier(name))
    connection.execute(make + owner)


def _sqlalchemy_url(facts: Mapping[str, object]) -> str:
    rest = {k: str(v) for k, v in facts.items() if v is not None}
    host = rest.get("host", "")
    # A socket's folder is no host of a URL; as a query argument it reaches libpq untouched.
    network = None if host.startswith("/") else rest.pop("host", None)
    port = rest.pop("port", None)
    return URL.create(
        "postgresql+psycopg",
        username=rest.pop("user", None),
        password=rest.pop("password", None),
        database=rest.pop("dbname", None),
        host=network,
        port=None if port is None else int(port),
        query=rest,
    ).render_as_string(hide_password=False)
