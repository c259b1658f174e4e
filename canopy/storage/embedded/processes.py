"""Background processes of an installation, so that `canopy down` finds them again.

A pid alone names nobody: it is handed out again. Each entry keeps the boot and the tick at
which the kernel started the process, and only the process with both is ever signalled.
"""

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

STOP_WAIT_S: Final = 10.0
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class RegisteredProcess:
    """A background process.

    Attributes:
        name: What it is, such as `http`.
        pid: Its process id.
        address: Where it answers; None where it answers nowhere.
        started: Boot id and start tick; None where the system does not tell.
    """

    name: str
    pid: int
    address: str | None
    started: str | None


def register(home: Path, name: str, pid: int, address: str | None) -> RegisteredProcess:
    """Remember a running process under its name; an earlier one of that name is forgotten."""
    entry = RegisteredProcess(name, pid, address, start_mark(pid))
    folder = home / "run"
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}.{os.getpid()}"
    draft.write_text(json.dumps(asdict(entry)), encoding="utf-8")
    draft.replace(folder / f"{name}.json")
    return entry


def find(home: Path, name: str) -> RegisteredProcess | None:
    """The living process of that name; None if there is none."""
    return next((entry for entry in running(home) if entry.name == name), None)


def forget(home: Path, name: str, pid: int | None = None) -> None:
    """Remove the entry of a process that ends by itself.

    Args:
        home: Folder of the installation.
        name: What it is registered as.
        pid: Only if it is this one's: a successor may have registered since. None for any.
    """
    if pid is not None and all((e.name, e.pid) != (name, pid) for e in registered(home)):
        return
    (home / "run" / f"{name}.json").unlink(missing_ok=True)


def running(home: Path) -> list[RegisteredProcess]:
    """The registered processes that are still there, by name."""
    return [entry for entry in registered(home) if is_alive(entry)]


def registered(home: Path) -> list[RegisteredProcess]:
    """Every entry, whether its process lives or not, by name."""
    entries = []
    for path in sorted((home / "run").glob("*.json")):
        try:
            entries.append(RegisteredProcess(**json.loads(path.read_text(encoding="utf-8"))))
        except (ValueError, TypeError, FileNotFoundError):
            continue  # somebody else's file, or forgotten this instant
    return entries


def is_alive(entry: RegisteredProcess) -> bool:
    """True if the very process of the entry runs, not another one under its pid."""
    return entry.started is not None and start_mark(entry.pid) == entry.started


def stop_all(home: Path, wait_s: float = STOP_WAIT_S) -> tuple[str, ...]:
    """End every registered process, gently first.

    Args:
        home: Folder of the installation.
        wait_s: Seconds each may take to end by itself.

    Returns:
        The names of those that were running.
    """
    stopped = []
    for entry in registered(home):
        if is_alive(entry):
            _stop(entry, wait_s)
            stopped.append(entry.name)
        forget(home, entry.name)
    return tuple(stopped)


def start_mark(pid: int) -> str | None:
    """Boot id and start tick of a process; None if it is gone, a zombie, or not told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    # The command's name may hold spaces and brackets; the fields follow its last bracket.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else f"{boot}:{fields[19]}"


def _stop(entry: RegisteredProcess, wait_s: float) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            if os.getpgid(entry.pid) == entry.pid:
                os.killpg(entry.pid, number)  # it leads a group: its workers go with it
            else:
                os.kill(entry.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if not is_alive(entry):
                return
            time.sleep(POLL_S)
