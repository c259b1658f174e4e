"""The hand-worked log as a table, and larger logs of a world whose truth is known."""

import numpy as np
import pandas as pd
import pytest

PLANS = ["a", "b", "c"]
LOGGING = [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.25, 0.5, 0.25], [0.4, 0.6, 0], [0.1, 0.8, 0.1]]
TARGET = [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6], [0.5, 0.5, 0], [0.3, 0.4, 0.3]]
MODEL = [[0.8, 0.2, 0.4], [0.6, 0.1, 0.5], [0.3, 0.4, 0.6], [0.2, 0.9, None], [0.5, 0.7, 0.2]]
FEASIBLE = [[True] * 3, [True] * 3, [True] * 3, [True, True, False], [True] * 3]
ACTION = [0, 1, 2, 0, 1]


@pytest.fixture
def golden_frame():
    return pd.DataFrame({
        "decision_id": [f"d{row}" for row in range(5)],
        "unit_id": list("AABBC"),
        "ts": pd.date_range("2026-01-01", periods=5, freq="h", tz="UTC"),
        "plan": [PLANS[action] for action in ACTION],
        "propensity": [row[action] for row, action in zip(LOGGING, ACTION, strict=True)],
        "reward": [1, 0, 0.5, 0.25, 1],
        "propensities": LOGGING,
        "feasible": FEASIBLE,
        "target_propensities": TARGET,
        "q_all": MODEL,
    })


@pytest.fixture
def golden_plans():
    return PLANS


@pytest.fixture
def world():
    """Makes logs: plan 2 of 3 earns .8, the others .2; one context column shifts the logger."""

    def make(n=600, seed=0, *, rows_per_unit=2, binary=True):
        rng = np.random.default_rng(seed)
        segment = rng.integers(0, 2, n)
        logging = np.where(segment[:, None] == 0, [0.5, 0.3, 0.2], [0.2, 0.4, 0.4])
        action = (rng.random(n)[:, None] > logging.cumsum(axis=1)).sum(axis=1)
        chance = np.array([0.2, 0.2, 0.8])[action]
        reward = (rng.random(n) < chance) if binary else chance + rng.normal(0, 0.05, n)
        return pd.DataFrame({
            "decision_id": [f"d{row}" for row in range(n)],
            "unit_id": [f"u{row // rows_per_unit}" for row in range(n)],
            "ts": pd.date_range("2026-01-01", periods=n, freq="min", tz="UTC"),
            "plan": [PLANS[each] for each in action],
            "propensity": logging[np.arange(n), action],
            "reward": np.clip(reward.astype(float), 0, 1),
            "propensities": [dict(zip(PLANS, row, strict=True)) for row in logging],
            "target_propensities": [{"a": 0.1, "b": 0.1, "c": 0.8}] * n,
            "x_segment": np.where(segment == 0, "old", "new"),
            "x_age": rng.normal(40, 10, n),
        })

    return make
