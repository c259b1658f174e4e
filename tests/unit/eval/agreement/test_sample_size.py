"""How much judging a question needs: known numbers, and the power they promise."""

import numpy as np
import pytest
from scipy.stats import binom

from canopy.domain.errors import RangeError
from eval.agreement import (
    chance_agreement,
    decisive_pairs,
    design_effect,
    exact_decisive_pairs,
    kappa,
    kappa_items,
    plan_items,
    plan_pairs,
)


@pytest.mark.parametrize(("rate", "n"), [(0.52, 3_863), (0.55, 617), (0.60, 153), (0.65, 67)])
def test_pairs_by_the_normal_approximation_are_the_known_ones(rate, n):
    assert decisive_pairs(rate) == pytest.approx(n, abs=1)


def test_two_sides_need_more():
    assert decisive_pairs(0.55, is_two_sided=True) == pytest.approx(783, abs=1)


def test_the_exact_number_is_the_known_one():
    found = exact_decisive_pairs(0.6)
    assert (found.n, found.critical_wins) == (158, 90)


@pytest.mark.parametrize("rate", [0.55, 0.6, 0.75, 1.0])
def test_the_exact_test_keeps_its_error_and_has_its_power(rate):
    found = exact_decisive_pairs(rate)
    assert binom.sf(found.critical_wins - 1, found.n, 0.5) <= 0.05
    assert binom.sf(found.critical_wins - 1, found.n, rate) == pytest.approx(found.power)
    assert found.power >= 0.8


@pytest.mark.parametrize(
    ("true", "chance", "n"), [(0.7, 0.5, 316), (0.7, 0.82, 975), (0.65, 0.5, 1_429)]
)
def test_items_for_a_floor_on_kappa_are_the_known_ones(true, chance, n):
    assert kappa_items(true, 0.6, chance=chance) == pytest.approx(n, rel=0.01)
    assert chance_agreement(0.1) == pytest.approx(0.82)


def test_that_many_items_clear_the_floor_about_as_often_as_planned():
    n, rng = kappa_items(0.7, 0.6), np.random.default_rng(0)
    passed = []
    for _ in range(400):
        gold = rng.integers(0, 2, n)
        judge = np.where(rng.random(n) < 0.85, gold, 1 - gold)
        value = kappa(judge, gold, (0, 1)).value
        spread = np.sqrt((1 + value) / 2 * (1 - value) / 2) / 0.5
        passed.append(value - 1.644854 * spread / np.sqrt(n) > 0.6)
    assert 0.74 <= np.mean(passed) <= 0.88


def test_swaps_and_clusters_cost_pairs_and_calls():
    plain = plan_pairs(0.6)
    assert (plain.pairs, plain.calls) == (158, 316)
    dear = plan_pairs(0.6, survival=0.5, cluster_size=5, icc=0.25)
    assert (dear.design_effect, dear.pairs, dear.calls) == (2, 632, 1_264)
    assert plan_items(0.7, 0.6, cluster_size=3, icc=0.5).items == 2 * plan_items(0.7, 0.6).items
    assert design_effect(1, 1) == 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: decisive_pairs(0.5), "win_rate"),
        (lambda: decisive_pairs(0.6, alpha=0), "alpha"),
        (lambda: decisive_pairs(0.6, power=1), "power"),
        (lambda: plan_pairs(0.6, survival=0), "survival"),
        (lambda: plan_pairs(0.6, cluster_size=0.5), "cluster_size"),
        (lambda: plan_pairs(0.6, icc=2), "icc"),
        (lambda: kappa_items(0.5, 0.6), "kappa"),
        (lambda: kappa_items(0.7, 0.6, chance=1), "chance"),
        (lambda: chance_agreement(2), "minority"),
    ],
)
def test_what_cannot_be_planned_is_an_error(call, name):
    with pytest.raises(RangeError, match=name):
        call()
