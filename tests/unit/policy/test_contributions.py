"""What a plan's factors contribute to its score."""

import numpy as np
import pytest

from canopy.domain.errors import FeatureError, RangeError, ShapeMismatchError
from policy.contributions import contributions


@pytest.fixture
def artifact(make_artifact):
    return make_artifact()


@pytest.fixture
def everything(artifact):
    return np.ones(artifact.catalog.n_plans, dtype=bool)


def test_terms_are_factors_and_pairs_of_the_plan(artifact, everything):
    action = artifact.catalog.index("tone=plain,length=short,on=no")
    terms = contributions(artifact, {"budget": 4}, action, everything)
    assert [term.factors for term in terms] == [
        ("tone",), ("length",), ("on",), ("tone", "length"), ("tone", "on"), ("length", "on"),
    ]  # fmt: skip
    assert [term.levels for term in terms][::5] == [("plain",), ("short", "no")]


def test_logits_sum_to_the_score_and_gains_to_the_lead(artifact, contexts, everything):
    mask = everything.copy()
    mask[[1, 4]] = False
    for context in contexts:
        scores = artifact.head.scores(artifact.schema.encode(context)[None])[0]
        for action in range(len(mask)):
            terms = contributions(artifact, context, action, mask)
            assert sum(t.logit for t in terms) == pytest.approx(scores[action], abs=1e-9)
            lead = scores[action] - scores[mask].mean()
            assert sum(t.against_mean for t in terms) == pytest.approx(lead, abs=1e-9)


def test_the_only_feasible_plan_gains_nothing(artifact, everything):
    mask = ~everything
    mask[3] = True
    gains = [t.against_mean for t in contributions(artifact, {}, 3, mask)]
    assert gains == pytest.approx([0.0] * 6, abs=1e-12)


def test_features_say_the_same_as_their_context(artifact, contexts, everything):
    features = artifact.schema.encode(contexts[0])
    assert contributions(artifact, features, 2, everything) == contributions(
        artifact, contexts[0], 2, everything
    )


def test_what_cannot_be_explained_is_refused(artifact, everything):
    with pytest.raises(RangeError, match="action: expected 0 to 9"):
        contributions(artifact, {}, 10, everything)
    with pytest.raises(RangeError, match="at least one feasible plan"):
        contributions(artifact, {}, 0, ~everything)
    with pytest.raises(RangeError, match="booleans"):
        contributions(artifact, {}, 0, np.ones(10))
    with pytest.raises(ShapeMismatchError, match="mask"):
        contributions(artifact, {}, 0, everything[1:])
    with pytest.raises(ShapeMismatchError, match="features"):
        contributions(artifact, np.zeros(3), 0, everything)
    with pytest.raises(FeatureError, match="`budget`"):
        contributions(artifact, {"budget": "3"}, 0, everything)
