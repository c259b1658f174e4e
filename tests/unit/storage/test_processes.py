import json
import os
import signal
import subprocess
import sys

import pytest

from canopy.storage.embedded.processes import (
    find,
    forget,
    is_alive,
    register,
    registered,
    running,
    start_mark,
    stop_all,
)

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
""",
]


@pytest.fixture
def child():
    with subprocess.Popen(SLEEP) as started:
        yield started
        started.kill()


def test_a_registered_process_is_found_until_it_ends(tmp_path, child):
    entry = register(tmp_path, "http", child.pid, "http://127.0.0.1:1")
    assert running(tmp_path) == [entry]
    child.kill()
    child.wait()
    assert running(tmp_path) == []
    assert registered(tmp_path) == [entry]


def test_a_zombie_is_not_alive(child):
    assert start_mark(child.pid) is not None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_mark(child.pid) is None


def test_a_stranger_under_a_reused_pid_is_never_signalled(tmp_path, child):
    register(tmp_path, "http", child.pid, None)
    path = tmp_path / "run" / "http.json"
    entry = json.loads(path.read_text())
    boot, _, tick = entry["started"].rpartition(":")
    path.write_text(json.dumps(entry | {"started": f"{boot}:{int(tick) - 1}"}))
    assert stop_all(tmp_path) == ()
    assert child.poll() is None
    assert registered(tmp_path) == []


def test_stopping_ends_the_process_and_forgets_it(tmp_path, child):
    register(tmp_path, "http", child.pid, None)
    # The child is ours and not reaped while we wait, so it ends as a zombie, which counts.
    assert stop_all(tmp_path) == ("http",)
    assert child.wait(5) == -signal.SIGTERM
    assert stop_all(tmp_path) == ()


def test_a_process_that_ignores_the_gentle_signal_is_killed(tmp_path):
    with subprocess.Popen(STUBBORN, stdout=subprocess.PIPE, text=True) as stubborn:
        assert stubborn.stdout.readline() == "ready\n"
        register(tmp_path, "mlflow", stubborn.pid, None)
        assert stop_all(tmp_path, wait_s=0.1) == ("mlflow",)
        assert stubborn.wait(5) == -signal.SIGKILL


def test_files_that_are_no_entries_are_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "other.json").write_text("[1]")
    assert registered(tmp_path) == []
    forget(tmp_path, "unknown")
    assert (tmp_path / "run" / "other.json").exists()


def test_a_new_entry_replaces_the_old_one_of_its_name(tmp_path):
    register(tmp_path, "http", 2**22 + 1, None)
    entry = register(tmp_path, "http", os.getpid(), "here")
    assert registered(tmp_path) == [entry]
    assert is_alive(entry)


def test_a_process_forgets_itself_but_not_its_successor(tmp_path, child):
    entry = register(tmp_path, "http", child.pid, "here")
    assert find(tmp_path, "http") == entry
    assert find(tmp_path, "mlflow") is None
    forget(tmp_path, "http", child.pid + 1)
    assert find(tmp_path, "http") == entry
    forget(tmp_path, "http", child.pid)
    assert find(tmp_path, "http") is None
