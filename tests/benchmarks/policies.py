"""Policies to measure: any number of plans, rules that read the context, every pair of factors."""

from pathlib import Path

import numpy as np

from policy.artifact import save_artifact
from policy.catalog import Catalog, parse_catalog
from policy.features import FeatureSchema
from policy.fields import Number
from policy.selector import Artifact
from policy.weights import parameter_shapes

DISCIPLINE = "benchmark"
N_FEATURES, N_RULES = 32, 12
SIZES = {256: (4, 4, 4, 4), 1_024: (8, 8, 4, 4), 10_240: (16, 16, 8, 5), 102_400: (32, 32, 20, 5)}
"""Levels of the four factors, by number of plans."""

_FACTS = {
    "training_run_id": None,
    "data_hash": None,
    "objective": None,
    "reward_spec": None,
    "lineage": {},
    "n_rows": None,
    "synthetic": True,
}


def default_plan(n_plans: int) -> str:
    """The plan of every first level."""
    return ",".join(f"f{i}=l0" for i in range(len(SIZES[n_plans])))


def catalog_of(n_plans: int, n_rules: int = N_RULES) -> Catalog:
    """A catalog whose rules each read two context values and mask one level."""
    levels = "".join(
        f"  f{i}: {{levels: [{', '.join(f'l{j}' for j in range(n))}]}}\n"
        for i, n in enumerate(SIZES[n_plans])
    )
    rules = "".join(
        f"  - mask: {{f{i % 4}: l{1 + i % 3}}}\n"
        f"    when: {{all: [{{gt: {{x{i}: 1.0}}}}, {{ne: {{x{i + 1}: 0.0}}}}]}}\n"
        f"    because: rule {i}\n"
        for i in range(n_rules)
    )
    feasibility = f"feasibility:\n{rules}" if rules else ""
    return parse_catalog(
        f"discipline: {DISCIPLINE}\nversion: 1\nfactors:\n{levels}{feasibility}"
        f"default: {default_plan(n_plans)}\n",
        DISCIPLINE,
    )


def policy_of(folder: Path, n_plans: int, n_rules: int = N_RULES) -> Artifact:
    """A policy of random weights for such a catalog, at a floor of .05."""
    schema = FeatureSchema(tuple(Number(f"x{i}", 0.0, 1.0) for i in range(N_FEATURES)))
    rng = np.random.default_rng(0)
    shapes = parameter_shapes(list(SIZES[n_plans]), schema.width, pairs=True)
    return save_artifact(
        folder,
        catalog=catalog_of(n_plans, n_rules),
        schema=schema,
        weights={name: rng.normal(size=shape) / 8 for name, shape in shapes.items()},
        temperature=1.0,
        floor=0.05,
        facts=_FACTS,
    )


def drawn_contexts(n: int) -> list[dict[str, float]]:
    """Contexts of standard normal features."""
    values = np.random.default_rng(1).normal(size=(n, N_FEATURES)).tolist()
    return [{f"x{i}": value for i, value in enumerate(row)} for row in values]
