"""Fetching the small Open Bandit Dataset out of the published obp wheel, once.

The wheel is opened as an archive and only its data is taken: the package itself is never
installed or imported.
"""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from rich.console import Console
from rich.progress import Progress

from canopy.domain.errors import LogError, ServiceUnreachableError

REQUIREMENT: Final = "obp==0.4.1"
WHEEL: Final = "obp-0.4.1-py3-none-any.whl"
SHA256: Final = "87dec9caf4283c25ab13036532e0a24566f1c7bdcad1653a8ded43b2f5ef8208"

_DATA: Final = "obp/dataset/obd/"
_PRIOR: Final = "obp/policy/conf/prior_bts.yaml"
_TIMEOUT_S: Final = 300


def fetch_obd(home: Path, progress: Progress | None = None) -> Path:
    """Have the small Open Bandit Dataset on disk; the second time nothing is downloaded.

    Args:
        home: Canopy's home folder; the data goes to `data/obd` below it. A wheel that already
            lies in `data` is used instead of the network.
        progress: Where to show progress; None shows a bar of its own on standard error.

    Returns:
        The folder with `random/all`, `bts/women`, … and `prior_bts.yaml`.

    Raises:
        ServiceUnreachableError: If the package index does not answer.
        LogError: If what came is not the published wheel.
    """
    folder = home / "data" / "obd"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _shown(progress) as bar, tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        task = bar.add_task("Open Bandit Dataset: downloading (1.3 MB)", total=None)
        wheel = folder.parent / WHEEL
        if not wheel.is_file():
            wheel = _download(Path(scratch))
        _verify(wheel)
        unfinished = Path(scratch) / "obd"
        _extract(wheel, unfinished)
        # Whole or not at all: another process may have been quicker, and then its copy stands.
        if not folder.is_dir():
            unfinished.rename(folder)
        bar.update(task, description="Open Bandit Dataset", total=1, completed=1)
    return folder


@contextmanager
def _shown(progress: Progress | None) -> Iterator[Progress]:
    if progress is not None:
        yield progress
        return
    with Progress(console=Console(stderr=True), transient=True) as own:
        yield own


def _download(folder: Path) -> Path:
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary", ":all:", "--dest", str(folder), REQUIREMENT,
    ]  # fmt: skip
    try:
        ended = subprocess.run(  # noqa: S603 - pip with fixed arguments
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceUnreachableError(
            "the package index", f"no answer within {_TIMEOUT_S} s.", _by_hand(folder)
        ) from error
    if ended.returncode != 0 or not (folder / WHEEL).is_file():
        last = (ended.stderr.strip().splitlines() or ["pip ended without a word."])[-1]
        raise ServiceUnreachableError("the package index", last, _by_hand(folder))
    return folder / WHEEL


def _by_hand(folder: Path) -> str:
    return f"Download {WHEEL} elsewhere and put it into {folder.parent}."


def _verify(wheel: Path) -> None:
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != SHA256:
        raise LogError(
            str(wheel), f"its SHA-256 is {found}, the published wheel has {SHA256}.",
            "Remove the file and fetch it again.",
        )  # fmt: skip


def _extract(wheel: Path, folder: Path) -> None:
    with ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name == _PRIOR:
                target = folder / "prior_bts.yaml"
            elif name.startswith(_DATA) and name.endswith(".csv"):
                target = folder / name.removeprefix(_DATA)
            else:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))
