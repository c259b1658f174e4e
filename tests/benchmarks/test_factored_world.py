"""How much of what there is to gain is learnt from a log, in worlds whose truth can be computed.

256 plans of four factors, 16 context features; logs of 5,000, 20,000 and 50,000 rows drawn by a
softmax policy over what was feasible. A policy's value is its true mean reward on 4,000 test
contexts; the gain is stated as a share: (value - logging) / (best - logging). Median of five
training seeds, best of the objectives that model rewards; hyperparameters are chosen by loss on
validation units, never by the truth, and everything comes from the log's rows.

Budgets, greedy: .95 / .98 / .99 on world 0; .92 / .975 / .985 on worlds 1, 2 and 3; served with
a floor of .05 and the temperature that validation chose, a value of .90 on world 0 at 50,000 rows.
A second family has context in its pairs too, which worlds 0 to 3 have not: no budget but to beat
the same learner without pairs.

bc imitates: its sampled value is within .01 of the logging policy's. awr's sampled value is above
bc's by at least .1, and at or under that of its fixed point, pi_b E[w | x, a].
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from canopy.domain.episode import is_reserved
from canopy.logs.world import FactoredWorld
from policy.catalog import parse_catalog
from policy.distributions import distribution
from policy.features import fit_schema
from training.awr.config import AwrConfig
from training.bc.config import BcConfig
from training.config import HeadConfig, OptimConfig, Pairs, ServingConfig
from training.data.blocks import block_of
from training.data.rows import TrainingRows
from training.data.splitting import split
from training.data.store import RowStore
from training.direct.config import DirectConfig
from training.doubly_robust.config import DoublyRobustConfig
from training.fitting import fit_policy, numpy_head
from training.head import head_shape
from training.loop import Fitter
from training.objectives import terms_of
from training.problem import Problem

pytestmark = pytest.mark.benchmark

N_TEST, SEEDS = 4_000, range(5)
DIRECT, ROBUST = {"direct": DirectConfig()}, {"doubly_robust": DoublyRobustConfig()}
BARS = {
    (0, 5_000): 0.95, (0, 20_000): 0.98, (0, 50_000): 0.99,
    **{(w, n): b for w in (1, 2, 3) for n, b in ((5_000, 0.92), (20_000, 0.975), (50_000, 0.985))},
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class World:
    """A world, its test contexts, and what they are worth at least and at most."""

    def __init__(self, seed, *, paired_context=0.0):
        self.world = FactoredWorld.create((4, 4, 4, 4), n_features=16, seed=seed)
        rng = np.random.default_rng(1_000 + seed)
        self.slopes = {
            pair: paired_context * rng.standard_normal((4, 4, 16)) / 4
            for pair in self.world.pair_terms
        }
        self.test = self.sample(N_TEST, 2)
        expected, mask = self.test.expected_reward, self.test.mask
        self.logging = float((self.test.propensities * expected).sum(axis=1).mean())
        self.best = float(np.where(mask, expected, -1).max(axis=1).mean())

    def sample(self, n, seed):
        drawn = self.world.sample(n, seed)
        if not any(slope.any() for slope in self.slopes.values()):
            return drawn
        odds = np.log(drawn.expected_reward / (1 - drawn.expected_reward))
        levels = self.world.plan_levels
        for (i, j), slope in self.slopes.items():
            odds += drawn.x @ slope[levels[:, i], levels[:, j]].T
        expected = 1 / (1 + np.exp(-odds))
        rng = np.random.default_rng(50_000 + seed)
        reward = rng.random(n) < expected[np.arange(n), drawn.action]
        return replace(drawn, expected_reward=expected, reward=reward.astype(float))

    def share(self, value):
        return (value - self.logging) / (self.best - self.logging)


def context_of(x):
    return {f"x{place}": column for place, column in enumerate(x.T)}


def problem_of(world, n, seed, head=None):
    drawn = world.sample(n, 1)
    names = (f"u{k}" for k in range(2 * n))
    units = [name for name in names if not is_reserved(name)][:n]
    rows = TrainingRows(
        unit=np.array(units, dtype=object), context=context_of(drawn.x),
        action=drawn.action.astype(np.intp), feasible=drawn.mask,
        propensity=drawn.propensities[np.arange(n), drawn.action], keep_prob=np.ones(n),
        reward=drawn.reward,
    )  # fmt: skip
    catalog = parse_catalog(world.world.catalog_text())
    inside, beyond = split(rows, 0.2)
    schema = fit_schema(inside.context)
    block = block_of(inside, schema.encode_many(inside.context), is_training=True)
    return Problem(
        catalog=catalog, shape=head_shape(catalog, schema.width, head or HeadConfig()),
        train=RowStore.of(block), validation=beyond,
        validation_features=schema.encode_many(beyond.context), seed=seed,
    ), schema  # fmt: skip


def learnt(world, n, configs, seed, head=None):
    """A fitted policy, and its scores on the test contexts."""
    head = head or HeadConfig()
    problem, schema = problem_of(world, n, seed, head)
    fitter = Fitter(OptimConfig())
    terms = terms_of(problem, configs, fitter)
    # Support on validation units decides how it is served, not whether it is fitted.
    found = fit_policy(problem, terms, head=head, serving=ServingConfig(least_ess=1), fitter=fitter)
    features = schema.encode_many(context_of(world.test.x))
    return found, numpy_head(found.head).scores(features)


def greedy(world, scores):
    pick = np.where(world.test.mask, scores, -np.inf).argmax(axis=1)
    return float(world.test.expected_reward[np.arange(N_TEST), pick].mean())


def served(world, scores, temperature, floor):
    chance = distribution(scores / temperature, world.test.mask, floor)
    return float((chance * world.test.expected_reward).sum(axis=1).mean())


@pytest.fixture(scope="module", params=[0, 1, 2, 3])
def numbered(request):
    return request.param, World(request.param)


@pytest.mark.parametrize("n", [5_000, 20_000, 50_000])
def test_most_of_the_gain_is_learnt(numbered, n, record):
    number, world = numbered
    shares = {}
    for name, configs in (("direct", DIRECT), ("doubly robust", ROBUST)):
        if name != "direct" and (number, n) != (0, 5_000):
            continue  # a good direct fit it improves nowhere by much; shown once
        values = [greedy(world, learnt(world, n, configs, seed)[1]) for seed in SEEDS]
        shares[name] = world.share(float(np.median(values)))
        print(f"\nworld {number}, {n} rows, {name}: {np.median(values):.4f}, {shares[name]:.4f}")
    best = max(shares, key=shares.__getitem__)
    row = record(
        f"share of the possible gain, greedy, world {number}, {n:,} rows ({best})",
        ours=shares[best], unit="", at_least=BARS[number, n],
    )  # fmt: skip
    assert row.holds


def test_what_is_served_keeps_most_of_it(record):
    world = World(0)
    values = []
    for seed in SEEDS:
        found, scores = learnt(world, 50_000, DIRECT, seed)
        values.append(served(world, scores, found.chosen.temperature, 0.05))
    row = record(
        "value served, floor .05, world 0, 50,000 rows (direct)",
        ours=float(np.median(values)), unit="", at_least=0.90,
    )  # fmt: skip
    assert row.holds


def test_context_in_pairs_is_learnt_too(record):
    world = World(0, paired_context=0.8)
    without = HeadConfig(pairs=Pairs.none)
    shares = {
        name: world.share(np.median([
            greedy(world, learnt(world, 50_000, DIRECT, seed, head)[1]) for seed in range(3)
        ]))
        for name, head in (("pairs", HeadConfig()), ("none", without))
    }  # fmt: skip
    row = record(
        "share of the possible gain, greedy, pairs with context, 50,000 rows (direct)",
        ours=float(shares["pairs"]), unit="", peer="the same without pairs",
        against=float(shares["none"]), ratio=float(shares["pairs"] / shares["none"]),
        at_least=1.05,
    )  # fmt: skip
    assert row.holds


def test_imitation_is_worth_what_its_objective_says(record):
    world = World(0)
    n = 20_000
    sampled = {
        name: float(np.median([
            served(world, learnt(world, n, configs, seed)[1], 1.0, 0.0) for seed in range(3)
        ]))
        for name, configs in (("bc", {"bc": BcConfig()}), ("awr", {"awr": AwrConfig(beta=0.5)}))
    }  # fmt: skip
    fixed = _fixed_point(world, beta=0.5)
    rows = [
        record("bc, sampled: distance from the logging policy's value", unit="",
               ours=abs(sampled["bc"] - world.logging), at_most=0.01),
        record("awr, sampled: above bc", unit="", ours=sampled["awr"] - sampled["bc"],
               at_least=0.1),
        record("awr, sampled: share of its fixed point's value", unit="",
               ours=sampled["awr"] / fixed, at_most=1.005),
    ]  # fmt: skip
    assert all(row.holds for row in rows)


def _fixed_point(world, *, beta, cap=20.0):
    """Value of pi_b E[w | x, a], standardised as awr does, on the test contexts."""
    test = world.test
    expected, logging = test.expected_reward, test.propensities
    value = (logging * expected).sum(axis=1, keepdims=True)
    spread = np.sqrt((logging * (expected * (1 - value) ** 2 + (1 - expected) * value**2))
                     .sum(axis=1).mean())  # fmt: skip
    high, low = (np.minimum(np.exp((reward - value) / spread / beta), cap) for reward in (1.0, 0.0))
    tilted = logging * (low + expected * (high - low))
    tilted /= tilted.sum(axis=1, keepdims=True)
    return float((tilted * expected).sum(axis=1).mean())
