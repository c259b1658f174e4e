"""One small catalog with every feature of the format, and policies for it."""

import numpy as np
import pytest

from policy.artifact import save_artifact
from policy.catalog import parse_catalog
from policy.features import FeatureSchema
from policy.fields import Category, Members, Number, TextHash
from policy.weights import parameter_shapes

CATALOG = """\
discipline: public_copy
version: 3
factors:
  tone:
    levels:
      warm: {doctrine: Speak like a neighbour., weight: 3}
      plain: {doctrine: Say it once., weight: 1}
  length:
    levels: [short, medium, long]
  on:
    levels: ["yes", "no"]
forbid:
  - {tone: plain, length: long}
feasibility:
  - mask: {length: [medium, long]}
    unless: {ge: {budget: 3}}
    because: longer texts need a budget of 3
  - mask: {tone: plain}
    when: {any: [{eq: {channel: chat}}, {in: {channel: [voice, sms]}}]}
    because: people expect warmth there
  - mask: {on: "no"}
    when: {all: [{has: pinned}, {not: {ne: [approved, true]}}]}
    because: a pin that nobody disapproved
  - plans: ["tone=plain,length=medium,on=no"]
    when: {lt: {budget: 5.5}}
    because: too dear
default: tone=warm,length=short,on=yes
attributes:
  cost: {"tone=warm,length=short,on=yes": 1.5, "tone=warm,length=long,on=no": 4}
"""

FACTS = {
    "training_run_id": None,
    "data_hash": "0" * 32,
    "objective": "bc",
    "reward_spec": None,
    "lineage": {"judges": ["b", "a"], "verifiers": set()},
    "n_rows": 100,
    "synthetic": True,
}


@pytest.fixture
def catalog_text():
    return CATALOG


@pytest.fixture
def catalog():
    return parse_catalog(CATALOG, "copy.yaml")


@pytest.fixture
def schema():
    return FeatureSchema((
        Number("budget", 4.0, 2.0),
        Category("channel", ("chat", "mail")),
        Category("approved", ("false", "true")),
        Members("topics", ("news", "offers")),
        TextHash("note", 4),
    ))


@pytest.fixture
def facts():
    return dict(FACTS)


@pytest.fixture
def make_artifact(tmp_path, catalog, schema):
    """Saves a policy with drawn weights; keyword arguments replace its parts."""
    made = []

    def make(*, seed=0, **parts):
        plans, features = parts.pop("catalog", catalog), parts.pop("schema", schema)
        rng = np.random.default_rng(seed)
        sizes = [len(factor.levels) for factor in plans.factors]
        shapes = parameter_shapes(sizes, features.width, pairs=True)
        made.append(tmp_path / f"policy-{len(made)}")
        return save_artifact(
            parts.pop("folder", made[-1]),
            catalog=plans,
            schema=features,
            weights=parts.pop("weights", {n: rng.normal(size=s) for n, s in shapes.items()}),
            temperature=parts.pop("temperature", 0.8),
            floor=parts.pop("floor", 0.1),
            facts={**FACTS, **parts},
        )

    return make


CONTEXTS = (
    {"budget": 4, "channel": "mail", "approved": True, "topics": ["news"], "note": "Be brief"},
    {"budget": 2.5, "channel": "chat", "topics": {"offers", "else"}, "note": ""},
    {"budget": float("nan"), "channel": None, "approved": False, "pinned": "x"},
    {"budget": 7, "channel": "never seen", "approved": True, "pinned": 0, "extra": object()},
    {},
    {"budget": np.float32(5), "channel": np.str_("voice"), "approved": np.bool_(True)},
)


@pytest.fixture
def contexts():
    return [dict(context) for context in CONTEXTS]
