"""Laws of Bradley-Terry fits on any comparisons."""

import choix
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from training.preferences import fit_bradley_terry
from training.preferences.clustered import clustered_intervals, clustered_variance
from training.preferences.comparisons import Comparisons, ScaleKind
from training.preferences.pair_table import Names


@st.composite
def wins(draw, most=6, at_least=0):
    n = draw(st.integers(2, most))
    found = draw(arrays(np.float64, (n, n), elements=st.integers(at_least, 6).map(float)))
    np.fill_diagonal(found, 0)
    return found


@st.composite
def comparisons(draw):
    n = draw(st.integers(2, 5))
    m = draw(st.integers(1, 25))
    winner = draw(arrays(np.intp, m, elements=st.integers(0, n - 1)))
    apart = draw(arrays(np.intp, m, elements=st.integers(1, n - 1)))
    cluster = draw(arrays(np.intp, m, elements=st.integers(0, 4)))
    return Comparisons(
        ScaleKind.SWAP_SURVIVOR, tuple("abcde"[:n]), winner, (winner + apart) % n,
        Names(tuple("01234"), cluster),
    )  # fmt: skip


def same(found, expected):
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.nan_to_num(found) == pytest.approx(np.nan_to_num(expected), abs=1e-7)


@given(wins(), st.sampled_from([0.0, 0.3]), st.randoms())
def test_permuting_items_permutes_scores_and_variances(table, prior, random):
    order = list(range(len(table)))
    random.shuffle(order)
    place = np.ix_(order, order)
    one, other = fit_bradley_terry(table, prior), fit_bradley_terry(table[place], prior)
    assert one.status == other.status
    assert (one.scores is None) == (other.scores is None)
    if one.scores is not None:
        same(other.scores, one.scores[order])
        same(other.difference_variance, one.difference_variance[place])


@given(wins(at_least=1), st.floats(-5, 5), st.sampled_from([0.0, 0.3]))
def test_the_gauge_moves_no_difference(table, anchor, prior):
    """Scores sum to 0; any other zero gives the same differences and the same variances."""
    found = fit_bradley_terry(table, prior)
    assert found.scores.sum() == pytest.approx(0, abs=1e-9)
    moved = found.scores + anchor
    same(moved[:, None] - moved, found.scores[:, None] - found.scores)
    assert found.covariance.sum(axis=1) == pytest.approx(0, abs=1e-9)


@given(wins(most=4), wins(most=4), st.sampled_from([0.0, 0.3]))
def test_an_unrelated_component_moves_nothing(table, more, prior):
    n, m = len(table), len(more)
    both = np.zeros((n + m, n + m))
    both[:n, :n], both[n:, n:] = table, more
    alone, beside = fit_bradley_terry(table, prior), fit_bradley_terry(both, prior)
    alone_scores = np.full(n, np.nan) if alone.scores is None else alone.scores
    beside_scores = np.full(n + m, np.nan) if beside.scores is None else beside.scores
    same(beside_scores[:n], alone_scores)
    if alone.difference_variance is not None:
        same(beside.difference_variance[:n, :n], alone.difference_variance)


@given(comparisons(), st.sampled_from([0.0, 0.3]))
def test_duplicating_rows_at_half_weight_moves_nothing(found, prior):
    m = len(found)
    doubled = Comparisons(
        found.scale_kind, found.items, np.tile(found.winner, 2), np.tile(found.loser, 2),
        Names(found.cluster.names, np.tile(found.cluster.numbers, 2)), np.full(2 * m, 0.5),
    )  # fmt: skip
    one, two = fit_bradley_terry(found.wins, prior), fit_bradley_terry(doubled.wins, prior)
    assert (one.status, one.groups) == (two.status, two.groups)
    if one.scores is not None:
        same(two.scores, one.scores)
        same(
            clustered_variance(doubled, two).difference_variance,
            clustered_variance(found, one).difference_variance,
        )


@given(comparisons(), st.sampled_from([0.0, 0.3]), st.randoms())
def test_the_order_of_rows_moves_nothing(found, prior, random):
    order = list(range(len(found)))
    random.shuffle(order)
    moved = Comparisons(
        found.scale_kind, found.items, found.winner[order], found.loser[order],
        Names(found.cluster.names, found.cluster.numbers[order]),
    )  # fmt: skip
    one, two = fit_bradley_terry(found.wins, prior), fit_bradley_terry(moved.wins, prior)
    if one.scores is not None:
        same(
            clustered_intervals(two, clustered_variance(moved, two)).lower,
            clustered_intervals(one, clustered_variance(found, one)).lower,
        )


@given(wins(), st.sampled_from([0.0, 0.2, 5.0]))
def test_a_fit_is_where_expected_wins_are_the_wins(table, prior):
    found = fit_bradley_terry(table, prior)
    assume(found.scores is not None)
    for members in found.components:
        rows = list(members)
        scores = found.scores[rows]
        if np.isnan(scores).any():
            continue
        mine = table[np.ix_(rows, rows)]
        chance = 1 / (1 + np.exp(scores[None, :] - scores[:, None]))
        surplus = mine.sum(axis=1) - ((mine + mine.T) * chance).sum(axis=1) - prior * scores
        assert surplus == pytest.approx(0, abs=1e-6)


@given(wins(at_least=1))
def test_dense_iterated_spectral_ranking_finds_the_same(table):
    """choix, Maystre and Grossglauser 2015, on connected data without a prior."""
    found = fit_bradley_terry(table)
    oracle = choix.ilsr_pairwise_dense(table, max_iter=1_000, tol=1e-12)
    assert found.status == "connected"
    assert found.scores == pytest.approx(oracle - oracle.mean(), abs=1e-6)
