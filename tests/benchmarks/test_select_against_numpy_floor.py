"""Selection against the least that numpy could do: a bare masked softmax and draw.

Budgets, as ratios of both sides interleaved in one run:

- `distribution` + `draw`, scores and mask given, against the same in bare float64 numpy:
  at most 2 times at 1,024 plans and 1.6 times at 10,240.
- whole `select()` with 12 rules, 32 features, all pairs of 4 factors, floor, draw and record,
  against float32 x@W, mask, softmax, draw: at most 3 times at 1,024 and 1.5 times at 10,240.
  Both assume a float64 exp in vector registers (AVX-512): where numpy has none, float64 exp
  costs four times the float32 exp of the floor, and 4.5 and 2.5 are held instead.
- selection is linear in plans: ten times the plans cost at most twelve times as much.
"""

import statistics
import timeit

import numpy as np
import pytest

from policy.selector import Choice, distribution, draw, select, select_many
from tests.benchmarks.figures import has_avx512
from tests.benchmarks.policies import N_FEATURES, drawn_contexts, policy_of

pytestmark = pytest.mark.benchmark

N_CONTEXTS = 200


def interleaved(ours, floor, *, repeats, number):
    """Ratio of the two medians of many short, alternating timings, and both in microseconds."""
    mine, theirs = [], []
    for _ in range(repeats):
        mine.append(timeit.timeit(ours, number=number) / number * 1e6)
        theirs.append(timeit.timeit(floor, number=number) / number * 1e6)
    # The quietest tenth of either side: other load on the machine only ever adds.
    best = [statistics.median(sorted(side)[: max(1, repeats // 10)]) for side in (mine, theirs)]
    return best[0] / best[1], best


def numpy_floor(scores, mask, rng):
    """The bare masked softmax and draw, in the type of the scores."""
    masked = np.where(mask, scores, -np.inf)
    shares = np.exp(masked - masked.max())
    shares /= shares.sum()
    return int(np.searchsorted(np.cumsum(shares), rng.random()))


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policies")
    return {n_plans: policy_of(folder / str(n_plans), n_plans) for n_plans in (1_024, 10_240)}


@pytest.mark.parametrize(("n_plans", "budget"), [(1_024, 2.0), (10_240, 1.6)])
def test_distribution_and_draw_stay_near_bare_numpy(n_plans, budget, record):
    rng = np.random.default_rng(0)
    scores, mask = rng.normal(size=n_plans), rng.random(n_plans) < 0.7
    ratio, (ours, against) = interleaved(
        lambda: draw(distribution(scores, mask, 0.05), 0.37),
        lambda: numpy_floor(scores, mask, rng),
        repeats=200,
        number=20,
    )
    row = record(
        f"`distribution` + `draw`, {n_plans:,} plans",
        peer="bare numpy, float64",
        ours=ours,
        against=against,
        unit="us",
        ratio=ratio,
        at_most=budget,
    )
    assert row.holds, row


@pytest.mark.parametrize(
    ("n_plans", "budget", "budget_without_vector_exp"), [(1_024, 3.0, 4.5), (10_240, 1.5, 2.5)]
)
def test_a_whole_selection_stays_near_bare_numpy(
    policies, n_plans, budget, budget_without_vector_exp, record
):
    artifact = policies[n_plans]
    contexts = drawn_contexts(N_CONTEXTS)
    keys = [f"request-{i}" for i in range(N_CONTEXTS)]
    rng = np.random.default_rng(2)
    weights = rng.normal(size=(N_FEATURES, n_plans)).astype(np.float32)
    rows = rng.normal(size=(N_CONTEXTS, N_FEATURES)).astype(np.float32)
    mask = rng.random(n_plans) < 0.7

    def ours():
        for context, key in zip(contexts, keys, strict=True):
            select(catalog=artifact.catalog, artifact=artifact, context=context, key=key)

    def floor():
        for row in rows:
            numpy_floor(row @ weights, mask, rng)

    ours()
    ratio, total = interleaved(ours, floor, repeats=40, number=1)
    record(
        f"whole `select()`, {n_plans:,} plans",
        peer="bare numpy, float32",
        ours=total[0] / N_CONTEXTS,
        against=total[1] / N_CONTEXTS,
        unit="us",
        ratio=ratio,
        at_most=budget,
    )
    # The table says what the budget says; the test holds a machine to what it can do.
    assert ratio <= (budget if has_avx512() else budget_without_vector_exp)


def test_a_batch_costs_less_per_decision_than_one_by_one(policies, record):
    artifact = policies[1_024]
    contexts = drawn_contexts(20)
    choices = [
        Choice(artifact.catalog, context, f"request-{i}", artifact)
        for i, context in enumerate(contexts)
    ]

    def one_by_one():
        for i, context in enumerate(contexts):
            select(catalog=artifact.catalog, artifact=artifact, context=context, key=f"r{i}")

    one_by_one()
    ratio, total = interleaved(lambda: select_many(choices), one_by_one, repeats=100, number=1)
    row = record(
        "`select_many` of 20, 1,024 plans",
        peer="one by one",
        ours=total[0] / 20,
        against=total[1] / 20,
        unit="us",
        ratio=ratio,
        at_most=1.0,
    )
    assert row.holds, row


def test_selection_is_linear_in_plans(policies, record):
    contexts = drawn_contexts(N_CONTEXTS)

    def selecting(artifact):
        for i, context in enumerate(contexts):
            select(catalog=artifact.catalog, artifact=artifact, context=context, key=f"r{i}")

    for artifact in policies.values():
        selecting(artifact)
    ratio, total = interleaved(
        lambda: selecting(policies[10_240]),
        lambda: selecting(policies[1_024]),
        repeats=20,
        number=1,
    )
    row = record(
        "whole `select()`, ten times the plans",
        peer="1,024 plans",
        ours=total[0] / N_CONTEXTS,
        against=total[1] / N_CONTEXTS,
        unit="us",
        ratio=ratio,
        at_most=12.0,
    )
    assert row.holds, row
