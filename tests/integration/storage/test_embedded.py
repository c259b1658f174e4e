import contextlib
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import redis

from canopy.settings import Settings
from canopy.storage.embedded.paths import OPEN_ROOT, copy_binaries, path_key, wheel_folder
from canopy.storage.servers import endpoints_if_running, ensure_servers, stop_servers

pytestmark = pytest.mark.integration

AS_ROOT = os.geteuid() == 0
START = "from canopy.settings import load_settings as s\nfrom canopy.storage import servers\n"


@pytest.fixture
def new_home(new_folder):
    """A folder that every account can reach; whatever runs below it ends with the test."""
    folder = new_folder("canopy-embedded-")
    home = folder / "home"
    yield home
    with contextlib.suppress(Exception):
        stop_servers(Settings(home=home))
    _kill_below(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def shared_home(new_folder):
    """One started installation for the tests that leave it as they found it."""
    folder = new_folder("canopy-embedded-")
    settings = Settings(home=folder / "home")
    ensure_servers(settings)
    yield settings
    stop_servers(settings)
    shutil.rmtree(folder, ignore_errors=True)


def _kill_below(folder):
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if any(word.startswith(os.fsencode(folder)) for word in words):
                os.kill(int(entry.name), signal.SIGKILL)


def _answer(endpoints):
    with psycopg.connect(endpoints.database_url) as connection:
        started = connection.execute("select pg_postmaster_start_time()").fetchone()[0]
    with redis.Redis.from_url(endpoints.redis_url) as client:
        return started, client.info("server")["run_id"]


def _postmaster(settings):
    return int((settings.home / "postgres/pg/postmaster.pid").read_text().split()[0])


def test_a_running_server_is_attached_to(shared_home):
    first = _answer(ensure_servers(shared_home))
    assert _answer(ensure_servers(shared_home)) == first
    assert endpoints_if_running(shared_home) is not None


def test_postgres_is_18_and_redis_keeps_what_it_is_given(shared_home):
    endpoints = ensure_servers(shared_home)
    with psycopg.connect(endpoints.database_url) as connection:
        assert connection.info.server_version // 10_000 == 18
        for setting in ("synchronous_commit", "fsync"):
            assert connection.execute(f"show {setting}").fetchone() == ("on",)
    with redis.Redis.from_url(endpoints.redis_url, decode_responses=True) as client:
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("save") == {"save": ""}


def test_folders_of_the_servers_are_closed_to_others(shared_home):
    for name in ("postgres", "postgres/socket", "postgres/pg", "redis", "redis/socket"):
        assert stat.S_IMODE((shared_home.home / name).stat().st_mode) == 0o700


def test_a_killed_postgres_recovers_with_its_data(shared_home):
    endpoints = ensure_servers(shared_home)
    with psycopg.connect(endpoints.database_url, autocommit=True) as connection:
        connection.execute("create table if not exists kept (n int)")
        connection.execute("insert into kept values (1)")
    os.kill(_postmaster(shared_home), signal.SIGKILL)
    with psycopg.connect(ensure_servers(shared_home).database_url) as connection:
        assert connection.execute("select count(*) > 0 from kept").fetchone() == (True,)


def test_a_killed_redis_recovers_with_its_data(shared_home):
    endpoints = ensure_servers(shared_home)
    with redis.Redis.from_url(endpoints.redis_url) as client:
        client.set("kept", "1")
        client.config_set("appendfsync", "always")  # this write is on disk before the kill
        client.set("kept", "2")
        os.kill(client.info("server")["process_id"], signal.SIGKILL)
    with redis.Redis.from_url(ensure_servers(shared_home).redis_url) as client:
        assert client.get("kept") == b"2"


def test_stopping_says_what_was_stopped_and_starting_again_keeps_the_data(shared_home):
    endpoints = ensure_servers(shared_home)
    with redis.Redis.from_url(endpoints.redis_url) as client:
        client.set("through", "shutdown")
    assert stop_servers(shared_home) == ("redis", "postgres")
    assert stop_servers(shared_home) == ()
    assert endpoints_if_running(shared_home) is None
    with redis.Redis.from_url(ensure_servers(shared_home).redis_url) as client:
        assert client.get("through") == b"shutdown"


def test_eight_processes_at_once_start_one_server_of_each_kind(new_home):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["canopy.storage.servers"])
    settings = Settings(home=new_home)
    started = [context.Process(target=ensure_servers, args=(settings,)) for _ in range(8)]
    for one in started:
        one.start()
    for one in started:
        one.join(60)
        assert one.exitcode == 0
        one.close()
    assert (new_home / "postgres/log").read_text().count("starting PostgreSQL") == 1
    assert (new_home / "redis/redis.log").read_text().count("Redis is starting") == 1


@pytest.mark.parametrize("moment", ["postgres/pg.init.*/PG_VERSION", "postgres/pg/postmaster.pid"])
def test_a_caller_killed_while_starting_leaves_nothing_in_the_way(new_home, moment):
    caller = subprocess.Popen(
        [sys.executable, "-c", f"{START}servers.ensure_servers(s().settings)"],
        env=os.environ | {"CANOPY_HOME": str(new_home)},
    )
    while not list(new_home.glob(moment)):
        assert caller.poll() is None
        time.sleep(0.002)
    caller.kill()
    caller.wait()
    assert _answer(ensure_servers(Settings(home=new_home)))


def test_below_a_closed_folder_every_mode_stays_as_it_is(new_home):
    closed = new_home.parent / "closed"
    closed.mkdir(mode=0o700)
    settings = Settings(home=closed / "home")
    modes = {path: path.stat().st_mode for path in (closed, *closed.parents)}
    away = OPEN_ROOT / f"canopy-{path_key(settings.home)}"
    try:
        endpoints = ensure_servers(settings)
        assert _answer(endpoints)
        assert {path: path.stat().st_mode for path in modes} == modes
        assert away.exists() == AS_ROOT
        assert bool(endpoints.notes) == AS_ROOT
    finally:
        stop_servers(settings)
        shutil.rmtree(away, ignore_errors=True)


@pytest.mark.skipif(not AS_ROOT, reason="the suite itself runs as an ordinary user")
def test_an_ordinary_user_starts_and_stops_both_servers(new_home):
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    os.chown(new_home.parent, 65534, 65534)
    script = f"{START}print(servers.ensure_servers(s().settings))\n"
    script += "print(servers.stop_servers(s().settings))"
    as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run(
        [*as_user, sys.executable, "-B", "-c", script],
        env={"CANOPY_HOME": str(new_home), "PATH": os.environ["PATH"]},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if "Permission denied" in done.stderr and sys.prefix in done.stderr:
        pytest.skip("the environment lies in a folder this user cannot read")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("('redis', 'postgres')\n")


def test_a_home_too_deep_for_a_socket_gets_a_short_one(new_home):
    settings = Settings(home=new_home / ("deep" * 10) / ("er" * 40))
    endpoints = ensure_servers(settings)
    socket = Path(psycopg.conninfo.conninfo_to_dict(endpoints.database_url)["host"])
    try:
        assert _answer(endpoints)
        assert socket.parent == Path("/tmp")
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    finally:
        stop_servers(settings)
        for folder in (socket, Path(endpoints.redis_url.removeprefix("unix://")).parent):
            shutil.rmtree(folder, ignore_errors=True)


def test_copied_binaries_run_and_are_copied_once(tmp_path):
    copy = copy_binaries(wheel_folder("pgserver", "Postgres", "-"), tmp_path)
    shown = subprocess.run(
        [copy / "pgserver/pginstall/bin/postgres", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith("postgres (PostgreSQL) 18")
    assert copy_binaries(wheel_folder("pgserver", "Postgres", "-"), tmp_path) == copy
    assert [path.name for path in tmp_path.iterdir()] == [copy.name]
