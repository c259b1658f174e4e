"""Lower bounds of agreement and the floor they are held to."""

import numpy as np
import pytest

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.agreement import (
    AgreementReason,
    clearance,
    coefficient_named,
    krippendorff_alpha,
    lower_bound,
)

SCALE = (1, 2, 3, 4, 5)


def rated(rng, n, noise=0.3, size=1):
    """Gold and judge, in clusters that share their gold label's error."""
    gold = rng.integers(1, 6, n)
    off = np.repeat(rng.random(n // size) < noise, size) * rng.integers(-1, 2, n)
    return [gold, np.clip(gold + off, 1, 5)], np.repeat(np.arange(n // size), size)


@pytest.mark.parametrize("name", ["kappa", "kappa-quadratic", "ac1", "ac2", "alpha-ordinal"])
def test_replicates_from_sums_are_those_of_calling_the_coefficient_on_each(name):
    """A second route: the same bound from a call per replicate, to Monte Carlo error."""
    ratings, _ = rated(np.random.default_rng(0), 150)
    coefficient = coefficient_named(name, SCALE)
    quick = lower_bound(coefficient, ratings, n_resamples=3_000, rng=np.random.default_rng(1))
    slow = lower_bound(coefficient.__call__, ratings, n_resamples=600, rng=np.random.default_rng(2))
    assert quick.value == pytest.approx(slow.value, abs=0.02)
    assert quick.method == slow.method == "percentile"


def test_under_100_clusters_the_bound_is_corrected():
    ratings, _ = rated(np.random.default_rng(0), 60)
    found = lower_bound(coefficient_named("kappa", SCALE), ratings, rng=np.random.default_rng(1))
    assert (found.method, found.n_clusters) == ("bca", 60)
    assert found.value < coefficient_named("kappa", SCALE)(ratings).value


def test_clusters_make_a_bound_lower_than_rows_would():
    ratings, clusters = rated(np.random.default_rng(0), 800, size=20)
    coefficient = coefficient_named("kappa", SCALE)
    rng = np.random.default_rng
    by_row = lower_bound(coefficient, ratings, rng=rng(1))
    by_cluster = lower_bound(coefficient, ratings, clusters, rng=rng(1))
    assert by_cluster.n_clusters == 40
    assert by_cluster.value < by_row.value - 0.01


@pytest.mark.parametrize(("n", "name"), [(80, "kappa"), (200, "kappa-quadratic")])
def test_the_bound_holds_about_as_often_as_it_says(n, name):
    """1,000 draws of a known world, whose coefficient a million draws give."""
    coefficient = coefficient_named(name, SCALE)
    truth = coefficient(rated(np.random.default_rng(99), 200_000)[0]).value
    rng = np.random.default_rng(0)
    holds = [
        lower_bound(coefficient, rated(rng, n)[0], n_resamples=200, rng=rng).value <= truth
        for _ in range(1_000)
    ]
    assert 0.925 <= np.mean(holds) <= 0.98


def test_three_units_without_a_disagreement_do_not_prove_certainty():
    coefficient = coefficient_named("kappa", SCALE)
    found = lower_bound(coefficient, [[1, 2, 3], [1, 2, 3]], rng=np.random.default_rng(0))
    assert (found.method, found.n_resamples) == ("exact", 0)
    assert found.value < 0.1
    many = [list(SCALE) * 200] * 2
    assert lower_bound(coefficient, many, rng=np.random.default_rng(0)).value > 0.99


def test_a_replicate_without_a_coefficient_counts_against_the_bound():
    """One unit carries all the variation: without it a replicate has a single label."""
    ratings = [[1] * 150, [1] * 149 + [2]]
    found = lower_bound(
        coefficient_named("alpha-nominal", SCALE), ratings, rng=np.random.default_rng(0)
    )
    assert found.share_undefined == pytest.approx(np.exp(-1), abs=0.05)
    assert (found.value, found.reason) == (None, AgreementReason.BOUND_UNDEFINED)


def test_a_coefficient_of_a_function_is_resampled_too():
    ratings, _ = rated(np.random.default_rng(0), 60)
    found = lower_bound(
        lambda labels: krippendorff_alpha(labels, SCALE, "interval"), ratings, n_resamples=50,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.value < krippendorff_alpha(ratings, SCALE, "interval").value


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([[1] * 4, [1] * 4], AgreementReason.SINGLE_CATEGORY),
        ([[], []], AgreementReason.TOO_FEW),
        ([[1, None], [None, 1]], AgreementReason.NO_OVERLAP),
    ],
)
def test_an_undefined_coefficient_has_no_bound(ratings, reason):
    found = lower_bound(coefficient_named("kappa", SCALE), ratings, rng=np.random.default_rng(0))
    assert (found.value, found.reason) == (None, reason)


def test_one_cluster_has_no_bound():
    found = lower_bound(
        coefficient_named("kappa", SCALE), [[1, 2, 1], [1, 2, 2]], ["a"] * 3,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert (found.value, found.reason, found.n_clusters) == (None, AgreementReason.TOO_FEW, 1)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"level": 1}, RangeError, "level"),
        ({"n_resamples": 0}, RangeError, "n_resamples"),
        ({"cluster": ["a", None, "b"]}, RangeError, "cluster, row 2"),
        ({"cluster": ["a"]}, ShapeMismatchError, "units"),
    ],
)
def test_arguments_that_mean_nothing_are_errors(more, error, message):
    with pytest.raises(error, match=message):
        lower_bound(
            coefficient_named("kappa", SCALE), [[1, 2, 1], [1, 2, 2]],
            rng=np.random.default_rng(0), **more,
        )  # fmt: skip


def cleared(ratings, **more):
    options = {"floor": 0.6, "rng": np.random.default_rng(0)} | more
    return clearance(coefficient_named("kappa", SCALE), ratings, **options)


def test_a_floor_is_held_to_the_bound_and_not_to_the_value():
    ratings, _ = rated(np.random.default_rng(0), 60, noise=0.5)
    found = cleared(ratings, floor=0.6)
    assert found.agreement.value > 0.6 > found.bound.value
    assert (found.is_cleared, found.reason) == (False, AgreementReason.BELOW_FLOOR)
    assert cleared(ratings, floor=0.3).is_cleared


def test_no_rater_who_gives_one_label_clears_anything():
    found = clearance(
        coefficient_named("ac1", (0, 1)), [[1] * 200, [1] * 180 + [0] * 20], floor=0.5,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.bound.value > 0.5
    assert (found.is_cleared, found.reason) == (False, AgreementReason.CONSTANT_RATER)


def test_few_clusters_and_rare_labels_clear_nothing():
    ratings, _ = rated(np.random.default_rng(0), 200, noise=0.05)
    assert cleared(ratings).is_cleared
    grouped = cleared(ratings, cluster=np.repeat(np.arange(5), 40))
    assert (grouped.is_cleared, grouped.reason) == (False, AgreementReason.TOO_FEW)
    rare = cleared([[1, 2] * 100, [1, 2] * 100], min_per_label=1)
    assert (rare.is_cleared, rare.reason, rare.fewest) == (False, AgreementReason.RARE_LABEL, 0)


def test_what_is_undefined_clears_nothing():
    found = cleared([[1] * 50, [1] * 50])
    assert (found.is_cleared, found.reason) == (False, AgreementReason.SINGLE_CATEGORY)
    with pytest.raises(RangeError, match="floor"):
        cleared([[1, 2], [1, 2]], floor=2)
