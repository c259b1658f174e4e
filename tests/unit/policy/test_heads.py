"""Factored heads: the formula, by brute force, in every shape of catalog."""

import itertools

import numpy as np
import pytest

from canopy.domain.errors import ArtifactError, ShapeMismatchError
from policy.factors import product_levels
from policy.heads import FactoredHead, parameter_shapes
from policy.weights import checked_weights, weights_from_bytes, weights_to_bytes


def drawn(sizes, n_features, pairs, seed=0):
    rng = np.random.default_rng(seed)
    return {n: rng.normal(size=s) for n, s in parameter_shapes(sizes, n_features, pairs).items()}


def brute_force(levels, weights, features):
    """The formula of the head, plan by plan and term by term."""
    columns = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    scores = np.zeros((len(features), len(levels)))
    for name, parameter in weights.items():
        kind, *positions = name.split(".")
        for plan, row in enumerate(levels):
            cell = tuple(row[int(p)] for p in positions)
            scores[:, plan] += columns @ parameter[cell]
            assert kind in {"factor", "pair"}
    return scores


SHAPES = [(1,), (5,), (2, 3), (3, 1, 2), (2, 3, 2, 2), (2, 2, 2, 2, 2), (4, 4, 4, 4)]
PAIRS = {"all": True, "none": False, "first": [(0, 1)]}


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("n_features", [0, 1, 7])
def test_scores_follow_the_formula_over_all_combinations(sizes, pairs, n_features):
    weights = drawn(sizes, n_features, PAIRS[pairs] if len(sizes) > 1 else False)
    levels = product_levels(sizes)
    features = np.random.default_rng(1).normal(size=(3, n_features))
    head = FactoredHead(levels, weights)
    expected = brute_force(levels, weights, features)
    assert head.scores(features) == pytest.approx(expected, abs=1e-12)
    assert head.n_plans == len(levels)


@pytest.mark.parametrize("share", [0.9, 0.02], ids=["most plans", "few plans"])
def test_scores_follow_the_formula_for_some_plans_in_any_order(share):
    sizes, rng = (5, 4, 6, 3), np.random.default_rng(2)
    levels = product_levels(sizes)
    chosen = rng.choice(len(levels), size=int(share * len(levels)), replace=True)
    weights = drawn(sizes, 5, pairs=True)
    features = rng.normal(size=(4, 5))
    found = FactoredHead(levels[chosen], weights).scores(features)
    assert found == pytest.approx(brute_force(levels[chosen], weights, features), abs=1e-12)


@pytest.mark.parametrize(
    "plans", [None, slice(0, 400), slice(5, 60, 3)], ids=["all", "most", "few"]
)
@pytest.mark.parametrize("n_features", [0, 1, 3, 16, 33])
def test_a_batch_has_the_bits_of_single_rows(plans, n_features):
    sizes = (4, 4, 8, 4)
    levels = product_levels(sizes)[plans if plans is not None else slice(None)]
    head = FactoredHead(levels, drawn(sizes, n_features, pairs=True))
    features = np.random.default_rng(3).normal(size=(64, n_features))
    batch = head.scores(features, temperature=0.7)
    for n in (1, 2, 3, 17):
        assert batch[:n].tobytes() == head.scores(features[:n], temperature=0.7).tobytes()
    for row, one in zip(batch, features, strict=True):
        assert row.tobytes() == head.scores(one[None], temperature=0.7)[0].tobytes()


def test_ten_thousand_plans_are_scored_from_few_numbers():
    sizes = (10, 10, 10, 10)
    head = FactoredHead(product_levels(sizes), drawn(sizes, 4, pairs=True))
    assert len(head._form.parameters) <= 2_200
    assert head.scores(np.zeros((1, 4))).shape == (1, 10_000)


def test_an_unseen_combination_is_scored_from_its_levels():
    sizes = (2, 2)
    weights = {name: np.zeros(shape) for name, shape in parameter_shapes(sizes, 1, False).items()}
    weights["factor.0"][1, 1] = 1.0
    weights["factor.1"][1, 1] = 2.0
    head = FactoredHead(product_levels(sizes), weights)
    assert head.scores([[5.0]]).tolist() == [[0.0, 2.0, 1.0, 3.0]]


def test_the_temperature_divides_the_scores():
    head = FactoredHead(product_levels((3,)), drawn((3,), 2, pairs=False))
    features = [[1.0, 2.0]]
    assert np.array_equal(head.scores(features, temperature=4.0), head.scores(features) / 4.0)


def test_the_weights_of_a_head_cannot_change_under_it():
    weights = drawn((2, 2), 1, pairs=True)
    head = FactoredHead(product_levels((2, 2)), weights)
    before = head.scores([[1.0]])
    weights["factor.0"][:] = 9.0
    assert np.array_equal(head.scores([[1.0]]), before)
    with pytest.raises(ValueError, match="read-only"):
        head.weights["factor.0"][0, 0] = 1.0


def test_parameters_are_named_by_position():
    shapes = parameter_shapes([2, 3, 4], 5, pairs=True)
    assert shapes == {
        "factor.0": (2, 6),
        "factor.1": (3, 6),
        "factor.2": (4, 6),
        "pair.0.1": (2, 3, 6),
        "pair.0.2": (2, 4, 6),
        "pair.1.2": (3, 4, 6),
    }
    assert list(parameter_shapes([2, 3, 4], 0, [(1, 2), (0, 2)])) == [
        "factor.0", "factor.1", "factor.2", "pair.0.2", "pair.1.2",
    ]  # fmt: skip


@pytest.mark.parametrize("pairs", [[(1, 0)], [(0, 0)], [(0, 3)], [(0, 1), (0, 1)]], ids=str)
def test_a_pair_that_is_none_is_refused(pairs):
    with pytest.raises(ArtifactError, match="Name each pair once"):
        parameter_shapes([2, 2, 2], 1, pairs)


@pytest.mark.parametrize("features", [[1.0, 2.0], [[1.0]], [[1.0, 2.0, 3.0]], 1.0], ids=str)
def test_features_of_another_width_are_refused(features):
    head = FactoredHead(product_levels((2,)), drawn((2,), 2, pairs=False))
    with pytest.raises(ShapeMismatchError, match="features has shape"):
        head.scores(features)


def bad_weights():
    good = drawn((2, 3), 2, pairs=True)
    yield "nothing", {}, "factor.0"
    yield "no factor", {"pair.0.1": good["pair.0.1"]}, "factor.0"
    yield "flat factor", {"factor.0": np.zeros(3)}, "factor.0"
    yield "empty factor", {"factor.0": np.zeros((2, 0))}, "factor.0"
    yield "gap", {"factor.0": good["factor.0"], "factor.2": good["factor.1"]}, "levels has shape"
    yield "foreign name", {**good, "bias": np.zeros(1)}, "bias"
    yield "odd pair name", {**good, "pair.0.x": good["pair.0.1"]}, "pair.0.x"
    yield "reversed pair", {**good, "pair.1.0": good["pair.0.1"]}, "Name each pair once"
    yield "nan", {**good, "pair.0.1": good["pair.0.1"] * np.nan}, "`pair.0.1`: hold NaN"
    yield "infinite", {**good, "factor.1": good["factor.1"] / 0.0}, "`factor.1`: hold NaN"
    yield "texts", {**good, "factor.1": good["factor.1"].astype(str)}, "expected real numbers"
    yield "other shape", {**good, "pair.0.1": np.zeros((3, 2, 3))}, "has shape"


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("case", range(12))
def test_weights_that_make_no_head_are_refused(case):
    with np.errstate(divide="ignore"):
        cases = list(bad_weights())
    assert len(cases) == 12
    _, weights, problem = cases[case]
    with pytest.raises((ArtifactError, ShapeMismatchError), match=problem):
        FactoredHead(product_levels((2, 3)), weights)


@pytest.mark.parametrize("levels", [[[0, 3]], [[2, 0]], [[-1, 0]]], ids=str)
def test_levels_beyond_the_weights_are_refused(levels):
    with pytest.raises(ArtifactError, match="go beyond the weights"):
        FactoredHead(np.array(levels), drawn((2, 3), 2, pairs=True))


def test_levels_of_another_number_of_factors_are_refused():
    with pytest.raises(ShapeMismatchError, match="levels has shape"):
        FactoredHead(product_levels((2,)), drawn((2, 3), 2, pairs=True))


def test_float32_weights_are_kept_as_float64():
    weights = {n: w.astype(np.float32) for n, w in drawn((2,), 1, pairs=False).items()}
    kept = checked_weights(weights, parameter_shapes((2,), 1, pairs=False))
    assert kept["factor.0"].dtype == np.float64
    assert np.array_equal(kept["factor.0"], weights["factor.0"].astype(np.float64))


def test_weights_survive_their_bytes_and_equal_weights_have_equal_bytes():
    weights = drawn((2, 3), 2, pairs=True)
    raw = weights_to_bytes(weights)
    again = weights_from_bytes(raw, "w")
    assert again.keys() == weights.keys()
    assert all(np.array_equal(again[name], weights[name]) for name in weights)
    assert weights_to_bytes(dict(reversed(weights.items()))) == raw


@pytest.mark.parametrize("raw", [b"", b"\x00" * 8, b"pickle", b"\xff" * 40], ids=repr)
def test_bytes_that_are_no_weights_are_refused(raw):
    with pytest.raises(ArtifactError, match=r"w\.safetensors: is no readable"):
        weights_from_bytes(raw, "w.safetensors")


def test_every_grouping_of_factors_covers_each_pair_once():
    # Pairs far apart, near and inside one group: the formula must hold for any subset.
    sizes, rng = (2, 3, 2, 2), np.random.default_rng(4)
    everything = [(i, j) for j in range(4) for i in range(j)]
    features, levels = rng.normal(size=(2, 3)), product_levels(sizes)
    for size in range(len(everything) + 1):
        for pairs in itertools.combinations(everything, size):
            weights = drawn(sizes, 3, list(pairs))
            found = FactoredHead(levels, weights).scores(features)
            assert found == pytest.approx(brute_force(levels, weights, features), abs=1e-12)
