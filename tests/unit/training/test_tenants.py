"""Tenants: what one wants of plans is learnt from its rows, shrunk towards what all want."""

import numpy as np
import pytest

from canopy.domain.errors import ConfigError
from policy.features import fit_schema
from tests.unit.training.conftest import open_units, stored
from training.config import HeadConfig, OptimConfig, ServingConfig
from training.data.rows import TrainingRows
from training.data.splitting import split
from training.direct.config import DirectConfig
from training.fitting import fit_policy, numpy_head
from training.head import head_shape, tenant_columns
from training.loop import Fitter
from training.objectives import terms_of
from training.problem import Problem

N_TENANTS, N_PLANS = 100, 6
# Two large tenants, and many of a handful of rows.
SIZES = np.array([1_500, 800] + [20] * (N_TENANTS - 2))
QUICK = OptimConfig(batch_size=256, epochs=15)


def taste(seed):
    """Shape (n_tenants, n_plans): the log-odds of a reward."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 0.8, N_PLANS)
    return shared - 1 + rng.normal(0, 0.7, (N_TENANTS, N_PLANS))


def learnt(known, seed, *, tenant, tenant_l2=(0.001, 0.003)):
    """True mean reward of the greedy plan by tenant and for a tenant never seen, the fit, and the
    squared error of the rewards it predicts."""
    rng = np.random.default_rng(100 + seed)
    odds = taste(seed)
    who = np.repeat(np.arange(N_TENANTS), SIZES)
    action = rng.integers(0, N_PLANS, len(who))
    reward = (rng.random(len(who)) < 1 / (1 + np.exp(-odds[who, action]))).astype(float)
    names = np.array([f"tenant-{k}" for k in who], dtype=object)
    context = {"size": rng.normal(size=len(who))} | ({"tenant": names} if tenant else {})
    n = len(who)
    rows = TrainingRows(
        unit=np.array(open_units(n, f"t{seed}"), dtype=object), context=context, action=action,
        feasible=np.ones((n, N_PLANS), dtype=bool), propensity=np.full(n, 1 / N_PLANS),
        keep_prob=np.ones(n), reward=reward,
    )  # fmt: skip
    inside, beyond = split(rows, 0.2)
    schema = fit_schema(inside.context)
    head = HeadConfig(
        l2=[1e-5], pair_l2=[0.1], tenant="tenant" if tenant else None, tenant_l2=list(tenant_l2)
    )
    columns = tenant_columns(schema, head.tenant)
    problem = Problem(
        catalog=known.catalog, shape=head_shape(known.catalog, schema.width, head, columns),
        train=stored(inside, schema), validation=beyond,
        validation_features=schema.encode_many(beyond.context), seed=seed,
    )  # fmt: skip
    fitter = Fitter(QUICK)
    terms = terms_of(problem, {"direct": DirectConfig()}, fitter)
    found = fit_policy(problem, terms, head=head, serving=ServingConfig(least_ess=1), fitter=fitter)
    asked = {"size": [0.0] * (N_TENANTS + 1)}
    if tenant:
        asked["tenant"] = [f"tenant-{k}" for k in range(N_TENANTS)] + ["newcomer"]
    scores = numpy_head(found.head).scores(schema.encode_many(asked, n_rows=N_TENANTS + 1))
    chance = 1 / (1 + np.exp(-np.vstack([odds, odds.mean(axis=0)])))
    error = ((1 / (1 + np.exp(-scores)) - chance) ** 2).mean(axis=1)
    return chance[np.arange(N_TENANTS + 1), scores.argmax(axis=1)], found, error


@pytest.fixture(scope="module")
def values(known):
    """Of four worlds: shared terms alone, free tenant terms, shrunk ones."""
    kinds = {
        "shared": {"tenant": False},
        "free": {"tenant": True, "tenant_l2": []},
        "shrunk": {"tenant": True},
    }
    return {name: [learnt(known, seed, **how) for seed in range(4)] for name, how in kinds.items()}


def mean_of(found, place):
    """Mean over worlds, by tenant: 0 for values, 2 for errors."""
    return np.mean([one[place] for one in found], axis=0)


def test_tenant_terms_gain_over_one_policy_for_all(values):
    shared, shrunk = (mean_of(values[name], 0)[:N_TENANTS].mean() for name in ("shared", "shrunk"))
    assert shrunk > shared + 0.01


def test_shrinkage_predicts_small_tenants_better_than_their_own_rows_alone(values):
    free, shrunk = (mean_of(values[name], 2)[2:N_TENANTS].mean() for name in ("free", "shrunk"))
    assert shrunk < 0.97 * free


def test_a_tenant_never_seen_gets_what_all_share(values):
    shared, shrunk = (mean_of(values[name], 0)[-1] for name in ("shared", "shrunk"))
    assert shrunk == pytest.approx(shared, abs=0.03)


def test_the_penalty_is_chosen_by_loss_on_validation_units(known):
    found = learnt(known, 1, tenant=True)[1]
    tried = [penalty.tenant_l2 for penalty, _ in found.penalties]
    assert tried == [0.0, 0.001, 0.003]
    assert found.curve.least == min(loss for _, loss in found.penalties)
    assert found.chosen.penalty.tenant_l2 > 0


def test_a_key_that_is_no_category_is_an_error(known):
    schema = fit_schema({"size": [1.0, 2.0], "tenant": ["a", "b"]})
    assert tenant_columns(schema, None) == ()
    assert tenant_columns(schema, "tenant") == (2, 3, 4, 5)
    for key in ("size", "nobody"):
        with pytest.raises(ConfigError, match=rf"head\.tenant: '{key}' is no category"):
            tenant_columns(schema, key)
