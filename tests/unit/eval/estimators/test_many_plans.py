"""Many plans with few levels: how much weighing levels instead of plans gains.

The setting of Saito and Joachims, Off-Policy Evaluation for Large Action Spaces via Embeddings,
ICML 2022, section 4.1, made smaller: 10 context features, three categorical embeddings of ten
levels drawn given the plan, a logging policy of softmax(-q), an epsilon-greedy target, rewards of
the embedding with noise 2.5, 2,000 rows. The paper shows figures; the orders are what is held.
"""

import numpy as np
import pytest

from eval.estimators import ips, marginalized_ips

N, D, N_FACTORS, N_LEVELS, LATENT, EPSILON, NOISE = 2_000, 10, 3, 10, 5, 0.05, 2.5


def softmax(scores):
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def errors(n_plans, rng):
    """Squared errors of weighing plans and of weighing levels on one log."""
    given = softmax(rng.normal(size=(N_FACTORS, n_plans, N_LEVELS)))
    matter = rng.dirichlet(np.ones(N_FACTORS))
    latent = rng.normal(size=(N_FACTORS, N_LEVELS, LATENT))
    x = rng.normal(size=(N, D))
    of_level = np.einsum("nl,fjl->nfj", x @ rng.normal(size=(D, LATENT)), latent)
    of_level /= np.sqrt(D * LATENT)
    q = np.einsum("f,nfj,fkj->nk", matter, of_level, given)
    logging = softmax(-q)
    target = np.full((N, n_plans), EPSILON / n_plans)
    target[np.arange(N), q.argmax(axis=1)] += 1 - EPSILON
    taken = (logging.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(max=n_plans - 1)
    rows = np.arange(N)
    levels = np.stack([
        (given[f, taken].cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(max=N_LEVELS - 1)
        for f in range(N_FACTORS)
    ])
    reward = matter @ np.stack([of_level[rows, f, levels[f]] for f in range(N_FACTORS)])
    reward = reward + rng.normal(0, NOISE, N)
    # Jointly: the probability of all three levels together, given each plan.
    joint = np.prod([given[f][:, levels[f]] for f in range(N_FACTORS)], axis=0).T
    by_level = (target * joint).sum(axis=1) / (logging * joint).sum(axis=1)
    value = (target * q).sum(axis=1).mean()
    plain = ips(reward, (target / logging)[rows, taken])
    marginal = marginalized_ips(reward, by_level)
    return (
        (plain.contributions.mean() - value) ** 2,
        (marginal.contributions.mean() - value) ** 2,
        plain.ess,
        marginal.ess,
    )


@pytest.mark.parametrize(
    ("n_plans", "n_runs", "least"), [(10, 40, 1.5), (100, 40, 8), (1_000, 15, 30)]
)
def test_weighing_levels_gains_more_the_more_plans_there_are(n_plans, n_runs, least):
    rng = np.random.default_rng(0)
    runs = np.array([errors(n_plans, rng) for _ in range(n_runs)])
    plain, marginal, plain_ess, marginal_ess = runs.mean(axis=0)
    assert plain / marginal > least
    if n_plans == 100:
        assert marginal_ess > 10 * plain_ess
