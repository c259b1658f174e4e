"""What a mask promises: a masked plan gets no probability and no gradient, ever."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from canopy.logs.weights import effective_sample_size
from training.awr.losses import advantage_weights, awr_loss
from training.likelihood import masked_log_softmax

finite = st.floats(-50, 50)


@st.composite
def batches(draw):
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 8)))
    scores = draw(arrays(float, shape, elements=finite))
    feasible = draw(arrays(bool, shape))
    action = draw(arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))
    feasible[np.arange(shape[0]), action] = True
    return scores, feasible, action


@settings(max_examples=60)
@given(batches(), st.floats(-1e6, 1e6))
def test_masked_plans_get_exactly_nothing(batch, poison):
    scores, feasible, action = batch
    leaf = torch.tensor(scores, requires_grad=True)
    mask = torch.tensor(feasible)
    probability = masked_log_softmax(leaf, mask).exp().detach().numpy()
    assert (probability[~feasible] == 0).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-12)
    loss = awr_loss(leaf, mask, torch.tensor(action), torch.ones(len(action)).double()).loss
    loss.backward()
    assert (leaf.grad.numpy()[~feasible] == 0).all()
    assert np.isfinite(leaf.grad.numpy()).all()
    other = torch.tensor(np.where(feasible, scores, poison))
    again = awr_loss(other, mask, torch.tensor(action), torch.ones(len(action)).double()).loss
    assert loss.item() == again.item()


@settings(max_examples=60)
@given(batches(), st.floats(-20, 20))
def test_a_constant_added_to_a_row_changes_nothing(batch, shift):
    scores, feasible, _ = batch
    mask = torch.tensor(feasible)
    before = masked_log_softmax(torch.tensor(scores), mask).exp()
    after = masked_log_softmax(torch.tensor(scores + shift), mask).exp()
    np.testing.assert_allclose(before, after, atol=1e-9)


@settings(max_examples=100)
@given(
    arrays(float, st.integers(1, 30), elements=st.floats(-1e3, 1e3)),
    st.floats(0.01, 10),
    st.floats(1, 100),
)
def test_weights_are_bounded_and_follow_the_advantage(advantage, beta, cap):
    weights = advantage_weights(advantage, beta, cap)
    assert ((weights >= 0) & (weights <= cap * (1 + 1e-12))).all()
    order = np.argsort(advantage, kind="stable")
    assert (np.diff(weights[order]) >= 0).all()


@settings(max_examples=100)
@given(arrays(float, st.integers(1, 30), elements=st.floats(0.01, 100)), st.floats(0.01, 100))
def test_effective_sample_size_lies_between_1_and_n_whatever_the_scale(weights, scale):
    ess = effective_sample_size(weights)
    assert 1 - 1e-9 <= ess <= len(weights) + 1e-9
    np.testing.assert_allclose(effective_sample_size(scale * weights), ess, rtol=1e-9)
