"""Bradley-Terry: the fit, when it exists, and what a prior may and may not say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from canopy.domain.errors import RangeError, ShapeMismatchError
from training.preferences import fit_bradley_terry


def table(n, *wins):
    found = np.zeros((n, n))
    for winner, loser, times in wins:
        found[winner, loser] += times
    return found


def drawn(seed, n=6, games=8):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    chance = 1 / (1 + np.exp(-(scores[:, None] - scores)))
    found = np.triu(rng.binomial(games, chance), 1)
    return found + np.tril(games - found.T, -1)


def by_scipy(wins, prior):
    def loss(scores):
        gaps = scores[:, None] - scores
        return (wins * np.logaddexp(0, -gaps)).sum() + prior / 2 * scores @ scores

    found = minimize(loss, np.zeros(len(wins)), method="BFGS", options={"gtol": 1e-9})
    return found.x - found.x.mean()


@pytest.mark.parametrize("prior", [0.0, 0.7])
@pytest.mark.parametrize("seed", range(4))
def test_the_scores_are_those_of_a_general_optimiser(seed, prior):
    wins = drawn(seed)
    found = fit_bradley_terry(wins, prior)
    assert found.scores == pytest.approx(by_scipy(wins, prior), abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_expected_wins_are_the_wins_counted(seed):
    """elote 65: a fixed point that does not solve the equations is no fit."""
    wins = drawn(seed)
    found = fit_bradley_terry(wins)
    chance = 1 / (1 + np.exp(-(found.scores[:, None] - found.scores)))
    assert ((wins + wins.T) * chance).sum(axis=1) == pytest.approx(wins.sum(axis=1), abs=1e-6)
    assert found.gradient < 1e-6


def test_two_items_have_the_log_odds_of_their_wins():
    found = fit_bradley_terry(table(2, (0, 1, 3), (1, 0, 1)))
    assert found.status == "connected"
    assert found.scores[0] - found.scores[1] == pytest.approx(np.log(3))
    assert found.difference_variance[0, 1] == pytest.approx(1 / (4 * 0.75 * 0.25))
    assert found.scores.sum() == pytest.approx(0)


def test_items_never_compared_are_disconnected_and_their_difference_is_unknown():
    """BradleyTerry2 6."""
    found = fit_bradley_terry(table(4, (0, 1, 1), (1, 0, 1), (2, 3, 1), (3, 2, 1)))
    assert found.status == "disconnected"
    assert found.components == ((0, 1), (2, 3))
    assert np.isnan(found.difference_variance[0, 2])
    assert np.isfinite(found.difference_variance[0, 1])


def test_a_winless_item_is_separated_and_gets_no_number_by_chance():
    """tabarena 494, evalica: everything became NaN, or 1e-06."""
    found = fit_bradley_terry(table(3, (0, 1, 1), (1, 0, 1), (0, 2, 1), (1, 2, 1)))
    assert (found.status, found.scores, found.difference_variance) == ("separated", None, None)
    assert found.groups == ((0, 1), (2,))
    with_prior = fit_bradley_terry(table(3, (0, 1, 1), (1, 0, 1), (0, 2, 1), (1, 2, 1)), 0.5)
    assert with_prior.status == "separated"
    assert np.isfinite(with_prior.scores).all()
    assert with_prior.scores[2] < with_prior.scores[0]


def test_groups_stand_from_the_strongest_to_the_weakest():
    found = fit_bradley_terry(table(4, (2, 0, 1), (0, 3, 1), (3, 1, 1)))
    assert found.groups == ((2,), (0,), (3,), (1,))


def test_an_unrelated_component_moves_nothing():
    """GABRIEL 73."""
    small = table(2, (0, 1, 3), (1, 0, 1))
    large = table(4, (0, 1, 3), (1, 0, 1), (2, 3, 2), (3, 2, 1))
    for prior in (0.0, 1.0):
        alone, beside = fit_bradley_terry(small, prior), fit_bradley_terry(large, prior)
        assert beside.scores[:2] == pytest.approx(alone.scores)
        assert beside.difference_variance[0, 1] == pytest.approx(alone.difference_variance[0, 1])


def test_a_difference_that_the_prior_made_is_marked():
    weak = fit_bradley_terry(table(3, (0, 1, 50), (1, 0, 40), (1, 2, 1)), prior=2.0)
    assert not weak.prior_dominated[0, 1]
    assert weak.prior_dominated[1, 2]
    assert not weak.prior_dominated.diagonal().any()
    assert not fit_bradley_terry(drawn(0)).prior_dominated.any()


def test_differences_of_forty_do_not_overflow():
    """FastChat: 1 - p rounded to 0 from 37 on."""
    found = fit_bradley_terry(table(2, (0, 1, 1e18), (1, 0, 1)), prior=0.0)
    assert found.scores[0] - found.scores[1] == pytest.approx(np.log(1e18), rel=1e-6)


@given(st.integers(0, 50), st.permutations(range(5)))
def test_permuting_items_permutes_scores_and_scaling_counts_moves_none(seed, order):
    wins = drawn(seed, n=5) + 0.5 * (1 - np.eye(5))
    found = fit_bradley_terry(wins)
    moved = fit_bradley_terry(wins[np.ix_(order, order)])
    assert moved.scores == pytest.approx(found.scores[list(order)], abs=1e-6)
    doubled = fit_bradley_terry(2 * wins)
    assert doubled.scores == pytest.approx(found.scores, abs=1e-6)
    assert doubled.difference_variance == pytest.approx(found.difference_variance / 2, rel=1e-5)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_without_a_comparison_there_is_no_data(n):
    found = fit_bradley_terry(np.zeros((n, n)))
    assert (found.status, found.scores) == ("no_data", None)


@pytest.mark.parametrize(
    ("wins", "prior", "error", "message"),
    [
        ([[0, 1, 2]], 0, ShapeMismatchError, "wins"),
        ([[0, -1], [1, 0]], 0, RangeError, "wins, row 1"),
        ([[0, np.nan], [1, 0]], 0, RangeError, "wins, row 1"),
        ([[1, 1], [1, 0]], 0, RangeError, "itself"),
        ([[0, 1], [1, 0]], -1, RangeError, "prior"),
        ([[0, 1], [1, 0]], np.inf, RangeError, "prior"),
    ],
)
def test_tables_that_cannot_be_are_errors(wins, prior, error, message):
    with pytest.raises(error, match=message):
        fit_bradley_terry(wins, prior)
