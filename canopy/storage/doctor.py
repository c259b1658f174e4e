"""Is this installation sound? One value per check, each with what to do about it.

Nothing is started and nothing is kept: a check that has to write does it in a transaction
that is rolled back.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import psycopg
import redis

from canopy.domain.errors import CanopyError
from canopy.settings import LoadedSettings, Settings
from canopy.storage.embedded import postgres
from canopy.storage.embedded.paths import postgres_place, redis_place
from canopy.storage.embedded.processes import is_alive, registered
from canopy.storage.embedded.redis import redis_url
from canopy.storage.servers import APP_ROLE, Endpoints, application_dsn, given_database
from canopy.storage.tables import REVISION

OLDEST_POSTGRES: Final = 16
BEST_POSTGRES: Final = 18
EXTENSIONS: Final = ("vector", "pg_trgm")
GUARDS: Final = ("canopy_guard_alter", "canopy_guard_drop")
LOW_DISK_BYTES: Final = 5_000_000_000
"""Below it a warning: write-ahead log alone may take 4 GB."""
NO_DISK_BYTES: Final = 500_000_000


class CheckStatus(StrEnum):
    """What a check came to."""

    OK = "ok"
    WARN = "warn"
    """Works, with a limit worth knowing."""
    FAIL = "fail"
    """Must be put right before Canopy can be relied on."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: What was looked at.
        status: What it came to.
        found: What was seen.
        remedy: What to do; None where nothing is needed.
    """

    name: str
    status: CheckStatus
    found: str
    remedy: str | None = None


def examine(loaded: LoadedSettings) -> list[Check]:
    """Every check of an installation, in the order in which they build on each other."""
    settings = loaded.settings
    checks = [_settings(loaded), _home(settings), _disk(settings)]
    checks += _postgres(settings)
    checks += _redis(settings)
    return [*checks, *_processes(settings)]


def _settings(loaded: LoadedSettings) -> Check:
    chosen = [f"{name} from {src}" for name, src in loaded.sources.items() if src != "default"]
    return Check("settings", CheckStatus.OK, ", ".join(chosen) or "all defaults")


def _home(settings: Settings) -> Check:
    home = settings.home
    if not home.exists():
        return Check("data folder", CheckStatus.FAIL, f"{home} is missing", "Run `canopy up`.")
    if not os.access(home, os.W_OK | os.X_OK):
        return Check(
            "data folder", CheckStatus.FAIL, f"{home} is not writable", "Make it yours (chown)."
        )
    loose = [
        path
        for path in (home, home / "postgres", home / "redis", home / "run")
        if path.exists() and path.stat().st_mode & stat.S_IWOTH
    ]
    if loose:
        return Check(
            "data folder",
            CheckStatus.FAIL,
            f"anybody may write to {', '.join(map(str, loose))}",
            f"Run `chmod o-w {loose[0]}`.",
        )
    return Check("data folder", CheckStatus.OK, str(home))


def _disk(settings: Settings) -> Check:
    folder = next(path for path in (settings.home, *settings.home.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    status = (
        CheckStatus.FAIL
        if free < NO_DISK_BYTES
        else CheckStatus.WARN
        if free < LOW_DISK_BYTES
        else CheckStatus.OK
    )
    remedy = None if status is CheckStatus.OK else "Free some, or set CANOPY_HOME elsewhere."
    return Check("free disk", status, f"{free / 1e9:.1f} GB", remedy)


def _postgres(settings: Settings) -> Iterator[Check]:
    try:
        address = given_database(settings) or postgres.conninfo(postgres_place(settings.home))
        with _reading(address) as connection:
            yield _version(connection)
            yield _extensions(connection)
            yield _guards(connection)
        with _reading(application_dsn(settings, Endpoints(address, ""))) as connection:
            yield _schema(connection)
            yield _role(connection)
            yield _crossing(connection)
    except (CanopyError, psycopg.Error) as error:
        missing_role = f'role "{APP_ROLE}" does not exist' in str(error)
        yield Check(
            "Postgres",
            CheckStatus.FAIL,
            str(error).strip().splitlines()[0],
            "Run `canopy migrate`." if missing_role else "Run `canopy up`; check its address.",
        )


def _version(connection: psycopg.Connection[Any]) -> Check:
    major = connection.info.server_version // 10_000
    if major < OLDEST_POSTGRES:
        status, remedy = CheckStatus.FAIL, f"Use Postgres {BEST_POSTGRES}."
    elif major < BEST_POSTGRES:
        status, remedy = CheckStatus.WARN, f"Canopy is tested on Postgres {BEST_POSTGRES}."
    else:
        return Check("Postgres", CheckStatus.OK, f"answers, version {major}")
    return Check("Postgres", status, f"answers, version {major}", remedy)


def _extensions(connection: psycopg.Connection[Any]) -> Check:
    found = connection.execute(
        "select name || ' ' || default_version from pg_available_extensions"
        " where name = any(%s) order by name",
        (list(EXTENSIONS),),
    ).fetchall()
    listed = ", ".join(name for (name,) in found)
    if len(found) == len(EXTENSIONS):
        return Check("extensions", CheckStatus.OK, listed)
    return Check(
        "extensions",
        CheckStatus.WARN,
        listed or "none",
        f"Install {' and '.join(EXTENSIONS)}: retrieval needs them.",
    )


def _guards(connection: psycopg.Connection[Any]) -> Check:
    found = connection.execute(
        "select count(*) from pg_event_trigger where evtname = any(%s) and evtenabled <> 'D'",
        (list(GUARDS),),
    ).fetchone()
    if found == (len(GUARDS),):
        return Check("record guard", CheckStatus.OK, "partitions cannot be dropped or detached")
    return Check(
        "record guard",
        CheckStatus.WARN,
        "no event triggers: only ownership keeps partitions from being dropped",
        "Run `canopy migrate` as a role that may create event triggers.",
    )


def _schema(connection: psycopg.Connection[Any]) -> Check:
    found = None
    if _scalar(connection, "select to_regclass('public.alembic_version') is not null"):
        found = _scalar(connection, "select version_num from alembic_version")
    if found == REVISION:
        return Check("schema", CheckStatus.OK, f"at {found}")
    return Check(
        "schema",
        CheckStatus.FAIL,
        f"at {found or 'nothing'}, this code needs {REVISION}",
        "Run `canopy migrate`.",
    )


def _role(connection: psycopg.Connection[Any]) -> Check:
    powers = _scalar(
        connection,
        "select rolname || case when rolsuper then ' is superuser' else '' end"
        " || case when rolbypassrls then ' bypasses row security' else '' end"
        " || case when exists (select from pg_class where relowner = pg_roles.oid"
        " and relkind in ('r', 'p')) then ' owns tables' else '' end"
        " from pg_roles where rolname = current_user",
    )
    if powers == APP_ROLE:
        return Check("application role", CheckStatus.OK, f"{powers}, plain")
    return Check(
        "application role",
        CheckStatus.FAIL,
        str(powers),
        f"Take those powers from {APP_ROLE}: row-level security does not bind it now.",
    )


def _crossing(connection: psycopg.Connection[Any]) -> Check:
    """Try to read and to write another tenant's row."""
    name = "tenant isolation"
    remedy = "Run `canopy migrate`; do not serve until this holds."
    tenant = "select set_config('canopy.tenant', %s, true)"
    row = (
        "insert into requests (tenant_id, request_id, decision_id, decided_at, body_hash)"
        " values (%s, 'doctor', gen_random_uuid(), now(), '')"
    )
    connection.execute(tenant, ("doctor-a",))
    connection.execute(row, ("doctor-a",))
    connection.execute(tenant, ("doctor-b",))
    seen = _scalar(connection, "select count(*) from requests where tenant_id = 'doctor-a'")
    if seen:
        return Check(name, CheckStatus.FAIL, "another tenant's row was read", remedy)
    try:
        connection.execute(row, ("doctor-a",))
    except psycopg.errors.InsufficientPrivilege:
        return Check(name, CheckStatus.OK, "reading and writing across tenants was refused")
    return Check(name, CheckStatus.FAIL, "another tenant's row was written", remedy)


def _redis(settings: Settings) -> Iterator[Check]:
    try:
        address = settings.redis_url or redis_url(redis_place(settings.home))
        with redis.Redis.from_url(address, socket_timeout=5, decode_responses=True) as client:
            client.ping()
            version = client.info("server")["redis_version"]
            yield Check("Redis", CheckStatus.OK, f"answers, version {version}")
            yield _keeping(lambda name: client.config_get(name)[name])
    except (CanopyError, redis.RedisError, ValueError) as error:
        yield Check(
            "Redis", CheckStatus.FAIL, str(error).strip(), "Run `canopy up`; check its address."
        )


def _keeping(setting: Callable[[str], str]) -> Check:
    wanted = {"appendonly": "yes", "maxmemory-policy": "noeviction"}
    try:
        found = {name: setting(name) for name in wanted}
    except redis.ResponseError:
        return Check(
            "Redis keeps data",
            CheckStatus.WARN,
            "the service does not show its settings",
            "See to it that persistence is on and the eviction policy is noeviction.",
        )
    listed = ", ".join(f"{name} {value}" for name, value in found.items())
    if found == wanted:
        return Check("Redis keeps data", CheckStatus.OK, listed)
    return Check(
        "Redis keeps data",
        CheckStatus.FAIL,
        listed,
        "Set appendonly yes and maxmemory-policy noeviction: queued work would be lost.",
    )


def _processes(settings: Settings) -> list[Check]:
    return [
        Check(f"process {entry.name}", CheckStatus.OK, f"pid {entry.pid} at {entry.address}")
        if is_alive(entry)
        else Check(
            f"process {entry.name}",
            CheckStatus.WARN,
            f"pid {entry.pid} is gone",
            "Start it again, or run `canopy down` to forget it.",
        )
        for entry in registered(settings.home)
    ]


@contextmanager
def _reading(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection whose every change is undone."""
    connection = psycopg.connect(address, connect_timeout=5)
    try:
        yield connection
    finally:
        connection.rollback()
        connection.close()


def _scalar(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]
