"""Policies of the factored world whose quality is known because nothing was learnt."""

import numpy as np
import pytest

from canopy.domain.evidence import Lineage, train_corpus
from canopy.logs.world import FactoredWorld
from eval.tiers.backtest import reserve_of
from policy.artifact import save_artifact
from policy.catalog import parse_catalog
from policy.features import FeatureSchema
from policy.fields import Number


def world_artifact(folder, levels=(3, 3, 3), *, sharpness=4.0, floor=0.05, seed=0, **facts):
    """A policy that scores plans by their true logits times `sharpness`."""
    world = FactoredWorld.create(levels, seed=seed)
    n_features = world.drift.shape[0]
    schema = FeatureSchema(tuple(Number(f"x{j}", 0.0, 1.0) for j in range(n_features)))
    value_columns = np.arange(n_features) * 2
    weights = {}
    for factor, table in enumerate(world.factor_weights):
        wide = np.zeros((len(table), schema.width + 1))
        wide[:, value_columns] = table
        weights[f"factor.{factor}"] = wide * sharpness
    for (later, earlier), terms in world.pair_terms.items():
        wide = np.zeros((*terms.T.shape, schema.width + 1))
        wide[..., -1] = terms.T
        weights[f"pair.{earlier}.{later}"] = wide * sharpness
    made = {
        "training_run_id": None, "data_hash": None, "objective": "known", "reward_spec": None,
        "lineage": Lineage(corpora=frozenset({train_corpus("elsewhere")})).document(),
        "n_rows": None, "synthetic": True,
    }  # fmt: skip
    return save_artifact(
        folder, catalog=parse_catalog(world.catalog_text(), "world"), schema=schema,
        weights=weights, temperature=1.0, floor=floor, facts=made | facts,
    )  # fmt: skip


@pytest.fixture(scope="session")
def good_policy(tmp_path_factory):
    return world_artifact(tmp_path_factory.mktemp("good") / "policy")


@pytest.fixture(scope="session")
def bad_policy(tmp_path_factory):
    return world_artifact(tmp_path_factory.mktemp("bad") / "policy", sharpness=-4.0)


@pytest.fixture(scope="session")
def large_policy(tmp_path_factory):
    return world_artifact(tmp_path_factory.mktemp("large") / "policy", (4, 4, 4, 4))


@pytest.fixture(scope="session")
def small_log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "small.parquet"
    return FactoredWorld.create().write_log(path, 10_000, seed=1)


@pytest.fixture(scope="session")
def small_reserve(small_log):
    return reserve_of(small_log)


@pytest.fixture(scope="session")
def large_log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "large.parquet"
    return FactoredWorld.create((4, 4, 4, 4)).write_log(path, 6_000, seed=1)
