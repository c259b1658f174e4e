"""Losses and weights against a second route in numpy, and the published numbers."""

import math

import numpy as np
import pytest
import torch

from canopy.domain.errors import RangeError
from canopy.logs.weights import effective_sample_size
from training.awr.losses import Scale, advantage_weights, awr_loss, standardise
from training.bc.losses import bc_loss

RNG = np.random.default_rng(4)
GOLDEN = np.array([-2.0, -0.1, 0.0, 0.3, 5.0])


def drawn(n=50, k=7):
    scores = RNG.normal(size=(n, k))
    feasible = RNG.random((n, k)) < 0.6
    action = RNG.integers(k, size=n)
    feasible[np.arange(n), action] = True
    return scores, feasible, action, RNG.random(n) + 0.1


def tensors(scores, feasible, action, weight):
    return (
        torch.tensor(scores, requires_grad=True),
        torch.tensor(feasible),
        torch.tensor(action),
        torch.tensor(weight),
    )


def by_hand(scores, feasible, action, weight):
    """Row by row, over the feasible plans alone."""
    total = 0.0
    for row, taken in enumerate(action):
        among = [math.exp(s) for s, f in zip(scores[row], feasible[row], strict=True) if f]
        total -= weight[row] * math.log(math.exp(scores[row, taken]) / sum(among))
    return total / len(action)


@pytest.mark.parametrize("loss", [bc_loss, awr_loss])
def test_the_loss_is_the_weighted_cross_entropy_over_feasible_plans(loss):
    arrays = drawn()
    assert loss(*tensors(*arrays)).loss.item() == pytest.approx(by_hand(*arrays), rel=1e-12)


def test_weights_of_one_make_awr_and_bc_the_same():
    scores, feasible, action, _ = drawn()
    ones = np.ones(len(action))
    bc = bc_loss(*tensors(scores, feasible, action, ones)).loss
    awr = awr_loss(*tensors(scores, feasible, action, ones)).loss
    assert bc.item() == awr.item()


def test_a_row_with_one_feasible_plan_carries_no_gradient():
    scores, _, action, weight = drawn(n=3)
    feasible = np.zeros_like(scores, dtype=bool)
    feasible[np.arange(3), action] = True
    parts = tensors(scores, feasible, action, weight)
    loss = awr_loss(*parts).loss
    loss.backward()
    assert loss.item() == 0
    assert not parts[0].grad.any()


def test_the_gradient_is_the_textbook_one():
    arrays = drawn()
    scores, feasible, action, weight = arrays
    parts = tensors(*arrays)
    awr_loss(*parts).loss.backward()
    p = np.where(feasible, np.exp(scores), 0)
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(action)), action] -= 1
    np.testing.assert_allclose(parts[0].grad, weight[:, None] * p / len(action), atol=1e-14)


@pytest.mark.parametrize(
    ("beta", "expected"),
    [
        (1.0, [0.1353353, 0.9048374, 1.0, 1.3498588, 20.0]),
        (0.05, [0.0, 0.1353353, 1.0, 20.0, 20.0]),
    ],
)
def test_golden_weights(beta, expected):
    np.testing.assert_allclose(advantage_weights(GOLDEN, beta, 20.0), expected, atol=5e-7)


def test_a_huge_advantage_is_capped_without_overflow():
    assert advantage_weights(np.array([1e308]), 1e-3, 20.0)[0] == pytest.approx(20.0)


def test_advantages_all_alike_weigh_one():
    advantage = np.full(5, 0.3)
    standard = standardise(advantage, Scale(0.3, 0.0))
    assert advantage_weights(standard, 0.05, 20.0).tolist() == [1.0] * 5


def test_standardising_divides_by_the_deviation_and_a_small_step():
    advantage = np.array([1.0, 2.0, 4.0])
    expected = (advantage - 7 / 3) / (advantage.std() + 1e-5)
    np.testing.assert_allclose(
        standardise(advantage, Scale(float(advantage.mean()), float(advantage.std()))),
        expected,
        rtol=1e-12,
    )


@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf, math.nan])
def test_a_beta_that_is_no_temperature_is_refused(beta):
    with pytest.raises(RangeError, match="beta: expected a positive finite number"):
        advantage_weights(GOLDEN, beta, 20.0)


def test_effective_sample_size():
    assert effective_sample_size(np.ones(7)) == 7
    assert effective_sample_size(np.array([3.0, 0.0, 0.0])) == 1
    assert effective_sample_size(np.zeros(3)) == 0
