"""Strategies of contexts, catalogs and policies that the laws are tried on."""

import numpy as np
import pytest
from hypothesis import strategies as st

from policy.artifact import save_artifact
from policy.catalog import parse_catalog
from policy.features import FeatureSchema
from policy.fields import Category, Members, Number, TextHash
from policy.weights import parameter_shapes

CATALOG = """\
discipline: laws
version: 1
factors:
  a: {levels: {a0: {weight: 2}, a1: {weight: 1}, a2: {weight: 0}}}
  b: {levels: [b0, b1, b2, b3]}
  c: {levels: [c0, c1]}
forbid: [{a: a2, b: b3}]
feasibility:
  - {mask: {a: a1}, when: {gt: {n: 0}}, because: n is positive}
  - {mask: {b: [b1, b2]}, unless: {any: [{eq: {t: x}}, {le: {n: -1}}]}, because: t is not x}
  - {mask: {c: c1}, when: {all: [{ne: {t: y}}, {eq: {f: true}}]}, because: f and not y}
  - {mask: {a: a2}, unless: {in: {n: [0, 0.5, 2]}}, because: n is none of three}
  - {plans: ["a=a0,b=b3,c=c1"], when: {not: {has: s}}, because: s is absent}
default: a=a0,b=b0,c=c0
"""


@pytest.fixture(scope="session")
def catalog():
    return parse_catalog(CATALOG)


@pytest.fixture(scope="session")
def schema():
    return FeatureSchema((
        Number("n", 0.5, 2.0),
        Category("t", ("x", "y")),
        Category("f", ("true", "false")),
        Members("s", ("p", "q")),
        TextHash("w", 3),
    ))


@pytest.fixture(scope="session")
def artifact(catalog, schema, tmp_path_factory):
    rng = np.random.default_rng(0)
    shapes = parameter_shapes([3, 4, 2], schema.width, pairs=True)
    return save_artifact(
        tmp_path_factory.mktemp("laws") / "policy",
        catalog=catalog,
        schema=schema,
        weights={name: rng.normal(size=shape) for name, shape in shapes.items()},
        temperature=0.5,
        floor=0.08,
        facts={
            "training_run_id": None,
            "data_hash": None,
            "objective": None,
            "reward_spec": None,
            "lineage": {},
            "n_rows": None,
            "synthetic": True,
        },
    )


def contexts():
    """Contexts with every kind of value, missing and unknown ones among them."""
    numbers = st.one_of(
        st.none(),
        st.sampled_from([0, 0.5, 2, -1, float("nan"), True * 1, np.float32(0.5), np.int64(2)]),
        st.floats(-1e6, 1e6),
        st.integers(-(2**70), 2**70),
    )
    texts = st.one_of(st.none(), st.sampled_from(["x", "y", "z", "", np.str_("x")]), st.text())
    return st.fixed_dictionaries(
        {},
        optional={
            "n": numbers,
            "t": texts,
            "f": st.sampled_from([None, True, False, np.bool_(True), float("nan")]),
            "s": st.one_of(st.none(), st.lists(st.sampled_from(["p", "q", "r"])).map(tuple)),
            "w": texts,
        },
    )


@pytest.fixture(scope="session")
def any_contexts():
    return contexts()
