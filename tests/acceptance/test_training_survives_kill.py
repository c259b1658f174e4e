"""`canopy-train` killed with SIGKILL, and asked again in the same words."""

import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from canopy.logs.world import FactoredWorld

pytestmark = pytest.mark.acceptance

N_KILLS = 3


def words(log, home):
    return [
        sys.executable, "-c", "from training.cli import main; main()", f"data.path={log}",
        "objective=doubly_robust", "seed=3", "runtime.tracking=off", "print=json",
        "optim.epochs=40", "optim.patience=40", "optim.batch_size=64",
        f"out={home}/policies", "name=p",
    ]  # fmt: skip


def trained(log, home):
    environment = {**os.environ, "CANOPY_HOME": str(home)}
    done = subprocess.run(
        words(log, home), env=environment, capture_output=True, text=True, check=True, cwd=home
    )
    document = json.loads(done.stdout)
    with pathlib.Path(f"{document['artifact']}/weights.safetensors").open("rb") as weights:
        return document["policy_id"], hashlib.sha256(weights.read()).hexdigest()


def test_a_run_that_was_killed_ends_in_the_same_policy(tmp_path):
    log = tmp_path / "log.parquet"
    FactoredWorld.create((3, 3), n_features=6).write_log(log, 6_000, 1)
    homes = [tmp_path / name for name in ("whole", "killed")]
    for home in homes:
        home.mkdir()
    started = time.monotonic()
    whole = trained(log, homes[0])
    lasts = time.monotonic() - started
    saved = homes[1] / "runs" / "checkpoints"
    rng = random.Random(0)
    n_passes = []
    for _ in range(N_KILLS):
        run = subprocess.Popen(
            words(log, homes[1]), env={**os.environ, "CANOPY_HOME": str(homes[1])}, cwd=homes[1],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        before = {path: path.stat().st_mtime_ns for path in saved.rglob("fit-*")}
        while run.poll() is None:
            now = {path: path.stat().st_mtime_ns for path in saved.rglob("fit-*")}
            if now != before:
                break
            time.sleep(0.01)
        time.sleep(rng.random() * lasts / 20)
        run.send_signal(signal.SIGKILL)
        run.wait()
        n_passes.append(len(list(saved.rglob("fit-*"))))
    assert n_passes[-1] > 0, "it was killed before anything was kept"
    assert trained(log, homes[1]) == whole
    assert not list(saved.rglob("fit-*")), "a finished run keeps no checkpoints"
