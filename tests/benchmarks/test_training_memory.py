"""A hundred times the rows in hardly more memory: `canopy-train` on 1e5 and on 1e7 decisions.

Memory is what the process itself allocated (RssAnon): pages of files that are mapped come and go
with what else the machine does. One fit, one pass; 27 plans, eight numbers of context.
"""

import json
import subprocess
import sys

import numpy as np
import pytest

from canopy.domain.episode import EpisodeKind
from canopy.logs.schema import LogFacts
from canopy.logs.source import metadata_of
from canopy.logs.tabular import log_of
from canopy.logs.world import FactoredWorld

pytestmark = pytest.mark.benchmark

PART = 100_000

CHILD = """
import json, sys, threading, time
peak = 0
def watch():
    global peak
    while True:
        with open("/proc/self/status") as lines:
            found = next(int(l.split()[1]) for l in lines if l.startswith("RssAnon"))
        peak = max(peak, found)
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
from training import cli
started = time.perf_counter()
sys.argv = ["canopy-train", *sys.argv[1:]]
try:
    cli.main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(json.dumps({"megabytes": peak / 1024, "seconds": time.perf_counter() - started}))
"""


def write_log(path, n):
    import pyarrow.parquet as pq

    world = FactoredWorld.create((3, 3, 3), n_features=8, seed=3)
    facts = LogFacts(
        plans=tuple(world.plan_ids), catalog_text=world.catalog_text(), kind=EpisodeKind.SYNTHETIC
    )
    writer = None
    for first in range(0, n, PART):
        drawn = world.sample(PART, first // PART + 1)
        cells = {
            "decision_id": [f"d{first + i}" for i in range(PART)],
            "unit_id": [f"u{(first + i) // 3}" for i in range(PART)],
            "ts": ["2026-01-01T00:00:00Z"] * PART,
            "plan": [world.plan_ids[action] for action in drawn.action],
            "propensity": drawn.propensities[np.arange(PART), drawn.action],
            "reward": drawn.reward,
            "feasible": drawn.mask,
        } | {f"x_x{k}": column for k, column in enumerate(drawn.x.T)}
        table = log_of(cells, facts).table.replace_schema_metadata(metadata_of(facts))
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table)
    writer.close()


def trained(log, home):
    words = [
        f"data.path={log}", f"out={home}/policies", "objective=direct", "optim.epochs=1",
        "head.pair_l2=[0.01]", "head.l2=[1e-5]", "runtime.tracking=off", "runtime.progress=false",
        "print=json",
    ]  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, *words], env={"PATH": "", "CANOPY_HOME": str(home)},
        capture_output=True, text=True, check=False, timeout=1_200,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2_000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_memory_does_not_grow_with_rows(tmp_path, record):
    found = {}
    for n in (100_000, 10_000_000):
        log = tmp_path / f"{n}.parquet"
        write_log(log, n)
        found[n] = trained(log, tmp_path / "home")
        log.unlink()
    few, many = found[100_000], found[10_000_000]
    row = record(
        "ten million rows trained on, peak RssAnon", ours=many["megabytes"], unit="MB",
        peer="100,000 rows", against=few["megabytes"], ratio=many["megabytes"] / few["megabytes"],
        at_most=1.1,
    )  # fmt: skip
    record("ten million rows read twice and trained on once", ours=many["seconds"], unit="s")
    assert row.holds
