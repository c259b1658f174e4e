"""Rows that never reach a database."""

from datetime import UTC, datetime

import pytest

from canopy.domain.episode import EpisodeKind
from canopy.domain.ids import new_decision_id
from canopy.storage.rows import DecisionRow


@pytest.fixture(scope="session")
def make_row():
    """A decision that may be stored; keyword arguments change its fields."""

    def make(**fields):
        optional = dict.fromkeys(DecisionRow.__dataclass_fields__)
        given = {
            "tenant_id": "acme",
            "decision_id": new_decision_id(),
            "decided_at": datetime(2026, 3, 1, tzinfo=UTC),
            "request_id": "r",
            "body_hash": "b",
            "discipline": "copy",
            "unit_id": "u",
            "kind": EpisodeKind.REAL,
            "plan": "p",
            "served": True,
            "reasons": (),
            "context": {},
            "reserved": False,
            "keep_prob": 1.0,
        }
        return DecisionRow(**optional | given | fields)

    return make
