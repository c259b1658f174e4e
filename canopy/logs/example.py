"""A small log that shows every kind of cell, for people to copy."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from canopy.domain.episode import EpisodeKind
from canopy.logs import schema
from canopy.logs.catalog_text import catalog_of_plans
from canopy.logs.tabular import DecisionLog, write_log

DISCIPLINE: Final = "example"
PLANS: Final = ("tone=plain,length=short", "tone=plain,length=long", "tone=warm,length=short")

_START: Final = datetime(2026, 1, 31, 8, tzinfo=UTC)


def write_example(path: Path) -> DecisionLog:
    """Write five decisions between three plans: one reward unmeasured, one plan imposed."""
    propensities = np.array([
        [0.5, 0.3, 0.2],
        [0.2, 0.6, 0.2],
        [0.25, 0.5, 0.25],
        [0.4, 0.6, 0.0],
        [np.nan, np.nan, np.nan],
    ])
    feasible = np.array([[True, True, True]] * 3 + [[True, True, False]] + [[True, True, True]])
    taken = [0, 1, 2, 0, 1]
    columns: dict[str, Any] = {
        schema.DECISION_ID: [f"d{row}" for row in range(1, 6)],
        schema.UNIT_ID: ["customer-1", "customer-2", "customer-1", "customer-3", "customer-2"],
        schema.TS: [_START + timedelta(minutes=row) for row in range(5)],
        schema.PLAN: [PLANS[plan] for plan in taken],
        schema.PROPENSITY: propensities[np.arange(5), taken],
        schema.REWARD: [1.0, 0.0, None, 0.25, 1.0],
        schema.DRAWN: [True, True, True, True, False],
        schema.PROPENSITIES: propensities,
        schema.FEASIBLE: feasible,
        f"{schema.CONTEXT_PREFIX}industry": ["retail", "energy", "retail", None, "energy"],
        f"{schema.CONTEXT_PREFIX}visits": [3.0, 41.0, 7.0, 12.0, None],
    }
    return write_log(
        path,
        columns,
        plans=PLANS,
        catalog_text=catalog_of_plans(PLANS, DISCIPLINE),
        kind=EpisodeKind.SYNTHETIC,
        source="example of the documented schema",
    )
