"""One log with everything, in memory and as files of every kind."""

import numpy as np
import pandas as pd
import pytest

from canopy.logs.schema import LogFacts
from canopy.logs.tabular import log_of, save_log
from eval.report import evaluate

PLANS = ("a", "b", "c", "d")


def make_frame(n=1_200, n_units=300, seed=0, **more):
    rng = np.random.default_rng(seed)
    logging = rng.dirichlet(np.full(4, 2.0), n)
    target = rng.dirichlet(np.full(4, 2.0), n)
    action = (logging.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=3)
    reward = (rng.random(n) < np.array([0.2, 0.4, 0.5, 0.7])[action]).astype(float)
    reward[rng.random(n) < 0.05] = np.nan
    propensity = logging[np.arange(n), action]
    keep = np.where(rng.random(n) < 0.5, 1.0, 0.5)
    return pd.DataFrame({
        "decision_id": [f"d{i}" for i in range(n)],
        "unit_id": [f"u{u}" for u in rng.integers(0, n_units, n)],
        "ts": pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(np.arange(n), unit="s"),
        "plan": [PLANS[a] for a in action],
        "propensity": propensity,
        "reward": reward,
        "propensities": logging.tolist(),
        "target_propensities": target.tolist(),
        "q_all": np.clip(rng.normal([0.25, 0.4, 0.5, 0.6], 0.1, (n, 4)), 0, 1).tolist(),
        "keep_prob": keep,
        "x_segment": [["north", "south", None][s] for s in rng.integers(0, 3, n)],
    } | more)  # fmt: skip


@pytest.fixture(scope="session")
def frame():
    return make_frame()


@pytest.fixture(scope="session")
def write():
    """Writes a frame as a log file."""

    def to(path, rows, plans=PLANS):
        columns = {
            name: [None if isinstance(v, float) and np.isnan(v) else v for v in rows[name].tolist()]
            for name in rows
        }
        save_log(log_of(columns, LogFacts(plans=plans)), path)
        return path

    return to


@pytest.fixture(scope="session")
def parquet(frame, write, tmp_path_factory):
    return write(tmp_path_factory.mktemp("log") / "log.parquet", frame)


ASKED = {
    "estimators": [
        "ips", "snips", "dm", "dr", "sndr", "switch-dr=2", "dros=4", "clipped=2", "sub-gaussian",
    ],
    "against": "logging",
    "by": "segment",
}  # fmt: skip


@pytest.fixture(scope="session")
def in_memory(parquet):
    return evaluate(parquet, stream=False, **ASKED)
