"""The embedded Postgres: probe, start once, recover, stop.

Liveness is a connection that answers `select 1`, never a pid: after kill -9 a pid may be a
zombie, may belong to a stranger, or may have been written by a parent that is gone.
"""

import os
import shutil
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo

from canopy.domain.errors import ServiceUnreachableError
from canopy.storage.embedded.paths import Place, postgres_place, start_lock

DATABASE: Final = "canopy"
SUPERUSER: Final = "postgres"
START_TRIES: Final = 20
TRY_PAUSE_S: Final = 0.25
SWEEP_AFTER_S: Final = 600.0
"""An unfinished initdb folder older than this has no writer left."""

_CONFIGURATION: Final = {
    "max_connections": "200",
    "shared_buffers": "256MB",
    "unix_socket_permissions": "0700",
    # Zero-filling each new 16 MB segment stalls commits for tens of milliseconds.
    "wal_init_zero": "off",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
}
# The builtin locale: with any other one the collation would follow the caller's LANG.
_INITDB: Final = (
    *("-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C"),
    *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
)


def conninfo(place: Place, *, user: str = SUPERUSER, database: str = DATABASE) -> str:
    """Connection string of a place's server."""
    return make_conninfo("", host=str(place.socket), user=user, dbname=database)


def start_postgres(home: Path) -> Place:
    """Make sure the Postgres of `home` answers and has the application's database.

    Safe under any number of callers at once and after kill -9 of the server or of a caller.

    Raises:
        ServiceUnreachableError: If it does not come up; the message holds the log's last line.
    """
    place = postgres_place(home)
    if not answers(place):
        with start_lock(place.folder / "lock"):
            if not answers(place, database=SUPERUSER):
                _start(place)
            _create_database(place)
    return place


def answers(place: Place, *, database: str = DATABASE) -> bool:
    """True if the server answers a query on that database."""
    try:
        with psycopg.connect(
            conninfo(place, database=database), connect_timeout=5, autocommit=True
        ) as connection:
            connection.execute("select 1")
    except psycopg.OperationalError:
        return False
    return True


def stop_postgres(home: Path) -> bool:
    """Stop the Postgres of `home`.

    Returns:
        False if none was running.
    """
    if not home.exists() or find_spec("pgserver") is None:
        return False
    place = postgres_place(home)
    with start_lock(place.folder / "lock"):
        if not answers(place, database=SUPERUSER):
            return False
        data = str(place.folder / "pg")
        _run(place, "pg_ctl", "-D", data, "-m", "fast", "-w", "-s", "stop")
    return True


def _start(place: Place) -> None:
    data = place.folder / "pg"
    if not (data / "PG_VERSION").exists():
        _initialise(place, data)
    log = place.folder / "log"
    options = f"-h '' -k '{place.socket}'"
    for _ in range(START_TRIES):
        _forget_dead_server(data)
        started = _run(
            place, "pg_ctl", "-D", str(data), "-w", "-s", "-l", str(log), "-o", options, "start"
        )
        if answers(place, database=SUPERUSER):
            _sweep(place.folder)
            return
        if started == _NOT_FOUND:
            break
        # Children of a killed server leave within a second or two, and hold its memory until then.
        time.sleep(TRY_PAUSE_S)
    raise ServiceUnreachableError(
        "Postgres",
        f"the embedded server did not start: {_last_line(log)}",
        f"Read {log}; `canopy down` and `canopy up` start afresh.",
    )


def _initialise(place: Place, data: Path) -> None:
    # Never a fixed name: an initdb whose caller was killed goes on writing into its folder.
    draft = place.folder / f"pg.init.{os.getpid()}.{time.time_ns()}"
    settings = [part for item in _CONFIGURATION.items() for part in ("-c", "=".join(item))]
    log = place.folder / "initdb.log"
    code = _run(place, "initdb", "-D", str(draft), *_INITDB, *settings, output=log)
    if code != 0:
        raise ServiceUnreachableError(
            "Postgres",
            f"initdb ended with {code}: {_last_line(log)}",
            f"Read {log}; check free disk space and the folder's permissions.",
        )
    draft.rename(data)


def _forget_dead_server(data: Path) -> None:
    """Remove the pid file of a killed server whose pid is a zombie or a stranger's now.

    Postgres itself refuses to start over a pid that answers signals, even a zombie's. The file
    goes only when no live process works in the data folder, which every backend does.
    """
    lock = data / "postmaster.pid"
    if lock.exists() and not any(_works_in(entry, data) for entry in Path("/proc").glob("[0-9]*")):
        lock.unlink(missing_ok=True)


def _works_in(entry: Path, data: Path) -> bool:
    try:
        return (entry / "cwd").readlink() == data
    except OSError:  # gone, a zombie, or somebody else's
        return False


def _create_database(place: Place) -> None:
    with psycopg.connect(
        conninfo(place, database=SUPERUSER), connect_timeout=5, autocommit=True
    ) as connection:
        found = connection.execute("select 1 from pg_database where datname = %s", (DATABASE,))
        if found.fetchone() is None:
            connection.execute(f"create database {DATABASE} template template0")


def _sweep(folder: Path) -> None:
    for draft in folder.glob("pg.init.*"):
        born_s = int(draft.name.rpartition(".")[2]) / 1e9
        if time.time() - born_s > SWEEP_AFTER_S:
            shutil.rmtree(draft, ignore_errors=True)


_NOT_FOUND: Final = 127


def _run(place: Place, program: str, *arguments: str, output: Path | None = None) -> int:
    """Run a program of the server as its account, away from the caller's terminal and folder."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    target = output or Path(os.devnull)
    with target.open("ab") as sink:
        return subprocess.run(
            [str(place.binaries / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd="/",
            env=environment,
            start_new_session=True,
            check=False,
            user=place.account.uid,
            group=place.account.gid,
            extra_groups=None if place.account.uid is None else (),
        ).returncode


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return "nothing was logged."
    return lines[-1] if lines else "nothing was logged."
