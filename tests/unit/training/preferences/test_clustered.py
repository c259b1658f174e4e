"""Intervals of Bradley-Terry scores: Fisher, sandwich by clusters, cluster bootstrap."""

import numpy as np
import pytest

from canopy.domain.errors import RangeError
from training.preferences import fit_bradley_terry
from training.preferences.clustered import (
    clustered_intervals,
    clustered_variance,
    fisher_intervals,
)
from training.preferences.comparisons import Comparisons, ScaleKind, surviving_comparisons
from training.preferences.pair_table import Names, PairTable
from training.preferences.resampled import resampled_intervals


def comparisons_of(rows, *, items="abcdef", weight=None):
    """Comparisons from (winner, loser, cluster)."""
    names = tuple(items)
    winner, loser, cluster = zip(*rows, strict=True)
    return Comparisons(
        ScaleKind.SWAP_SURVIVOR,
        names,
        np.array([names.index(w) for w in winner]),
        np.array([names.index(one) for one in loser]),
        Names.of([str(c) for c in cluster]),
        None if weight is None else np.array(weight),
    )


def drawn(seed, *, n=5, n_clusters=30, per_cluster=8, spread=0.0):
    """Comparisons whose strengths wander from cluster to cluster by `spread`."""
    rng = np.random.default_rng(seed)
    strength = np.linspace(1, -1, n)
    rows = []
    for cluster in range(n_clusters):
        here = strength + spread * rng.normal(size=n)
        for _ in range(per_cluster):
            i, j = rng.choice(n, 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(here[j] - here[i]))
            rows.append(("abcdef"[i], "abcdef"[j], cluster) if won else
                        ("abcdef"[j], "abcdef"[i], cluster))  # fmt: skip
    return comparisons_of(rows, items="abcdef"[:n])


def by_hand(comparisons, scores):
    """The sandwich written out: a loop over clusters, and a pseudo-inverse."""
    n = len(comparisons.items)
    information, surplus = np.zeros((n, n)), {}
    for w, lost, c in zip(
        comparisons.winner, comparisons.loser, comparisons.cluster.numbers, strict=True
    ):
        p = 1 / (1 + np.exp(scores[lost] - scores[w]))
        e = np.zeros(n)
        e[w], e[lost] = 1, -1
        information += p * (1 - p) * np.outer(e, e)
        surplus[c] = surplus.get(c, 0) + (1 - p) * e
    inverse = np.linalg.pinv(information)
    meat = sum(np.outer(s, s) for s in surplus.values())
    return inverse @ meat @ inverse * len(surplus) / (len(surplus) - 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_sandwich_is_the_one_written_out(seed):
    comparisons = drawn(seed)
    fit = fit_bradley_terry(comparisons.wins)
    found = clustered_variance(comparisons, fit)
    assert found.covariance == pytest.approx(by_hand(comparisons, fit.scores), abs=1e-10)
    assert set(found.n_clusters) == {30}


def test_many_clusters_take_another_way_to_the_same_variances(monkeypatch):
    comparisons = drawn(3)
    fit = fit_bradley_terry(comparisons.wins)
    dense = clustered_variance(comparisons, fit)
    monkeypatch.setattr("training.preferences.clustered._MOST_CELLS", 0)
    sparse = clustered_variance(comparisons, fit)
    assert sparse.difference_variance == pytest.approx(dense.difference_variance, abs=1e-12)


def test_half_weights_of_doubled_rows_move_nothing():
    comparisons = drawn(4)
    rows = [
        (comparisons.items[w], comparisons.items[lost], c)
        for w, lost, c in zip(
            comparisons.winner, comparisons.loser, comparisons.cluster.numbers, strict=True
        )
    ]
    doubled = comparisons_of(rows * 2, items=comparisons.items, weight=[0.5] * 2 * len(rows))
    once, twice = fit_bradley_terry(comparisons.wins), fit_bradley_terry(doubled.wins)
    assert twice.scores == pytest.approx(once.scores, abs=1e-12)
    assert clustered_variance(doubled, twice).difference_variance == pytest.approx(
        clustered_variance(comparisons, once).difference_variance, abs=1e-12
    )


def test_an_unrelated_component_moves_no_variance():
    rows = [("a", "b", 0), ("b", "a", 0), ("a", "b", 1), ("b", "a", 2), ("a", "b", 3)]
    more = [("c", "d", k) for k in range(7, 12)] + [("d", "c", k) for k in range(9, 14)]
    alone, both = comparisons_of(rows, items="ab"), comparisons_of(rows + more, items="abcd")
    fits = [fit_bradley_terry(c.wins) for c in (alone, both)]
    one, two = (clustered_variance(c, f) for c, f in zip((alone, both), fits, strict=True))
    assert two.difference_variance[0, 1] == pytest.approx(one.difference_variance[0, 1], abs=1e-12)
    assert np.isnan(two.difference_variance[0, 2])


def test_intervals_of_differences_do_not_depend_on_an_anchor():
    """Published per-item intervals change with the anchor; differences may not."""
    comparisons = drawn(5)
    fit = fit_bradley_terry(comparisons.wins)
    ends = clustered_intervals(fit, clustered_variance(comparisons, fit))
    order = [4, 2, 0, 1, 3]
    moved = Comparisons(
        comparisons.scale_kind, tuple(comparisons.items[k] for k in order),
        np.argsort(order)[comparisons.winner], np.argsort(order)[comparisons.loser],
        comparisons.cluster,
    )  # fmt: skip
    again = fit_bradley_terry(moved.wins)
    other = clustered_intervals(again, clustered_variance(moved, again))
    assert other.lower == pytest.approx(ends.lower[np.ix_(order, order)], abs=1e-9)
    assert ends.lower == pytest.approx(-ends.upper.T, abs=1e-12)


def test_no_width_is_not_certainty():
    """An undefeated item has no finite difference, and its interval is none, not the narrowest."""
    rows = [("a", "b", 0), ("a", "c", 1), ("b", "c", 2), ("c", "b", 3)] * 3
    comparisons = comparisons_of(rows, items="abc")
    fit = fit_bradley_terry(comparisons.wins, prior=0.5)
    found = clustered_variance(comparisons, fit)
    assert fit.status == "separated"
    assert np.isfinite(fit.scores).all()
    assert np.isnan(found.difference_variance[0, 1])
    assert found.difference_variance[1, 2] > 0
    assert np.isnan(clustered_intervals(fit, found).score_lower[0])


def test_all_ties_have_no_clustered_width():
    halves = [(w, lost, k) for k in range(4) for w, lost in ("ab", "ba")]
    comparisons = comparisons_of(halves, items="ab", weight=[0.5] * 8)
    fit = fit_bradley_terry(comparisons.wins)
    assert np.isnan(clustered_variance(comparisons, fit).difference_variance[0, 1])
    assert fisher_intervals(fit).upper[0, 1] > 0


def test_one_cluster_gives_no_interval():
    comparisons = comparisons_of([("a", "b", 0), ("b", "a", 0), ("a", "b", 0)], items="ab")
    fit = fit_bradley_terry(comparisons.wins)
    found = clustered_variance(comparisons, fit)
    assert np.isnan(found.difference_variance[0, 1])
    ends = resampled_intervals(comparisons, fit, rng=np.random.default_rng(0)).intervals
    assert np.isnan(ends.lower[0, 1])


def test_the_bootstrap_is_a_refit_of_the_clusters_drawn():
    comparisons = drawn(6, n=4, n_clusters=12, per_cluster=30)
    fit = fit_bradley_terry(comparisons.wins)
    found = resampled_intervals(comparisons, fit, rng=np.random.default_rng(7), n_resamples=40)
    times = np.random.default_rng(7).multinomial(12, np.full(12, 1 / 12), 40)
    refits = []
    for replicate in times:
        weight = replicate[comparisons.cluster.numbers].astype(float)
        again = Comparisons(
            comparisons.scale_kind, comparisons.items, comparisons.winner, comparisons.loser,
            comparisons.cluster, weight,
        )  # fmt: skip
        refits.append(fit_bradley_terry(again.wins).scores)
    refits = np.array(refits)
    expected = np.quantile(refits[:, 0] - refits[:, 3], [0.025, 0.975], method="inverted_cdf")
    ends = found.intervals
    assert (ends.lower[0, 3], ends.upper[0, 3]) == pytest.approx(tuple(expected), abs=1e-6)
    assert found.n_undefined == 0


def test_replicates_without_scores_are_counted_and_lie_beyond_both_ends():
    # Without cluster 0, b never beats a: about e^-1 of the replicates.
    rows = [("b", "a", 0)] + [("a", "b", k) for k in range(1, 6)]
    comparisons = comparisons_of(rows, items="ab")
    fit = fit_bradley_terry(comparisons.wins)
    found = resampled_intervals(comparisons, fit, rng=np.random.default_rng(0), n_resamples=500)
    assert found.n_undefined / 500 == pytest.approx((5 / 6) ** 6, abs=0.07)
    assert np.isnan(found.intervals.lower[0, 1])
    assert np.isnan(found.intervals.upper[0, 1])


def test_sparse_counts_give_the_same_bootstrap(monkeypatch):
    comparisons = drawn(8)
    fit = fit_bradley_terry(comparisons.wins)
    kept = {"n_resamples": 60}
    dense = resampled_intervals(comparisons, fit, rng=np.random.default_rng(1), **kept)
    monkeypatch.setattr("training.preferences.resampled._DENSE", 0)
    sparse = resampled_intervals(comparisons, fit, rng=np.random.default_rng(1), **kept)
    assert sparse.intervals.upper == pytest.approx(dense.intervals.upper, abs=1e-9)


@pytest.mark.parametrize(("method", "at_least"), [("clustered", 0.92), ("resampled", 0.90)])
def test_clustered_intervals_cover_where_independent_ones_do_not(method, at_least):
    """Known world: strengths wander by prompt, as real ones do."""
    n_worlds = 120
    # Wandering strengths flatten the scale of the whole: the truth is the fit of endless clusters.
    endless = fit_bradley_terry(drawn(0, n=4, n_clusters=6_000, per_cluster=25, spread=0.6).wins)
    truth = endless.scores[0] - endless.scores[3]
    covered = {"fisher": 0, method: 0}
    for seed in range(n_worlds):
        comparisons = drawn(1_000 + seed, n=4, n_clusters=40, per_cluster=25, spread=0.6)
        fit = fit_bradley_terry(comparisons.wins)
        ends = {"fisher": fisher_intervals(fit)}
        if method == "clustered":
            ends[method] = clustered_intervals(fit, clustered_variance(comparisons, fit))
        else:
            rng = np.random.default_rng(seed)
            ends[method] = resampled_intervals(comparisons, fit, rng=rng, n_resamples=200).intervals
        for name, found in ends.items():
            covered[name] += found.lower[0, 3] <= truth <= found.upper[0, 3]
    assert covered[method] / n_worlds >= at_least
    assert covered["fisher"] / n_worlds < covered[method] / n_worlds


@pytest.mark.parametrize("level", [0, 1, 1.5, float("nan")])
def test_a_level_that_is_none_is_an_error(level):
    comparisons = drawn(9)
    fit = fit_bradley_terry(comparisons.wins)
    for call in (
        lambda: fisher_intervals(fit, level=level),
        lambda: clustered_intervals(fit, clustered_variance(comparisons, fit), level=level),
        lambda: resampled_intervals(comparisons, fit, rng=np.random.default_rng(0), level=level),
    ):
        with pytest.raises(RangeError, match="coverage between 0 and 1"):
            call()


def test_no_replicates_are_an_error():
    comparisons = drawn(9)
    fit = fit_bradley_terry(comparisons.wins)
    with pytest.raises(RangeError, match="at least 1 replicate"):
        resampled_intervals(comparisons, fit, rng=np.random.default_rng(0), n_resamples=0)


def test_without_scores_there_are_no_intervals():
    pairs = PairTable.of(["a"], ["b"], ["a"], ["a"])
    comparisons = surviving_comparisons(pairs)
    fit = fit_bradley_terry(comparisons.wins)
    assert fit.scores is None
    assert np.isnan(fisher_intervals(fit).lower).all()
    assert np.isnan(clustered_variance(comparisons, fit).covariance).all()
    found = resampled_intervals(comparisons, fit, rng=np.random.default_rng(0), n_resamples=3)
    assert np.isnan(found.intervals.score_lower).all()
