"""Coefficients of agreement: published tables, second routes, and what is undefined."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from canopy.domain.errors import InputError, NotFoundError, RangeError, ShapeMismatchError
from eval.agreement import (
    COEFFICIENTS,
    AgreementReason,
    coefficient_named,
    fleiss_kappa,
    gwet_ac,
    gwet_ac_raters,
    kappa,
    krippendorff_alpha,
)

N = None
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]
"""Krippendorff's example of four observers (Computing Krippendorff's Alpha-Reliability, 2011)."""

SCALE = (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("metric", "value"),
    [("nominal", 0.743421), ("ordinal", 0.815388), ("interval", 0.849107), ("ratio", 0.797403)],
)
def test_alpha_of_four_observers_is_the_published_one(metric, value):
    assert krippendorff_alpha(OBSERVERS, SCALE, metric).value == pytest.approx(value, abs=1e-6)


def test_ac1_and_fleiss_of_four_raters_are_the_published_ones():
    """Gwet's `irrCAC` documentation, the same ratings."""
    ac1 = gwet_ac_raters(OBSERVERS, SCALE)
    assert ac1.value == pytest.approx(0.775444, abs=1e-6)
    assert 1 - ac1.observed_disagreement == pytest.approx(0.818182, abs=1e-6)
    assert 1 - ac1.expected_disagreement == pytest.approx(0.190321, abs=1e-6)
    assert fleiss_kappa(OBSERVERS, SCALE).value == pytest.approx(0.76117, abs=1e-5)
    assert gwet_ac_raters(OBSERVERS, SCALE, "bipolar").value == pytest.approx(0.90037, abs=1e-5)
    assert gwet_ac_raters(OBSERVERS, SCALE, "quadratic").value == pytest.approx(0.914, abs=1e-3)


def pairs_by_hand(ratings, distance):
    """Alpha from every pair of ratings, one after the other."""
    units = [[r for r in unit if r is not None] for unit in zip(*ratings, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    pooled = [rating for unit in units for rating in unit]
    n = len(pooled)
    within = sum(
        sum(distance(a, b) for a, b in itertools.permutations(unit, 2)) / (len(unit) - 1)
        for unit in units
    )
    between = sum(distance(a, b) for a, b in itertools.permutations(pooled, 2)) / (n - 1)
    return 1 - within / between


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("metric", "distance"),
    [
        ("nominal", lambda a, b: a != b),
        ("interval", lambda a, b: (a - b) ** 2),
        ("ratio", lambda a, b: ((a - b) / (a + b)) ** 2),
    ],
)
def test_alpha_is_what_counting_every_pair_gives(metric, distance, seed):
    rng = np.random.default_rng(seed)
    ratings = [
        [None if rng.random() < 0.2 else int(rng.integers(1, 6)) for _ in range(15)]
        for _ in range(3)
    ]
    assert krippendorff_alpha(ratings, SCALE, metric).value == pytest.approx(
        pairs_by_hand(ratings, distance)
    )


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_scikit_learns_where_that_is_defined(weights, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(1, 6, 60)
    b = np.clip(a + rng.integers(-1, 2, 60), 1, 5)
    theirs = cohen_kappa_score(a, b, labels=list(SCALE), weights=weights)
    assert kappa(a, b, SCALE, weights).value == pytest.approx(theirs)


def test_the_scale_is_the_declared_one_and_not_the_labels_seen():
    """An unused label changes AC1, and what a step of a weighted kappa is worth."""
    a, b = [1, 1, 2, 2, 1], [1, 2, 2, 2, 1]
    assert gwet_ac(a, b, (1, 2)).value != gwet_ac(a, b, SCALE).value
    spread, close = kappa([1, 5], [5, 1], SCALE, "linear"), kappa([1, 2], [2, 1], SCALE, "linear")
    assert spread.observed_disagreement != close.observed_disagreement


def test_an_interval_label_is_its_number_and_an_ordinal_one_its_rank():
    """judging.md: strings and gaps must not change what a distance is."""
    near, far = (1, 2, 3), (1, 2, 30)
    ratings = [[1, 2, 3, 3, 1], [1, 3, 3, 2, 1]]
    stretched = [[30 if r == 3 else r for r in row] for row in ratings]
    assert krippendorff_alpha(ratings, near, "ordinal").value == pytest.approx(
        krippendorff_alpha(stretched, far, "ordinal").value
    )
    assert krippendorff_alpha(ratings, near, "interval").value != pytest.approx(
        krippendorff_alpha(stretched, far, "interval").value
    )


CONSTANT_JUDGE = ([1] * 10, [1] * 9 + [0])


def test_a_constant_judge_has_a_kappa_of_exactly_0_and_a_flag():
    judge, gold = CONSTANT_JUDGE
    for weights in (None, "linear", "quadratic"):
        found = kappa(judge, gold, (0, 1), weights)
        assert (found.value, found.reason) == (0.0, AgreementReason.CONSTANT_RATER)
    assert krippendorff_alpha([judge, gold], (0, 1), "nominal").value == pytest.approx(0, abs=1e-9)


def test_ac1_likes_a_constant_judge_so_its_flag_stands_there_too():
    found = gwet_ac(*CONSTANT_JUDGE, (0, 1))
    assert found.value == pytest.approx(0.89, abs=0.01)
    assert found.reason is AgreementReason.CONSTANT_RATER


def test_one_disagreement_in_22_is_an_alpha_near_0_and_says_too_skewed():
    """The prevalence paradox is reported, not repaired."""
    a, b = [1] * 10 + [1], [1] * 10 + [0]
    found = krippendorff_alpha([a, b], (0, 1), "nominal")
    assert found.value == pytest.approx(0, abs=1e-12)
    assert found.prevalence == pytest.approx(21 / 22)
    assert found.reason is AgreementReason.CONSTANT_RATER
    mixed = krippendorff_alpha([[1] * 20 + [0], [1] * 19 + [0, 1]], (0, 1), "nominal")
    assert mixed.reason is AgreementReason.TOO_SKEWED


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([[2] * 5, [2] * 5], AgreementReason.SINGLE_CATEGORY),
        ([[1], [2]], AgreementReason.TOO_FEW),
        ([[], []], AgreementReason.TOO_FEW),
        ([[1, N, 2, N], [N, 1, N, 2]], AgreementReason.NO_OVERLAP),
        ([[N, N], [N, N]], AgreementReason.NO_OVERLAP),
    ],
)
def test_what_is_undefined_has_no_value_and_a_reason_without_a_warning(name, ratings, reason):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = coefficient_named(name, SCALE)(ratings)
    assert (found.value, found.reason) == (None, reason)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_perfect_agreement_is_1(name):
    labels = [1, 2, 3, 4, 5, 1]
    assert coefficient_named(name, SCALE)([labels, labels]).value == pytest.approx(1)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_rating_is_left_out_and_counted(missing):
    with_gap = kappa([1, 2, 1, missing], [1, 2, 2, 2], SCALE)
    assert with_gap.value == kappa([1, 2, 1], [1, 2, 2], SCALE).value
    assert (with_gap.n, with_gap.n_left_out) == (3, 1)
    masked = np.ma.masked_array([1, 2, 1, 9], mask=[0, 0, 0, 1])
    assert kappa(masked, [1, 2, 2, 2], SCALE) == with_gap


def test_a_label_outside_the_scale_is_an_error_and_no_new_category():
    with pytest.raises(RangeError, match="b, row 2: expected a label of the scale"):
        kappa([1, 2], [1, 6], SCALE)
    with pytest.raises(RangeError, match="rater 2, row 1"):
        krippendorff_alpha([[1, 2], ["1", 2]], SCALE, "nominal")


@pytest.mark.parametrize(
    ("scale", "name", "message"),
    [
        ((1,), "kappa", "at least two labels"),
        ("12345", "kappa", "at least two labels"),
        ((1, 1, 2), "kappa", "declared twice"),
        ((1, None), "kappa", "a missing value is no label"),
        ({1, 2, 3}, "kappa-linear", "a set has no order"),
        ((1, 3, 2), "kappa-quadratic", "neither rise nor fall"),
        ((1, 3, 2), "alpha-ordinal", "neither rise nor fall"),
        (("low", "high"), "alpha-interval", "is no number"),
        ((-1, 0, 1), "alpha-ratio", "below 0"),
    ],
)
def test_a_scale_that_does_not_suit_is_an_error_with_its_remedy(scale, name, message):
    with pytest.raises(InputError, match=message):
        coefficient_named(name, scale)


def test_words_that_name_nothing_are_errors():
    with pytest.raises(NotFoundError, match="kapa"):
        coefficient_named("kapa", SCALE)
    with pytest.raises(InputError, match="metric"):
        krippendorff_alpha(OBSERVERS, SCALE, "euclid")
    with pytest.raises(InputError, match="weights"):
        kappa([1, 2], [1, 2], SCALE, "cubic")


def test_raters_describe_the_same_units():
    with pytest.raises(ShapeMismatchError, match="b"):
        kappa([1, 2], [1], SCALE)
    with pytest.raises(ShapeMismatchError, match="ratings"):
        coefficient_named("kappa", SCALE)(OBSERVERS)
    with pytest.raises(ShapeMismatchError, match="ratings"):
        coefficient_named("fleiss", SCALE)([[1, 2]])
