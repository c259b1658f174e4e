"""Running the HTTP process: in this process, or as one of its own that outlives the caller."""

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Final

import httpx
import uvicorn
from fastapi import FastAPI

from canopy.domain.errors import InputError, ServiceUnreachableError
from canopy.settings import Settings
from canopy.storage.database import Database
from canopy.storage.embedded import processes
from runtime.bootstrap import open_runtime, settle_gc
from runtime.http.app import build_app
from runtime.telemetry import configure_logging

PROCESS: Final = "http"
START_WAIT_S: Final = 60.0
PROBE_TIMEOUT_S: Final = 2.0
DRAIN_S: Final = 30
"""Requests in flight at SIGTERM may take so long; then their connections are closed."""

_BACKLOG: Final = 2048
_CHILD: Final = "from canopy.cli import main; main()"


class _Server(uvicorn.Server):
    """Ends with status 0 after a clean stop: uvicorn's own would raise the signal again."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what is in flight; a second signal changes nothing."""
        self.should_exit = True


def serve(
    settings: Settings, host: str, port: int, announce: Callable[[str], None] | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is in flight and flush the writer.

    Args:
        settings: The installation's.
        host: Address to bind to.
        port: Port to bind to; 0 takes a free one.
        announce: Told the address once it answers; None tells nobody.

    Raises:
        InputError: If the address cannot be bound, or this home already has a server.
        SchemaBehindError: If the schema is not the one this code needs.
        ServiceUnreachableError: If the database does not answer.
    """
    answering = answering_address(settings.home)
    if answering is not None:
        raise InputError(
            "http", f"this home is already served at {answering}.", "Stop it by `canopy down`."
        )
    configure_logging()
    bound = _bind(host, port)

    def on_started() -> None:
        settle_gc()
        # From here on connections queue, so whoever reads the address may use it.
        bound.listen(_BACKLOG)
        processes.register(settings.home, PROCESS, os.getpid(), _address(bound))
        if announce is not None:
            announce(_address(bound))

    try:
        runtime = open_runtime(settings, is_public=not _is_loopback(bound))
        app = build_app(runtime, on_started)
        _run(_Server(_configured(app)), bound)
    finally:
        bound.close()
        processes.forget(settings.home, PROCESS, os.getpid())


def _configured(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=DRAIN_S,
    )


def _run(server: uvicorn.Server, bound: socket.socket) -> None:
    try:
        server.run(sockets=[bound])
    except SystemExit as error:
        # uvicorn's own way to say that start-up failed; 3 would read as a refusal here.
        raise ServiceUnreachableError(
            PROCESS, "start-up failed.", "The lines above say why; run `canopy doctor`."
        ) from error


def serve_in_background(
    settings: Settings, host: str, port: int, config: Path | None = None
) -> str:
    """Start the HTTP process on its own, unless one answers, and wait until it is ready.

    Args:
        settings: The installation's.
        host: Address to bind to.
        port: Port to bind to; 0 takes a free one.
        config: Config file the process reads; None for the one in home.

    Returns:
        The address it answers at.

    Raises:
        SchemaBehindError: If the schema is not the one this code needs.
        ServiceUnreachableError: If it ended or did not become ready; quotes its log.
    """
    with _one_starter(settings.home):
        answering = answering_address(settings.home)
        if answering is not None:
            return answering
        # Asked here first: the caller then reads the refusal itself, not the child's log.
        Database.connect(settings).close()
        log = settings.home / "logs" / f"{PROCESS}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", _CHILD, "http", "--host", host, "--port", str(port)]
        command += ["--config", str(config)] if config else []
        with log.open("ab") as sink:
            start = sink.tell()
            child = subprocess.Popen(  # noqa: S603 - this program itself
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
                env={**os.environ, "CANOPY_HOME": str(settings.home)},
            )
        return _await_ready(settings.home, child, log, start)


def answering_address(home: Path) -> str | None:
    """The address of this home's HTTP process if it answers as ready, else None."""
    found = processes.find(home, PROCESS)
    if found is None or found.address is None:
        return None
    try:
        answer = httpx.get(f"{found.address}/readyz", timeout=PROBE_TIMEOUT_S, trust_env=False)
    except httpx.HTTPError:
        return None
    return found.address if answer.status_code == httpx.codes.OK else None


def _await_ready(home: Path, child: subprocess.Popen[bytes], log: Path, start: int) -> str:
    deadline_s = time.monotonic() + START_WAIT_S
    while time.monotonic() < deadline_s:
        code = child.poll()
        if code is not None:
            raise ServiceUnreachableError(
                "http", f"it ended with {code}: {_tail(log, start)}", f"The log is {log}."
            )
        found = processes.find(home, PROCESS)
        if found is not None and found.pid == child.pid:
            answering = answering_address(home)
            if answering is not None:
                # Left running on purpose; without this the interpreter warns of it at exit.
                child.returncode = 0
                return answering
        time.sleep(0.05)
    child.terminate()
    raise ServiceUnreachableError(
        "http", f"not ready after {START_WAIT_S:.0f} s: {_tail(log, start)}", f"The log is {log}."
    )


def _tail(log: Path, start: int) -> str:
    text = log.read_bytes()[start:].decode(errors="replace").strip()
    return text[-1000:] or "it wrote nothing."


@contextmanager
def _one_starter(home: Path) -> Iterator[None]:
    """Let one caller at a time look and start; the kernel frees the lock of a dead one."""
    folder = home / "run"
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / f"{PROCESS}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise InputError(
            f"{host}:{port}", f"cannot be bound: {error.strerror}.", "Choose another port."
        ) from error
    return bound


def _is_loopback(bound: socket.socket) -> bool:
    return ip_address(bound.getsockname()[0]).is_loopback


def _address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
