"""Inputs on which other libraries answer wrongly without a word, each with the right answer."""

import numpy as np
import pytest

from canopy.domain.errors import InputError, RangeError
from training.preferences import SwapCode, fit_bradley_terry, swap_check
from training.preferences.clustered import clustered_intervals, clustered_variance
from training.preferences.comparisons import single_comparisons, surviving_comparisons
from training.preferences.pair_table import Names, PairTable


def table(n, *wins):
    found = np.zeros((n, n))
    for winner, loser, times in wins:
        found[winner, loser] += times
    return found


def test_groups_that_never_met_have_no_margin():
    found = fit_bradley_terry(table(4, (0, 1, 1), (1, 0, 1), (2, 3, 1), (3, 2, 1)))
    assert found.status == "disconnected"
    assert found.components == ((0, 1), (2, 3))
    assert np.isnan(found.difference_variance[0, 2])
    # Each component has its own zero: no number of one says anything of the other.
    assert found.scores[:2].sum() == found.scores[2:].sum() == 0


@pytest.mark.parametrize("prior", [0.0, 0.7])
def test_unrelated_items_move_no_contrast(prior):
    two = fit_bradley_terry(table(2, (0, 1, 3), (1, 0, 1)), prior)
    four = fit_bradley_terry(table(4, (0, 1, 3), (1, 0, 1), (2, 3, 2), (3, 2, 1)), prior)
    assert four.scores[0] - four.scores[1] == pytest.approx(two.scores[0] - two.scores[1])
    assert four.difference_variance[0, 1] == pytest.approx(two.difference_variance[0, 1])


def test_a_round_robin_stops_at_its_fixed_point_and_no_other():
    """A fixed point that is not the maximum ranks a 6 to 4 item below a 4 to 6 one."""
    strength = np.arange(6)
    chance = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    wins = np.round(20 * chance)
    np.fill_diagonal(wins, 0)
    found = fit_bradley_terry(wins)
    played = wins + wins.T
    expected = (played / (1 + np.exp(found.scores[None, :] - found.scores[:, None]))).sum(axis=1)
    assert expected == pytest.approx(wins.sum(axis=1), abs=1e-8)
    assert found.gradient < 1e-7


def test_a_winless_item_leaves_the_others_their_numbers_or_says_why_not():
    wins = table(3, (0, 1, 1), (1, 0, 1), (0, 2, 1), (1, 2, 1))
    without = fit_bradley_terry(wins)
    assert (without.status, without.scores) == ("separated", None)
    assert without.groups == ((0, 1), (2,))
    assert np.isfinite(fit_bradley_terry(wins, prior=0.1).scores).all()


def test_an_undefeated_item_does_not_level_six_good_ones():
    rng = np.random.default_rng(0)
    wins = rng.integers(5, 20, (7, 7)).astype(float)
    np.fill_diagonal(wins, 0)
    wins[:, 6] = 0
    found = fit_bradley_terry(wins)
    assert found.status == "separated"
    assert found.groups == ((6,), (0, 1, 2, 3, 4, 5))
    six = fit_bradley_terry(wins[:6, :6])
    assert len(set(six.scores.round(3))) > 1


def test_an_undefeated_item_has_not_the_narrowest_interval():
    names = "abc"
    rows = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "b")]
    pairs = PairTable.of(*zip(*rows, strict=True), ["a"] * 4, ["a"] * 4)
    comparisons = surviving_comparisons(pairs)
    fit = fit_bradley_terry(comparisons.wins, prior=1e-3)
    ends = clustered_intervals(fit, clustered_variance(comparisons, fit))
    place = names.index("a")
    assert np.isnan(ends.score_lower[place])


def test_a_gap_of_forty_is_no_nan():
    found = fit_bradley_terry(table(2, (0, 1, np.exp(40)), (1, 0, 1)))
    assert found.scores[0] - found.scores[1] == pytest.approx(40, abs=1e-6)
    assert np.isfinite(found.difference_variance).all()


def test_a_surviving_verdict_needs_both_orders():
    """A quorum that ignores an order lets the lone survivor decide."""
    codes = swap_check(["a", "a", "", None], [None, "", "a", None])
    assert list(codes) == [
        SwapCode.INCOMPLETE, SwapCode.UNPARSED, SwapCode.UNPARSED, SwapCode.INCOMPLETE,
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["error", "A", "draw", "1", True, 0.5, "a "])
def test_an_unknown_verdict_is_an_error_and_never_a_tie(word):
    with pytest.raises(InputError, match="row 2"):
        swap_check(["a", word], ["a", "a"])


def test_a_win_with_a_tie_is_a_swap_tie_and_no_win():
    assert list(swap_check(["a", "tie"], ["tie", "b"])) == [SwapCode.SWAP_TIE] * 2


def test_a_generator_is_read_once_and_whole():
    pairs = PairTable.of(
        list("ab"), list("ba"), (v for v in ["a", "b"]), (v for v in ["a", "b"])
    )  # fmt: skip
    assert surviving_comparisons(pairs).wins.sum() == 2


def test_a_negative_number_is_an_error_and_wraps_to_no_other_item():
    numbers = np.array([0, -1])
    with pytest.raises(RangeError, match="item_b"):
        PairTable(
            ("x", "y"), np.array([1, 1]), numbers, np.zeros(2, np.int8), np.zeros(2, np.int8),
            Names.of(["j", "j"]), Names.of(["c", "c"]),
        )  # fmt: skip


def test_two_orders_are_one_observation():
    pairs = PairTable.of(["x"] * 3, ["y"] * 3, ["a", "b", "a"], ["a", "b", "b"])
    assert surviving_comparisons(pairs).wins.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(InputError, match="row 1: was judged in both orders"):
        single_comparisons(pairs)


def test_a_tie_of_single_verdicts_weighs_one_game_or_none():
    pairs = PairTable.of(["x", "x"], ["y", "y"], ["a", "tie"], [None, None])
    assert single_comparisons(pairs).wins.tolist() == [[0, 1], [0, 0]]
    assert single_comparisons(pairs, ties="half").wins.tolist() == [[0, 1.5], [0.5, 0]]


def test_order_bias_cancels_from_survivors_and_not_from_one_fixed_order():
    """Equal candidates, bias 1: shown first always, the candidate wins .73 of its games."""
    rng = np.random.default_rng(0)
    n = 20_000
    first = rng.random(n) < 1 / (1 + np.exp(-1.0))
    second = rng.random(n) < 1 / (1 + np.exp(-1.0))
    ab = np.where(first, "a", "b").tolist()
    ba = np.where(second, "b", "a").tolist()
    assert np.mean(first) == pytest.approx(0.731, abs=0.01)
    pairs = PairTable.of(["new"] * n, ["old"] * n, ab, ba)
    found = fit_bradley_terry(surviving_comparisons(pairs).wins)
    std_err = np.sqrt(found.difference_variance[0, 1])
    assert abs(found.scores[0] - found.scores[1]) < 3 * std_err


def test_the_scale_of_survivors_is_twice_that_of_one_verdict():
    """P(i survives) / P(j survives) = exp(2 z) for independent calls."""
    rng = np.random.default_rng(1)
    n, z, b = 40_000, 0.6, 0.5
    ab = np.where(rng.random(n) < 1 / (1 + np.exp(-z - b)), "a", "b").tolist()
    ba = np.where(rng.random(n) < 1 / (1 + np.exp(z - b)), "b", "a").tolist()
    pairs = PairTable.of(["x"] * n, ["y"] * n, ab, ba)
    found = fit_bradley_terry(surviving_comparisons(pairs).wins)
    assert found.scores[0] - found.scores[1] == pytest.approx(2 * z, abs=0.06)
