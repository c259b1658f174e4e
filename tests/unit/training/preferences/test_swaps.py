"""Pairs judged in both orders, and the pull of a side."""

import numpy as np
import pytest
from scipy.stats import binomtest

from canopy.domain.errors import InputError, RangeError, ShapeMismatchError
from training.preferences import SwapCode, count_swaps, order_bias, swap_check

CASES = [
    ("a", "a", SwapCode.A),
    ("b", "b", SwapCode.B),
    ("a", "b", SwapCode.SWAP_TIE),
    ("b", "a", SwapCode.SWAP_TIE),
    ("a", "tie", SwapCode.SWAP_TIE),
    ("tie", "b", SwapCode.SWAP_TIE),
    ("tie", "tie", SwapCode.JUDGE_TIE),
    ("a", "", SwapCode.UNPARSED),
    ("", "", SwapCode.UNPARSED),
    ("a", None, SwapCode.INCOMPLETE),
    (None, "", SwapCode.INCOMPLETE),
    (float("nan"), "b", SwapCode.INCOMPLETE),
]


@pytest.mark.parametrize(("ab", "ba", "code"), CASES, ids=range(len(CASES)))
def test_two_orders_come_to_one_code(ab, ba, code):
    assert swap_check([ab], [ba]).tolist() == [code]


def test_an_unreadable_verdict_is_never_a_win_a_tie_or_a_loss():
    found = count_swaps(["a", "", "tie"], ["", "b", None])
    assert found.counts[SwapCode.UNPARSED] == 2
    assert found.survival is None


def test_survival_is_of_pairs_readable_in_both_orders():
    ab, ba, _ = zip(*CASES, strict=True)
    found = count_swaps(list(ab), list(ba))
    assert sum(found.counts.values()) == len(CASES)
    assert found.survival == pytest.approx(2 / 7)
    assert (found.first_both, found.second_both) == (1, 1)


def test_naming_the_items_the_other_way_round_mirrors_everything():
    rng = np.random.default_rng(0)
    ab, ba = (rng.choice(["a", "b", "tie", ""], 200) for _ in range(2))
    mirror = {"a": "b", "b": "a", "tie": "tie", "": ""}
    one = count_swaps(ab, ba)
    other = count_swaps([mirror[v] for v in ba], [mirror[v] for v in ab])
    assert one.counts[SwapCode.A] == other.counts[SwapCode.B]
    assert one.counts[SwapCode.SWAP_TIE] == other.counts[SwapCode.SWAP_TIE]
    assert one.survival == other.survival
    assert (one.first_both, one.second_both) == (other.first_both, other.second_both)


@pytest.mark.parametrize("word", ["A", "yes", 1, "first"])
def test_what_is_no_verdict_is_named_by_its_row(word):
    with pytest.raises(InputError, match="verdict_ba, row 2"):
        swap_check(["a", "a"], ["b", word])


def test_both_orders_have_as_many_pairs():
    with pytest.raises(ShapeMismatchError):
        swap_check(["a"], ["a", "b"])


@pytest.mark.parametrize(("first", "second"), [(58, 18), (0, 151), (12, 12), (1, 0)])
def test_order_bias_is_the_closed_form_and_its_test_is_exact(first, second):
    found = order_bias(first, second)
    assert found.b == pytest.approx(np.log((first + 0.5) / (second + 0.5)) / 2)
    exact = binomtest(first, first + second, 0.5).pvalue
    assert found.p_value == pytest.approx(exact)
    assert found.interval[0] < found.b < found.interval[1]
    assert order_bias(second, first).b == pytest.approx(-found.b)


def test_order_bias_recovers_a_known_pull_whatever_the_items():
    rng = np.random.default_rng(0)
    strength = rng.normal(0, 1, 20_000)
    first = rng.random((2, 20_000))
    a_first = first[0] < 1 / (1 + np.exp(-(strength + 1)))
    b_first = first[1] < 1 / (1 + np.exp(-(-strength + 1)))
    found = order_bias(int((a_first & b_first).sum()), int((~a_first & ~b_first).sum()))
    assert found.b == pytest.approx(1, abs=4 * found.std_err)
    assert found.interval[0] <= 1 <= found.interval[1]


def test_without_a_side_that_won_twice_there_is_no_test():
    assert order_bias(0, 0).p_value is None
    assert order_bias(0, 0).b == 0
    for arguments in ((-1, 0), (0, -1)):
        with pytest.raises(RangeError, match="both"):
            order_bias(*arguments)
    with pytest.raises(RangeError, match="level"):
        order_bias(1, 1, level=1)
