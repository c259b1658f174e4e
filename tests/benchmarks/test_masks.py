"""Feasibility masks: one context, a million contexts, and what the rules themselves cost.

The peer asks the rules the plain way: every rule as a Python function of the context, and a row
of the mask per rule that fires. 12 rules that read two values each.

Budgets of our own, for want of any in the field: one context in at most 20 us at 1,024 plans,
and no slower than the plain way; in at most 60 us at 102,400, where most masks are new and each
is copied out of reach of later writes, which the plain way does not do. A million contexts at
least 10 times faster than one by one, in at most 1 GiB.
"""

import resource
import subprocess
import sys
import timeit

import numpy as np
import pytest

from policy.masks import mask_context, mask_patterns
from tests.benchmarks.policies import N_FEATURES, N_RULES, catalog_of, drawn_contexts
from tests.benchmarks.test_select_against_numpy_floor import interleaved

pytestmark = pytest.mark.benchmark

N_CONTEXTS, MANY = 200, 1_000_000


def plainly(catalog):
    """The mask of a context, from closures and one logical or per rule that fires."""
    rules = [
        (lambda c, i=i: c[f"x{i}"] > 1.0 and c[f"x{i + 1}"] != 0.0, catalog.rule_masks[i])
        for i in range(N_RULES)
    ]

    def mask(context):
        masked = np.zeros(catalog.n_plans, dtype=np.bool_)
        for test, row in rules:
            if test(context):
                masked |= row
        return ~masked

    return mask


@pytest.mark.parametrize(("n_plans", "at_most_us"), [(1_024, 20), (102_400, 60)])
def test_the_mask_of_one_context_takes_microseconds(n_plans, at_most_us, record):
    catalog, contexts = catalog_of(n_plans), drawn_contexts(N_CONTEXTS)
    plain = plainly(catalog)
    for context in contexts:
        assert np.array_equal(mask_context(catalog, context).feasible, plain(context))

    def ours():
        for context in contexts:
            mask_context(catalog, context)

    def theirs():
        for context in contexts:
            plain(context)

    _, total = interleaved(ours, theirs, repeats=40, number=1)
    row = record(
        f"mask of one context, 12 rules, {n_plans:,} plans",
        peer="a Python function per rule",
        ours=total[0] / N_CONTEXTS,
        against=total[1] / N_CONTEXTS,
        unit="us",
        at_most=at_most_us,
    )
    assert row.holds, row
    assert n_plans > 1_024 or row.ours <= row.against


def columns_of(n):
    values = np.random.default_rng(1).normal(size=(N_FEATURES, n))
    return {f"x{i}": column for i, column in enumerate(values)}


def test_a_million_contexts_are_masked_together(record):
    catalog, columns = catalog_of(1_024), columns_of(MANY)
    few = drawn_contexts(1_000)
    mask_patterns(catalog, {name: column[:10] for name, column in columns.items()})
    together_us = min(timeit.repeat(lambda: mask_patterns(catalog, columns), number=1, repeat=3))
    alone_us = min(
        timeit.repeat(lambda: [mask_context(catalog, c) for c in few], number=1, repeat=5)
    )
    ours, against = together_us / MANY * 1e6, alone_us / len(few) * 1e6
    row = record(
        "masks of a million contexts, each",
        peer="one by one",
        ours=ours,
        against=against,
        unit="us",
        ratio=against / ours,
        at_least=10,
    )
    assert row.holds, row


def masked_apart():
    """What the child does: a million contexts, their masks read a block at a time."""
    catalog = catalog_of(1_024)
    patterns = mask_patterns(catalog, columns_of(MANY))
    n_feasible = sum(int(np.count_nonzero(rows)) for _, rows in patterns.blocks())
    assert MANY < n_feasible < MANY * catalog.n_plans
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def test_the_masks_of_a_million_contexts_fit_in_memory(record):
    ran = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.test_masks"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    row = record(
        "their memory, the contexts among it",
        ours=float(ran.stdout),
        unit="GiB",
        at_most=1.0,
    )
    assert row.holds, row


if __name__ == "__main__":
    masked_apart()
