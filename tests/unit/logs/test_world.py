"""The factored world: its definition to the draw, and the log it writes."""

import numpy as np
import pytest

from canopy.domain.episode import EpisodeKind
from canopy.logs.tabular import read_log
from canopy.logs.world import FactoredWorld
from policy.catalog import parse_catalog


def test_the_world_of_256_plans_has_its_known_values():
    sample = FactoredWorld.create((4, 4, 4, 4)).sample(4_000, seed=2)
    value = sample.expected_reward
    logging = (value * sample.propensities).sum(axis=1).mean()
    uniform = ((value * sample.mask).sum(axis=1) / sample.mask.sum(axis=1)).mean()
    best = np.where(sample.mask, value, 0).max(axis=1).mean()
    assert logging == pytest.approx(0.2501, abs=5e-5)
    assert uniform == pytest.approx(0.2511, abs=5e-5)
    assert best == pytest.approx(0.9476, abs=5e-5)


def test_drawn_plans_are_feasible_and_the_first_plan_always_is():
    sample = FactoredWorld.create((2, 3)).sample(500, seed=1)
    assert sample.mask[np.arange(500), sample.action].all()
    assert sample.mask[:, 0].all()
    assert (sample.propensities[~sample.mask] == 0).all()
    np.testing.assert_allclose(sample.propensities.sum(axis=1), 1)


def test_the_same_seed_draws_the_same_log_and_another_seed_another(tmp_path):
    world = FactoredWorld.create()
    first = world.write_log(tmp_path / "a.parquet", 50, 1)
    again = FactoredWorld.create().write_log(tmp_path / "b.parquet", 50, 1)
    other = world.write_log(tmp_path / "c.parquet", 50, 2)
    assert first.content_hash == again.content_hash != other.content_hash
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_worlds_log_is_synthetic_and_tells_the_truth_only_when_asked(tmp_path):
    world = FactoredWorld.create()
    plain = world.write_log(tmp_path / "a.parquet", 20, 3)
    told = world.write_log(tmp_path / "b.parquet", 20, 3, truth=True)
    assert read_log(tmp_path / "a.parquet").kind is EpisodeKind.SYNTHETIC
    assert plain.matrix("q_all") is None
    np.testing.assert_array_equal(told.matrix("q_all"), world.sample(20, 3).expected_reward)
    assert list(plain.context()) == [f"x{i}" for i in range(16)]
    assert plain.column("unit_id")[7] == "w3-7"


def test_the_worlds_catalog_is_the_plan_space_that_policies_read():
    world = FactoredWorld.create((2, 3))
    catalog = parse_catalog(world.catalog_text(), "world")
    assert catalog.plan_ids == world.plan_ids
    assert catalog.default == 0
    assert catalog.weights is None
    np.testing.assert_array_equal(catalog.levels, world.plan_levels)
