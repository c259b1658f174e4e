"""Fixtures of every test: real servers, a fresh database per test, the reference data.

One embedded Postgres and one Redis serve a whole run, also under xdist: whoever starts the
run owns their folder and stops them at its end; workers find it through the environment.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from canopy.settings import Settings
from canopy.storage.database import Database
from canopy.storage.migrate import migrating, upgrade_connected
from canopy.storage.servers import APP_ROLE, Endpoints, ensure_servers, stop_servers

HOME_VARIABLE = "CANOPY_TESTS_HOME"
HOME_PREFIX = "canopy-tests-"
TEMPLATE = "canopy_tests_template"
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 8_000_000_000

_owned: list[tuple[Path, int]] = []


def pytest_configure(config):
    if HOME_VARIABLE in os.environ:
        return
    _sweep()
    home = open_folder(HOME_PREFIX)
    _owned.append((home, _hold(home)))
    os.environ[HOME_VARIABLE] = str(home)


def open_folder(prefix: str) -> Path:
    """A new folder for servers, in memory where there is plenty: tests need no power failure.

    Not below pytest's own base folder: that one is closed, and as root Postgres runs as an
    account that could not reach it.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=_scratch()))
    folder.chmod(0o755)
    return folder


def _scratch() -> Path:
    if os.access(MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        return MEMORY
    return Path(tempfile.gettempdir())


def pytest_unconfigure(config):
    for home, handle in _owned:
        _remove(home)
        os.close(handle)
        os.environ.pop(HOME_VARIABLE, None)
    _owned.clear()


def _hold(home: Path) -> int:
    """Lock a run's folder: the kernel lets go of it when the run ends, however it ends."""
    handle = os.open(home / "owner", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def _remove(home: Path) -> None:
    stop_servers(Settings(home=home / "home"))
    shutil.rmtree(home, ignore_errors=True)


def _sweep() -> None:
    """Stop what a killed run left behind."""
    for home in _scratch().glob(HOME_PREFIX + "*"):
        if home.stat().st_uid != os.geteuid() or not (home / "owner").exists():
            continue
        try:
            handle = _hold(home)
        except BlockingIOError:
            continue
        _remove(home)
        os.close(handle)


@dataclass(frozen=True)
class Fresh:
    """A database of one test.

    Attributes:
        admin: Connection string of the superuser.
        app: Connection string of the application's plain role.
    """

    admin: str
    app: str


@pytest.fixture(scope="session")
def new_folder():
    """Makes folders as `open_folder` does, for tests that start servers of their own."""
    return open_folder


@pytest.fixture(scope="session")
def servers_settings():
    """Settings of the run's embedded servers; tests of data use `settings` instead."""
    return Settings(home=Path(os.environ[HOME_VARIABLE]) / "home")


@pytest.fixture(scope="session")
def servers(servers_settings) -> Endpoints:
    """The run's Postgres and Redis."""
    return ensure_servers(servers_settings)


@pytest.fixture(scope="session")
def template(servers, servers_settings) -> str:
    """Name of a migrated database to copy."""
    with (servers_settings.home / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _admin(servers) as connection:
            known = "select datistemplate from pg_database where datname = %s"
            found = connection.execute(known, (TEMPLATE,)).fetchone()
            if found is None or not found[0]:
                connection.execute(f"drop database if exists {TEMPLATE}")
                connection.execute(f"create database {TEMPLATE}")
                with migrating(make_conninfo(servers.database_url, dbname=TEMPLATE)) as schema:
                    upgrade_connected(schema)
                connection.execute(f"alter database {TEMPLATE} is_template true")
    return TEMPLATE


@pytest.fixture(scope="session")
def copy_template(servers, template):
    """Makes a context of a migrated, empty database that goes when it is left."""

    @contextmanager
    def copy() -> Iterator[Fresh]:
        name = f"test_{uuid4().hex[:12]}"
        with _admin(servers) as connection:
            connection.execute(f"create database {name} template {template}")
        admin = make_conninfo(servers.database_url, dbname=name)
        try:
            yield Fresh(admin, make_conninfo(admin, user=APP_ROLE))
        finally:
            with _admin(servers) as connection:
                for each in (name, f"{name}_mlflow"):
                    connection.execute(f"drop database if exists {each} with (force)")

    return copy


@pytest.fixture
def fresh_database(copy_template) -> Iterator[Fresh]:
    """A migrated, empty database of this test's own."""
    with copy_template() as fresh:
        yield fresh


@pytest.fixture
def settings(servers, fresh_database, tmp_path) -> Settings:
    """Settings of an installation of this test's own: home folder and database."""
    return Settings(
        home=tmp_path / "home", database_url=fresh_database.admin, redis_url=servers.redis_url
    )


@pytest.fixture
def database(fresh_database) -> Iterator[Database]:
    """The test's database, as the application sees it; the same one that `settings` names."""
    with Database(fresh_database.app) as opened:
        yield opened


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Folder of the reference data; tests that need it are marked `reference`."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CANOPY_REFERENCE_DATA") or beside)
    if not folder.is_dir():
        pytest.skip(f"no reference data in {folder}: name its folder in CANOPY_REFERENCE_DATA")
    return folder


def _admin(servers: Endpoints) -> psycopg.Connection:
    return psycopg.connect(servers.database_url, autocommit=True)
