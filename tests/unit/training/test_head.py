"""The head in torch is the head of serving."""

import numpy as np
import pytest
import torch

from canopy.logs.catalog_text import listed_catalog
from policy.catalog import parse_catalog
from policy.heads import FactoredHead, parameter_shapes
from training.config import HeadConfig, Pairs
from training.head import DENSE_CELLS, Penalty, TorchFactoredHead, as_features, head_shape

PRODUCT = """
discipline: d
version: "1"
factors: {a: {levels: [p, q]}, b: {levels: [x, y, z]}, c: {levels: [u, v]}}
forbid: [{a: p, b: z}]
default: a=q,b=x,c=u
"""


def listed():
    rows = {f"i{i}": {"item": str(i), "kind": str(i % 3)} for i in range(9)}
    return listed_catalog("items", rows, default="i0")


@pytest.fixture(params=["product", "listed", "no pairs", "gathered"])
def head(request):
    catalog = parse_catalog(listed() if request.param == "listed" else PRODUCT)
    pairs = Pairs.none if request.param == "no pairs" else Pairs.all
    cells = 0 if request.param == "gathered" else DENSE_CELLS
    made = TorchFactoredHead(head_shape(catalog, 5, HeadConfig(pairs=pairs)), dense_cells=cells)
    with torch.no_grad():
        made.table.copy_(torch.randn(made.table.shape, generator=torch.Generator().manual_seed(1)))
    return made


def test_scores_equal_those_of_serving(head):
    features = np.random.default_rng(0).normal(size=(40, 5))
    served = FactoredHead(head.shape.levels, head.named_weights()).scores(features)
    with torch.no_grad():
        np.testing.assert_allclose(head(as_features(features)), served, rtol=1e-5, atol=1e-5)
        exact = head.to(torch.float64)(torch.from_numpy(features))
    np.testing.assert_allclose(exact, served, rtol=1e-5, atol=1e-12)


def test_parameters_have_the_names_and_shapes_of_serving(head):
    shapes = parameter_shapes(head.shape.sizes, 5, list(head.shape.pairs))
    assert {name: w.shape for name, w in head.named_weights().items()} == shapes


def test_the_score_of_the_plan_taken_is_its_score(head):
    features = as_features(np.random.default_rng(0).normal(size=(40, 5)))
    action = torch.arange(40) % len(head.shape.levels)
    with torch.no_grad():
        everything = head(features).gather(1, action[:, None])[:, 0]
        np.testing.assert_allclose(head.taken(features, action), everything, rtol=1e-4, atol=1e-5)


def test_the_penalty_spares_the_biases_of_pairs(head):
    weights = head.named_weights()
    squares = {name: w**2 for name, w in weights.items()}
    pairs = [w for name, w in squares.items() if name.startswith("pair")]
    context = sum(w[..., :-1].sum() for w in pairs)
    rest = sum(w.sum() for w in squares.values()) - context
    assert head.penalty(Penalty(0.1, 3.0)).item() == pytest.approx(
        0.1 * rest + 3.0 * context, rel=1e-5
    )


def test_pairs_are_left_out_where_they_would_need_too_much():
    catalog = parse_catalog(PRODUCT)
    assert head_shape(catalog, 5, HeadConfig()).pairs == ((0, 1), (0, 2), (1, 2))
    assert head_shape(catalog, 5, HeadConfig(most_pair_parameters=95)).pairs == ()
    assert head_shape(catalog, 5, HeadConfig(pairs=Pairs.none)).pairs == ()
