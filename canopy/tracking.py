"""Experiment tracking: the one module that imports mlflow, and only when it is used.

tracker = open_tracker(settings)
with tracker.run("world", "awr") as run:
    run.log_metrics({"served_value": 0.6})
tracker.register("world", folder, run=run)
"""

import contextlib
import fcntl
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from sqlalchemy import create_engine

from canopy.domain.clock import now
from canopy.domain.errors import NotFoundError, ServiceUnreachableError
from canopy.settings import Settings
from canopy.storage.embedded import processes
from canopy.storage.servers import mlflow_url

CANDIDATE: Final = "candidate"
"""Alias of a newly trained version."""

SERVER: Final = "mlflow"
"""Name under which `canopy down` finds the server."""

LOOPBACK: Final = "127.0.0.1"

_QUIET: Final = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
}
_LEAN: Final = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
_METRICS_AT_ONCE: Final = 1000
_PARAMS_AT_ONCE: Final = 100
_LONGEST_VALUE: Final = 5000
_START_WAIT_S: Final = 90.0
_POLL_S: Final = 0.2
_HEALTH_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A version of a registered model.

    Attributes:
        name: Of the model.
        version: Counted by MLflow.
        alias: The alias that now points to it.
        source: Where its artifact lies.
    """

    name: str
    version: int
    alias: str
    source: str


class TrackedRun:
    """One run, open for writing.

    Attributes:
        run_id: Its id in MLflow.
        artifact_uri: Where its files go.
    """

    def __init__(self, client: Any, run_id: str, artifact_uri: str) -> None:
        self._client = client
        self.run_id = run_id
        self.artifact_uri = artifact_uri

    def log_params(self, params: Mapping[str, object]) -> None:
        """Record settings; long values are cut."""
        from mlflow.entities import Param

        entries = [Param(key, str(value)[:_LONGEST_VALUE]) for key, value in params.items()]
        for start in range(0, len(entries), _PARAMS_AT_ONCE):
            with _contained():
                self._client.log_batch(self.run_id, params=entries[start : start + _PARAMS_AT_ONCE])

    def log_metrics(self, metrics: Mapping[str, float | None], step: int = 0) -> None:
        """Record numbers; what was not measured is left out and never 0."""
        self._log([(name, value, step) for name, value in metrics.items() if value is not None])

    def log_curve(self, name: str, values: Sequence[float]) -> None:
        """Record a number per step, in few calls."""
        self._log([(name, value, step) for step, value in enumerate(values)])

    def set_tags(self, tags: Mapping[str, object]) -> None:
        """Record words about the run."""
        from mlflow.entities import RunTag

        entries = [RunTag(key, str(value)[:_LONGEST_VALUE]) for key, value in tags.items()]
        with _contained():
            self._client.log_batch(self.run_id, tags=entries)

    def log_bytes(self, name: str, content: bytes) -> None:
        """Record a file by its content: a picture, a page, a document."""
        with tempfile.TemporaryDirectory() as folder, _contained():
            path = Path(folder) / Path(name).name
            path.write_bytes(content)
            parent = str(Path(name).parent)
            self._client.log_artifact(self.run_id, path, None if parent == "." else parent)

    def read_bytes(self, name: str) -> bytes:
        """A recorded file's content.

        Args:
            name: Its name within the run.

        Raises:
            NotFoundError: If the run has no such file.
        """
        from mlflow.exceptions import MlflowException

        with tempfile.TemporaryDirectory() as folder, _contained():
            try:
                return Path(self._client.download_artifacts(self.run_id, name, folder)).read_bytes()
            except (MlflowException, OSError) as error:
                raise NotFoundError(
                    "file", f"{name} of run {self.run_id}", "A run that was cut short has none."
                ) from error

    def log_folder(self, folder: Path, name: str) -> str:
        """Record a folder's files under a name; gives their address."""
        with _contained():
            self._client.log_artifacts(self.run_id, folder, name)
        return f"{self.artifact_uri}/{name}"

    def _log(self, points: Sequence[tuple[str, float, int]]) -> None:
        from mlflow.entities import Metric

        at = int(now().timestamp() * 1000)
        entries = [Metric(name, float(value), at, step) for name, value, step in points]
        for start in range(0, len(entries), _METRICS_AT_ONCE):
            with _contained():
                self._client.log_batch(
                    self.run_id, metrics=entries[start : start + _METRICS_AT_ONCE]
                )


class Tracker:
    """A place where runs and models are recorded."""

    def __init__(self, client: Any, home: Path, *, is_remote: bool) -> None:
        self._client = client
        self._home = home
        self._is_remote = is_remote

    @contextlib.contextmanager
    def run(self, experiment: str, name: str) -> Iterator[TrackedRun]:
        """One run; it ends as FAILED where the block raises."""
        with _contained():
            opened = self._client.create_run(self._experiment(experiment), run_name=name)
        run_id = opened.info.run_id
        status = "FAILED"
        try:
            yield TrackedRun(self._client, run_id, opened.info.artifact_uri)
            status = "FINISHED"
        finally:
            with _contained():
                self._client.set_terminated(run_id, status)

    def finished(self, run_id: str) -> TrackedRun:
        """A run that is there, to add files to.

        Args:
            run_id: Its id.

        Raises:
            NotFoundError: If there is none.
        """
        from mlflow.exceptions import MlflowException

        try:
            with _contained():
                found = self._client.get_run(run_id)
        except MlflowException as error:
            raise NotFoundError("run", run_id, "MLflow's pages list them.") from error
        return TrackedRun(self._client, run_id, found.info.artifact_uri)

    def register(
        self,
        model: str,
        folder: Path,
        *,
        run: TrackedRun | None = None,
        alias: str = CANDIDATE,
        tags: Mapping[str, object] | None = None,
    ) -> ModelVersion:
        """Make an artifact folder the newest version of a registered model.

        Args:
            model: Name of the model; made when it is missing.
            folder: The artifact.
            run: The run that made it, which then keeps a copy; None registers the folder itself.
            alias: Points to this version from now on.
            tags: Words about the version.
        """
        from mlflow.exceptions import MlflowException

        name = model.replace("/", "-").replace(":", "-")
        source = folder.absolute().as_uri() if run is None else run.log_folder(folder, "policy")
        with _contained():
            # Two runs may make it at once: the second finds it made.
            with contextlib.suppress(MlflowException):
                self._client.create_registered_model(name)
            made = self._client.create_model_version(
                name,
                source,
                run_id=None if run is None else run.run_id,
                tags={key: str(value) for key, value in (tags or {}).items()},
            )
            self._client.set_registered_model_alias(name, alias, made.version)
        return ModelVersion(name, int(made.version), alias, source)

    def _experiment(self, name: str) -> str:
        with _locked(self._home):
            known = self._client.get_experiment_by_name(name)
            if known is not None:
                return str(known.experiment_id)
            place = None if self._is_remote else _artifact_root(self._home)
            return str(self._client.create_experiment(name, artifact_location=place))


def open_tracker(settings: Settings) -> Tracker:
    """Connect to the place of record: the address in the settings, else a database of our own.

    Raises:
        ServiceUnreachableError: If it does not answer.
    """
    address = mlflow_url(settings)
    os.environ.update(_QUIET)
    with _contained():
        from mlflow import MlflowClient

        try:
            _probe(address)
            # The first to come makes the tables, and makes them alone: two at once fail.
            with _locked(settings.home):
                client = MlflowClient(tracking_uri=address, registry_uri=address)
                client.search_experiments(max_results=1)
        except Exception as error:
            # Whatever its store raises, from SQL to HTTP, means the same to a run.
            problem = str(error).strip().splitlines()[0]
            raise ServiceUnreachableError(
                "MLflow", f"{type(error).__name__}: {problem}.",
                "Start it, unset CANOPY_MLFLOW_URL, or train with runtime.tracking=off.",
            ) from error  # fmt: skip
    return Tracker(client, settings.home, is_remote=_is_http(address))


def serve_ui(settings: Settings, port: int = 0) -> str:
    """The address of MLflow's pages, started in the background where they do not answer yet.

    Args:
        settings: Whose runs to show; a tracking server named there is given back as it is.
        port: Loopback port; 0 picks a free one.

    Returns:
        The address. `canopy down` stops what was started.

    Raises:
        ServiceUnreachableError: If it does not come up.
    """
    address = mlflow_url(settings)
    if _is_http(address):
        return address
    with _locked(settings.home):
        for entry in processes.running(settings.home):
            if entry.name == SERVER and entry.address and _answers(entry.address):
                return entry.address
        return _start_server(settings.home, address, port or _free_port())


def _start_server(home: Path, store: str, port: int) -> str:
    log_path = home / "mlflow" / "server.log"
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", LOOPBACK, "--port", str(port),
        "--workers", "1", "--default-artifact-root", _artifact_root(home),
    ]  # fmt: skip
    # The store's address may hold a password: the environment keeps it out of process lists.
    environment = os.environ | _QUIET | _LEAN | {"MLFLOW_BACKEND_STORE_URI": store}
    with log_path.open("ab") as output:
        child = subprocess.Popen(  # noqa: S603 - our own command
            command, env=environment, cwd=home, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    address = f"http://{LOOPBACK}:{port}"
    processes.register(home, SERVER, child.pid, address)
    deadline = time.monotonic() + _START_WAIT_S
    while time.monotonic() < deadline and child.poll() is None:
        if _answers(address):
            # It outlives this process on purpose; nobody is to be warned that it does.
            child.returncode = 0
            return address
        time.sleep(_POLL_S)
    child.kill()
    child.wait()
    processes.forget(home, SERVER)
    raise ServiceUnreachableError("MLflow's server", "it did not come up.", f"See {log_path}.")


def _probe(address: str) -> None:
    """Touch a database once: mlflow by itself goes on trying a dead one for two minutes."""
    if not address.startswith("postgresql"):
        return
    engine = create_engine(address)
    try:
        engine.connect().close()
    finally:
        engine.dispose()


def _answers(address: str) -> bool:
    try:
        with httpx.Client(trust_env=False, timeout=_HEALTH_TIMEOUT_S) as client:
            return client.get(f"{address}/health").is_success
    except httpx.HTTPError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _is_http(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def _artifact_root(home: Path) -> str:
    return (home.absolute() / "mlflow" / "artifacts").as_uri()


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    folder = home / "mlflow"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _contained() -> Iterator[None]:
    """Keep mlflow's warnings and chatter out of the caller's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        yield
