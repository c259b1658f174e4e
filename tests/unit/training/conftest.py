"""A small world whose truth is known, as a log and as rows."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from canopy.domain.episode import EpisodeKind, is_reserved
from canopy.logs import schema as columns
from canopy.logs.tabular import write_log
from canopy.logs.world import FactoredWorld
from policy.catalog import Catalog, parse_catalog
from policy.features import FeatureSchema, fit_schema
from training.awr.config import AwrConfig
from training.config import (
    DataConfig,
    HeadConfig,
    OptimConfig,
    RuntimeConfig,
    Tracking,
    TrainConfig,
)
from training.data.blocks import block_of
from training.data.rows import TrainingRows
from training.data.store import RowStore
from training.head import head_shape
from training.problem import Problem


@dataclass(frozen=True)
class Known:
    """Rows of a world with the means to compute the truth."""

    world: FactoredWorld
    catalog: Catalog
    schema: FeatureSchema
    problem: Problem
    inside: TrainingRows

    def trained_on(self, rows, **changes):
        """The problem with other rows to learn from."""
        return replace(self.problem, train=stored(rows, self.schema), **changes)

    def fresh(self, n=1500, seed=99):
        """Contexts never seen: (features, mask, expected reward, logging distribution)."""
        drawn = self.world.sample(n, seed)
        features = self.schema.encode_many(context_of(drawn.x))
        return features, drawn.mask, drawn.expected_reward, drawn.propensities


def context_of(x):
    return {f"x{position}": x[:, position] for position in range(x.shape[1])}


def stored(rows, schema):
    """Training rows as a store in memory."""
    features = schema.encode_many(rows.context, n_rows=len(rows))
    block = block_of(rows, features, is_training=True)
    return RowStore.of(block, n_single=len(rows) - len(block))


def open_units(n, prefix="unit"):
    """Names of units that are not reserved."""
    names = (f"{prefix}-{number}" for number in range(10 * n))
    return [name for name in names if not is_reserved(name)][:n]


def sampled_rows(world, n, seed, *, units=None):
    drawn = world.sample(n, seed)
    return TrainingRows(
        unit=np.array(units or open_units(n, f"s{seed}"), dtype=object),
        context=context_of(drawn.x),
        action=drawn.action.astype(np.intp),
        feasible=drawn.mask,
        propensity=drawn.propensities[np.arange(n), drawn.action],
        keep_prob=np.ones(n),
        reward=drawn.reward,
    )


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Threads that wait for a busy machine make these small fits ten times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def known() -> Known:
    """Six plans of two factors, four numbers of context, 6,000 training rows."""
    world = FactoredWorld.create((2, 3), n_features=4, seed=3)
    catalog = parse_catalog(world.catalog_text())
    inside, beyond = sampled_rows(world, 6000, 1), sampled_rows(world, 1500, 2)
    schema = fit_schema(inside.context)
    problem = Problem(
        catalog=catalog,
        shape=head_shape(catalog, schema.width, HeadConfig()),
        train=stored(inside, schema),
        validation=beyond,
        validation_features=schema.encode_many(beyond.context),
        seed=5,
    )
    return Known(world, catalog, schema, problem, inside)


@pytest.fixture(scope="session")
def log_path(tmp_path_factory) -> Path:
    """A log of that world: every tenth reward unmeasured, every twentieth row not drawn."""
    return written_log(tmp_path_factory.mktemp("log") / "log.parquet")


@pytest.fixture
def make_log(tmp_path):
    """Writes such a log with some columns changed."""
    return lambda **changes: written_log(tmp_path / "log.parquet", **changes)


def written_log(path, *, n=1200, catalog=True, **changes):
    world = FactoredWorld.create((2, 3), n_features=4, seed=3)
    drawn = world.sample(n, 7)
    number = np.arange(n)
    taken = drawn.propensities[number, drawn.action]
    was_drawn = number % 20 != 3
    reward = np.where(number % 10 == 0, np.nan, drawn.reward)
    cells = {
        columns.DECISION_ID: [f"d{i}" for i in number],
        columns.UNIT_ID: [f"u{i // 2}" for i in number],
        columns.TS: ["2026-01-01T00:00:00Z"] * n,
        columns.PLAN: [world.plan_ids[a] for a in drawn.action],
        columns.PROPENSITY: np.where(was_drawn, taken, np.nan),
        columns.REWARD: reward,
        columns.DRAWN: was_drawn,
        columns.FEASIBLE: drawn.mask,
    } | {f"x_{key}": column for key, column in context_of(drawn.x).items()}
    write_log(
        path,
        cells | changes,
        plans=world.plan_ids,
        catalog_text=world.catalog_text() if catalog else None,
        kind=EpisodeKind.SYNTHETIC,
    )
    return path


@pytest.fixture
def quick() -> OptimConfig:
    return OptimConfig(batch_size=512, epochs=12)


@pytest.fixture
def without_records() -> RuntimeConfig:
    return RuntimeConfig(progress=False, tracking=Tracking.off)


@pytest.fixture
def config(log_path, tmp_path, without_records) -> TrainConfig:
    """A run over the log that records nothing."""
    return TrainConfig(
        seed=1,
        out=str(tmp_path / "out"),
        name="small",
        data=DataConfig(path=str(log_path)),
        objective={"awr": AwrConfig()},
        optim=OptimConfig(batch_size=256, epochs=4),
        runtime=without_records,
    )


@pytest.fixture
def tiny(known) -> Problem:
    """Sixty rows of the known world."""
    return known.trained_on(known.inside.take(np.arange(60)))
