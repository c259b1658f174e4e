"""A policy of the small world that is known to be good, a hopeless one, and their log."""

import numpy as np
import pytest

from canopy.domain.evidence import Lineage, train_corpus
from canopy.logs.tabular import read_log
from canopy.logs.world import FactoredWorld
from policy.artifact import save_artifact
from policy.catalog import parse_catalog
from policy.features import FeatureSchema
from policy.fields import Number

WORLD = FactoredWorld.create()


def saved(folder, sharpness, lineage=None):
    """A policy that scores plans by their true logits times `sharpness`."""
    n_features = WORLD.drift.shape[0]
    schema = FeatureSchema(tuple(Number(f"x{j}", 0.0, 1.0) for j in range(n_features)))
    weights = {}
    for factor, table in enumerate(WORLD.factor_weights):
        wide = np.zeros((len(table), schema.width + 1))
        wide[:, np.arange(n_features) * 2] = table
        weights[f"factor.{factor}"] = wide * sharpness
    for (later, earlier), terms in WORLD.pair_terms.items():
        wide = np.zeros((*terms.T.shape, schema.width + 1))
        wide[..., -1] = terms.T
        weights[f"pair.{earlier}.{later}"] = wide * sharpness
    trained = lineage or Lineage(corpora=frozenset({train_corpus("elsewhere")}))
    save_artifact(
        folder, catalog=parse_catalog(WORLD.catalog_text(), "world"), schema=schema,
        weights=weights, temperature=1.0, floor=0.05,
        facts={
            "training_run_id": None, "data_hash": None, "objective": "known",
            "reward_spec": None, "lineage": trained.document(), "n_rows": None,
            "synthetic": True,
        },
    )  # fmt: skip
    return folder


@pytest.fixture(scope="session")
def save_policy():
    return saved


@pytest.fixture(scope="session")
def good(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("good") / "policy", 4.0)


@pytest.fixture(scope="session")
def bad(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("bad") / "policy", -4.0)


@pytest.fixture(scope="session")
def log_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "small.parquet"
    WORLD.write_log(path, 10_000, seed=1)
    return path


@pytest.fixture(scope="session")
def log(log_path):
    return read_log(log_path)
