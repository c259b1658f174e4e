"""A small catalog and requests over it; no server, no database."""

import numpy as np
import pytest

from canopy.domain.episode import EpisodeKind
from policy.artifact import save_artifact
from policy.catalog import parse_catalog
from policy.features import FeatureSchema
from policy.fields import Number
from policy.weights import parameter_shapes
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


@pytest.fixture
def policy(catalog, tmp_path):
    """A policy that scores an immense budget with no finite number."""
    schema = FeatureSchema((Number("budget", 4.0, 2.0),))
    rng = np.random.default_rng(0)
    shapes = parameter_shapes([2, 3], schema.width, pairs=True)
    return save_artifact(
        tmp_path / "policy", catalog=catalog, schema=schema,
        weights={name: rng.normal(size=shape) * 10 for name, shape in shapes.items()},
        temperature=1.0, floor=0.1,
        facts={
            "training_run_id": None, "data_hash": None, "objective": None, "reward_spec": None,
            "lineage": {}, "n_rows": None, "synthetic": True,
        },
    )  # fmt: skip
