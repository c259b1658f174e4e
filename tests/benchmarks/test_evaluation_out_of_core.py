"""Ten million rows in one pass: seven estimators and a 200-replicate Poisson bootstrap by unit.

The rows bring q columns; every second one starts a new unit, so that five million units take the
way of logs with too many to be kept apart. Written in parts, partitioned by month.

Budgets: ten minutes, 1.5 GB of resident memory at most, and a tenth of the rows in hardly less
memory.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.benchmark

N, N_PLANS, PART = 10_000_000, 4, 500_000


def write_part(folder, number):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(number)
    logging, target = (rng.dirichlet(np.full(N_PLANS, 3.0), PART) for _ in range(2))
    taken = (logging.cumsum(axis=1) < rng.random((PART, 1))).sum(axis=1).clip(max=N_PLANS - 1)
    q = rng.random((PART, N_PLANS))
    offsets = pa.array(np.arange(0, PART * N_PLANS + 1, N_PLANS), pa.int32())
    first = number * PART

    def lists(matrix):
        return pa.ListArray.from_arrays(offsets, pa.array(matrix.ravel()))

    plans = [f"p{i}" for i in range(N_PLANS)]
    table = pa.table({
        "decision_id": pa.array([f"d{first + i}" for i in range(PART)]),
        "unit_id": pa.array([f"u{(first + i) // 2}" for i in range(PART)]),
        "ts": pa.array(np.full(PART, 1_767_225_600_000_000), pa.timestamp("us", "UTC")),
        "plan": pa.array(plans).take(pa.array(taken)),
        "propensity": logging[np.arange(PART), taken],
        "reward": (rng.random(PART) < q[np.arange(PART), taken]).astype(float),
        "propensities": lists(logging),
        "target_propensities": lists(target),
        "q_all": lists(q),
    })
    folder = folder / f"month=2026-{number % 12 + 1:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"canopy.plans": json.dumps(plans)}
    pq.write_table(table.replace_schema_metadata(metadata), folder / f"part-{number}.parquet")


def evaluated(folder):
    """What the child does, and says on its standard output."""
    from eval.report import evaluate

    started_s = time.perf_counter()
    found = evaluate(folder, n_resamples=200)
    took_s = time.perf_counter() - started_s
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps({"took_s": took_s, "peak_gb": peak_gb} | found.document()))


def child(folder):
    ran = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.test_evaluation_out_of_core", folder],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def logs():
    """A folder of all rows, and one of a tenth of them."""
    home = Path(tempfile.mkdtemp(prefix="canopy-evaluation-", dir="/var/tmp"))
    for number in range(N // PART):
        write_part(home / "whole", number)
    for number in range(N // PART // 10):
        write_part(home / "tenth", number)
    yield home / "whole", home / "tenth"
    shutil.rmtree(home)


def test_ten_million_rows_are_evaluated_in_little_memory(logs, record):
    whole, tenth = (child(folder) for folder in logs)
    assert whole["log"]["n_used"] == N
    assert all(verdict["status"] == "ok" for verdict in whole["verdicts"])
    by_name = {detail["estimator"]: detail for detail in whole["intervals"]}
    assert by_name["dr"]["n_resamples"] == 200
    for name in ("ips", "snips", "dr", "sndr"):
        spread = np.subtract(by_name[name]["unit_t"], by_name[name]["bootstrap"])
        assert np.abs(spread).max() < by_name[name]["std_err"]
    speed = record(
        "ten million rows, seven estimators, 200 replicates by unit",
        ours=whole["took_s"],
        unit="s",
        at_most=600,
    )
    memory = record("their peak memory", ours=whole["peak_gb"], unit="GB", at_most=1.5)
    growth = record(
        "its growth from a million rows",
        peer="one million rows",
        ours=whole["peak_gb"],
        against=tenth["peak_gb"],
        unit="GB",
        ratio=whole["peak_gb"] / tenth["peak_gb"],
        at_most=1.3,
    )
    assert speed.holds, speed
    assert memory.holds, memory
    assert growth.holds, growth


if __name__ == "__main__":
    evaluated(Path(sys.argv[1]))
