"""A small catalog and requests over it; no server, no database."""

import pytest

from canopy.domain.episode import EpisodeKind
from policy.catalog import parse_catalog
from runtime.episodes import Ask

CATALOG = """\
discipline: public_copy
version: 1
factors:
  tone:
    levels:
      warm: {doctrine: Speak like a neighbour., weight: 3}
      plain: {doctrine: Say it once., weight: 1}
  length: {levels: [short, medium, long]}
feasibility:
  - mask: {length: long}
    unless: {ge: {budget: 3}}
    because: long texts need a budget of 3
default: tone=warm,length=short
"""


@pytest.fixture
def catalog():
    return parse_catalog(CATALOG, "copy.yaml")


@pytest.fixture
def make_ask():
    def make(request_id="r-1", **parts):
        fields = {
            "tenant": "acme", "request_id": request_id, "discipline": "public_copy",
            "unit_id": "customer-1", "context": {"budget": 4}, "allowed": None,
            "override": None, "kind": EpisodeKind.REAL, "body_hash": "0" * 32,
        }  # fmt: skip
        return Ask(**fields | parts)

    return make
