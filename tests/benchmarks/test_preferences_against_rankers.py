"""A million verdicts to a preference artifact, against choix and evalica.

Rows are dictionary-encoded ids in memory, a decisive verdict each; 1,000 clusters. Ours is
everything from the verdicts to the artifact: tallies by judge, the fit, Fisher and clustered
intervals of every difference, the models beside, and the hashes that name it. Theirs is the fit
alone, from winners and losers already picked out for them: choix's iterated spectral ranking on a
list of pairs, evalica's Bradley-Terry. Beside, without a budget: a million pairs judged in both
orders, of which about half survive; the same from plain strings in memory, and from a CSV file.

All run on one thread. evalica is asked for a tolerance of 1e-8, by which it agrees with the others
to 1e-6.

Budgets: at least 25 times faster than choix and 8 times than evalica, at 50 and at 1,000 items;
1,000 replicates of the cluster bootstrap within a second. At 1,000 items the budget is held by
scores with the variances of their million differences, if it is; the whole artifact, which
multiplies matrices of that size for its clustered variances, is shown beside.
"""

import csv
import timeit

import choix
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from training.preferences import fit_bradley_terry
from training.preferences.comparisons import ScaleKind, single_comparisons
from training.preferences.fitting import FitSettings, Origin, fit_preferences, preferences_of
from training.preferences.pair_files import read_pairs
from training.preferences.pair_table import Names, PairTable
from training.preferences.resampled import resampled_intervals
from training.preferences.swaps import NOT_JUDGED

pytestmark = pytest.mark.benchmark

N_ROWS, N_CLUSTERS = 1_000_000, 1_000
WORDS = np.array(["a", "b"])
SINGLE = FitSettings(n_resamples=0, scale_kind=ScaleKind.SINGLE_VERDICT)
BOTH = FitSettings(n_resamples=0)


def drawn(n_items, *, both_orders=False):
    """Verdicts by a judge with a bias of .3."""
    rng = np.random.default_rng(0)
    strength = rng.normal(0, 0.8, n_items)
    a = rng.integers(0, n_items, N_ROWS, dtype=np.int32)
    b = ((a + 1 + rng.integers(0, n_items - 1, N_ROWS)) % n_items).astype(np.int32)
    z = strength[a] - strength[b]
    verdicts = [
        (rng.random(N_ROWS) > 1 / (1 + np.exp(-z - bias))).astype(np.int8) for bias in (0.3, -0.3)
    ]
    if not both_orders:
        verdicts[1] = np.full(N_ROWS, NOT_JUDGED, np.int8)
    return PairTable(
        items=tuple(f"item-{k}" for k in range(n_items)),
        item_a=a, item_b=b, verdict_ab=verdicts[0], verdict_ba=verdicts[1],
        judge=Names(("judge",), np.zeros(N_ROWS, np.int32)),
        cluster=Names(
            tuple(f"prompt-{k}" for k in range(N_CLUSTERS)),
            rng.integers(0, N_CLUSTERS, N_ROWS, dtype=np.int32),
        ),
    )  # fmt: skip


def fresh(pairs):
    """The same table without anything worked out before."""
    return PairTable(
        pairs.items, pairs.item_a, pairs.item_b, pairs.verdict_ab, pairs.verdict_ba, pairs.judge,
        pairs.cluster,
    )  # fmt: skip


def artifact(pairs, settings=SINGLE):
    return preferences_of(fit_preferences(fresh(pairs), settings), Origin())


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(limits=1):
        yield


def seconds(call, repeat):
    return min(timeit.repeat(call, number=1, repeat=repeat))


@pytest.fixture(scope="module")
def fifty():
    return drawn(50)


def by_evalica(evalica, comparisons):
    """evalica's own indices of the items, and a fit on them."""
    names = list(comparisons.items)
    index = evalica.indexing(names, names)[2]
    left, right = comparisons.winner.tolist(), comparisons.loser.tolist()
    winners = [evalica.Winner.X] * len(left)
    places = list(comparisons.items)
    xs, ys = [places[k] for k in left], [places[k] for k in right]
    return lambda: evalica.bradley_terry(xs, ys, winners, index=index, tolerance=1e-8, limit=10_000)


def by_choix(comparisons):
    games = list(zip(comparisons.winner.tolist(), comparisons.loser.tolist(), strict=True))
    n = len(comparisons.items)
    return lambda: choix.ilsr_pairwise(n, games)


def test_a_million_verdicts_of_fifty_items_become_an_artifact(fifty, record):
    comparisons = single_comparisons(fifty)
    theirs = by_choix(comparisons)
    ours = artifact(fifty)
    oracle = theirs()
    assert ours.scores == pytest.approx(oracle - oracle.mean(), abs=1e-6)
    mine, other = seconds(lambda: artifact(fifty), 7), seconds(theirs, 2)
    row = record(
        "1e6 verdicts, 50 items → artifact", ours=mine * 1e3, unit="ms",
        peer="choix ilsr_pairwise", against=other * 1e3, ratio=other / mine, at_least=25,
    )  # fmt: skip
    assert row.holds


def test_the_same_against_evalica(fifty, record):
    evalica = pytest.importorskip("evalica")
    comparisons = single_comparisons(fifty)
    theirs = by_evalica(evalica, comparisons)
    found = theirs().scores
    expected = np.log(np.array([found[item] for item in comparisons.items]))
    assert artifact(fifty).scores == pytest.approx(expected - expected.mean(), abs=1e-4)
    mine, other = seconds(lambda: artifact(fifty), 7), seconds(theirs, 3)
    row = record(
        "1e6 verdicts, 50 items → artifact", ours=mine * 1e3, unit="ms",
        peer="evalica bradley_terry", against=other * 1e3, ratio=other / mine, at_least=8,
    )  # fmt: skip
    assert row.holds


def test_a_thousand_cluster_replicates_take_a_second(fifty, record):
    comparisons = single_comparisons(fifty)
    fit = fit_bradley_terry(comparisons.wins)

    def replicate():
        resampled_intervals(comparisons, fit, rng=np.random.default_rng(0), n_resamples=1_000)

    row = record(
        "1,000 cluster replicates, 50 items", ours=seconds(replicate, 3), unit="s", at_most=1.0
    )
    assert row.holds


def test_a_thousand_items(record):
    pairs = drawn(1_000)
    comparisons = single_comparisons(pairs)
    theirs = by_choix(comparisons)
    oracle = theirs()
    other = seconds(theirs, 1)

    def scores():
        return fit_bradley_terry(single_comparisons(fresh(pairs)).wins)

    assert scores().scores == pytest.approx(oracle - oracle.mean(), abs=1e-6)
    whole, alone = seconds(lambda: artifact(pairs), 3), seconds(scores, 3)
    record(
        "1e6 verdicts, 1,000 items → artifact", ours=whole, unit="s",
        peer="choix ilsr_pairwise", against=other, ratio=other / whole,
    )  # fmt: skip
    row = record(
        "1e6 verdicts, 1,000 items → scores and variances", ours=alone, unit="s",
        peer="choix ilsr_pairwise", against=other, ratio=other / alone, at_least=25,
    )  # fmt: skip
    assert row.holds


def test_a_thousand_items_against_evalica(record):
    evalica = pytest.importorskip("evalica")
    pairs = drawn(1_000)
    comparisons = single_comparisons(pairs)

    def scores():
        return fit_bradley_terry(single_comparisons(fresh(pairs)).wins)

    theirs = by_evalica(evalica, comparisons)
    found = theirs().scores
    expected = np.log(np.array([found[item] for item in comparisons.items]))
    assert scores().scores == pytest.approx(expected - expected.mean(), abs=1e-4)
    alone, other = seconds(scores, 3), seconds(theirs, 2)
    row = record(
        "1e6 verdicts, 1,000 items → scores and variances", ours=alone, unit="s",
        peer="evalica bradley_terry", against=other, ratio=other / alone, at_least=8,
    )  # fmt: skip
    assert row.holds


def test_both_orders_plain_strings_and_csv_are_shown_beside(tmp_path, record):
    fifty = drawn(50, both_orders=True)
    both = seconds(lambda: artifact(fifty, BOTH), 5)
    record("1e6 pairs in both orders, 50 items → artifact", ours=both * 1e3, unit="ms")
    items = np.array(fifty.items)
    columns = [
        items[fifty.item_a].tolist(), items[fifty.item_b].tolist(),
        WORDS[fifty.verdict_ab].tolist(), WORDS[fifty.verdict_ba].tolist(),
    ]  # fmt: skip
    cluster = [fifty.cluster.names[k] for k in fifty.cluster.numbers.tolist()]
    strings = seconds(lambda: artifact(PairTable.of(*columns, cluster=cluster), BOTH), 2)
    record("1e6 pairs in both orders, from plain strings → artifact", ours=strings, unit="s")
    path = tmp_path / "pairs.csv"
    with path.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["item_a", "item_b", "judge", "verdict_ab", "verdict_ba", "cluster"])
        judge = ["judge"] * N_ROWS
        writer.writerows(zip(columns[0], columns[1], judge, columns[2], columns[3], cluster,
                             strict=True))  # fmt: skip
    from_file = seconds(lambda: artifact(read_pairs(path), BOTH), 1)
    record("1e6 pairs in both orders, from a CSV file → artifact", ours=from_file, unit="s")
