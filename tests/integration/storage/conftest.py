"""Rows to store."""

from datetime import UTC, datetime

import numpy as np
import pytest

from canopy.domain.decision import Mode
from canopy.domain.episode import EpisodeKind
from canopy.domain.ids import new_decision_id
from canopy.storage.rows import DecisionRow


@pytest.fixture(scope="session")
def make_row():
    """A decision that may be stored; keyword arguments change its fields."""

    def make(**fields):
        decision_id = fields.get("decision_id") or new_decision_id()
        logging = np.full(4, 0.25)
        default = {
            "tenant_id": "acme",
            "decision_id": decision_id,
            "decided_at": datetime.now(UTC),
            "request_id": f"request-{decision_id}",
            "body_hash": "b" * 32,
            "discipline": "public_copy",
            "unit_id": "unit-1",
            "kind": EpisodeKind.REAL,
            "plan": "tone=plain,length=short",
            "action": 2,
            "propensity": 0.25,
            "served": True,
            "mode": Mode.OBSERVATION,
            "arm": None,
            "arm_share": None,
            "reasons": ("drawn",),
            "catalog_hash": "c" * 32,
            "feature_hash": None,
            "policy_id": None,
            "kernel": "k",
            "floor": 0.05,
            "u": 0.5,
            "logging": logging.tobytes(),
            "logging_digest": None,
            "mask": np.packbits(np.ones(4, dtype=bool)).tobytes(),
            "n_plans": 4,
            "shadow_plan": None,
            "shadow": None,
            "context": {"country": "SE", "zero": -0.0, "n": 3, "missing": None},
            "reserved": False,
        }
        return DecisionRow(**default | fields)

    return make
