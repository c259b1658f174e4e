"""Selection: what is drawn, what is imposed, and what each leaves on the record."""

import numpy as np
import pytest

from canopy.domain.decision import Arm, Mode, Reason
from canopy.domain.errors import (
    ArtifactError,
    CatalogError,
    FeatureError,
    NonFiniteScoreError,
    RangeError,
    ShapeMismatchError,
)
from policy.catalog import parse_catalog
from policy.kernel import SHADOW_SUFFIX, kernel_fingerprint
from policy.masks import mask_context, mask_contexts
from policy.selector import (
    Choice,
    distribution,
    doctrine_probabilities,
    draw,
    probabilities,
    select,
    select_many,
    uniform,
)
from policy.weights import parameter_shapes


@pytest.fixture
def artifact(make_artifact):
    return make_artifact()


@pytest.fixture
def overflowing(make_artifact, catalog, schema):
    """A policy that is finite on its probe and overflows on a budget of 1e9."""
    sizes = [len(factor.levels) for factor in catalog.factors]
    shapes = parameter_shapes(sizes, schema.width, pairs=False)
    weights = {name: np.zeros(shape) for name, shape in shapes.items()}
    weights["factor.0"][:, 0] = 1e300
    return make_artifact(weights=weights, seed=9)


OVERFLOW = {"budget": 1e9}


def same(a, b):
    """True if two decisions agree to the bit."""

    def bits(vector):
        return None if vector is None else vector.tobytes()

    rest = ("plan", "action", "propensity", "served", "mode", "arm", "arm_share", "reasons")
    more = ("versions", "u", "floor", "shadow_plan")
    return all(getattr(a, name) == getattr(b, name) for name in (*rest, *more)) and all(
        bits(getattr(a, name)) == bits(getattr(b, name))
        for name in ("distribution", "mask", "shadow")
    )


def test_a_decision_is_the_mask_the_scores_the_floor_and_the_draw(artifact, contexts):
    catalog = artifact.catalog
    for context in contexts:
        decision = select(catalog=catalog, artifact=artifact, context=context, key="r-1")
        mask = mask_context(catalog, context).feasible
        scores = artifact.head.scores(artifact.schema.encode(context)[None])[0] / 0.8
        expected = distribution(scores, mask, 0.1)
        assert np.asarray(decision.distribution) == pytest.approx(expected, rel=1e-13, abs=0)
        assert decision.u == uniform("r-1")
        assert decision.action == draw(decision.distribution, decision.u)
        assert decision.plan == catalog.plan_ids[decision.action]
        assert decision.propensity == decision.distribution[decision.action] > 0
        assert decision.mask.tobytes() == mask.tobytes()
        assert (decision.served, decision.reasons) == (True, (Reason.DRAWN,))
        assert (decision.floor, decision.mode) == (0.1, Mode.ON)
        assert decision.versions.policy == artifact.policy_id
        assert decision.versions.catalog == catalog.content_hash
        assert decision.versions.features == artifact.schema.content_hash
        assert decision.versions.kernel == kernel_fingerprint()
        assert decision.shadow is decision.shadow_plan is decision.arm is decision.arm_share is None


def test_the_same_key_draws_the_same_plan_again(artifact):
    asked = {
        "catalog": artifact.catalog,
        "artifact": artifact,
        "context": {"budget": 9},
        "floor": 0.9,
    }
    first = [select(**asked, key=f"k{i}") for i in range(30)]
    again = [select(**asked, key=f"k{i}") for i in range(30)]
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert len({decision.plan for decision in first}) > 3


def test_plans_are_drawn_as_often_as_their_propensity_says(artifact):
    n = 6000
    context = {"budget": 9}
    decisions = select_many([
        Choice(artifact.catalog, context, f"k{i}", artifact) for i in range(n)
    ])
    row = np.asarray(decisions[0].distribution)
    counts = np.bincount([decision.action for decision in decisions], minlength=len(row))
    possible = row > 0
    statistic = ((counts - n * row) ** 2)[possible] / (n * row[possible])
    # chi-square with 9 degrees of freedom: 27.9 is its .999 quantile.
    assert statistic.sum() < 27.9
    assert not counts[~possible].any()


def test_a_masked_plan_is_never_selected(artifact):
    choices = [Choice(artifact.catalog, {}, f"k{i}", artifact, floor=0.9) for i in range(2000)]
    decisions = select_many(choices)
    assert all(decision.mask[decision.action] for decision in decisions)
    assert {d.plan for d in decisions} == {
        plan for plan in artifact.catalog.plan_ids if "length=short" in plan
    }


def test_weights_of_one_floor_share_bound_every_propensity(artifact, contexts):
    for context in contexts:
        d = select(catalog=artifact.catalog, artifact=artifact, context=context, key="k")
        assert np.asarray(d.distribution)[d.mask].min() >= 0.1 / d.mask.sum() * (1 - 1e-12)


def test_without_a_policy_the_doctrine_serves(catalog):
    decision = select(catalog=catalog, artifact=None, context={"budget": 9}, key="k")
    assert decision.reasons == (Reason.DOCTRINE,)
    assert decision.served
    assert np.asarray(decision.distribution) == pytest.approx(catalog.weights, abs=1e-15)
    assert decision.propensity == decision.distribution[decision.action]
    assert decision.versions.policy is decision.versions.features is None
    assert decision.floor == 0.0
    narrow = select(catalog=catalog, artifact=None, context={"channel": "chat"}, key="k")
    assert np.asarray(narrow.distribution).tolist() == [0.5, 0.5] + [0.0] * 8


def test_a_doctrine_without_weights_is_certain_of_the_default():
    text = "discipline: d\nversion: 1\nfactors: {a: {levels: [x, y, z]}}\ndefault: a=y\n"
    plans = parse_catalog(text)
    decision = select(catalog=plans, artifact=None, context={}, key="k")
    assert (decision.plan, decision.propensity) == ("a=y", 1.0)
    assert decision.reasons == (Reason.DOCTRINE,)
    explored = select(catalog=plans, artifact=None, context={}, key="k", floor=0.3)
    assert np.asarray(explored.distribution) == pytest.approx([0.1, 0.8, 0.1])


def test_a_doctrine_whose_default_is_not_allowed_keeps_to_what_is(catalog):
    decision = select(
        catalog=catalog, artifact=None, context={}, key="k",
        allowed=["tone=plain,length=short,on=no"],
    )  # fmt: skip
    assert (decision.plan, decision.propensity) == ("tone=plain,length=short,on=no", 1.0)


DEFAULT, OTHER = "tone=warm,length=short,on=yes", "tone=plain,length=short,on=no"
IMPOSED = {
    "killed": ({"killed": True}, Reason.KILLED, DEFAULT),
    "overridden": ({"override": OTHER}, Reason.OVERRIDDEN, OTHER),
    "pinned": ({"pinned": OTHER}, Reason.PINNED, OTHER),
    "unavailable": ({"unavailable": True}, Reason.POLICY_UNAVAILABLE, DEFAULT),
    "nothing feasible": ({"allowed": []}, Reason.NO_FEASIBLE_PLAN, DEFAULT),
    "override of a masked plan": (
        {"override": "tone=warm,length=long,on=no"},
        Reason.OVERRIDDEN,
        "tone=warm,length=long,on=no",
    ),
    "killed and overridden": ({"killed": True, "override": OTHER}, Reason.KILLED, DEFAULT),
    "overridden and pinned": (
        {"override": OTHER, "pinned": DEFAULT},
        Reason.OVERRIDDEN,
        OTHER,
    ),
    "overridden while unavailable": (
        {"override": OTHER, "unavailable": True},
        Reason.OVERRIDDEN,
        OTHER,
    ),
}


@pytest.mark.parametrize("name", IMPOSED)
@pytest.mark.parametrize("has_policy", [True, False])
def test_a_plan_that_was_not_drawn_has_no_propensity(artifact, name, has_policy):
    arguments, reason, plan = IMPOSED[name]
    decision = select(
        catalog=artifact.catalog,
        artifact=artifact if has_policy else None,
        context={},
        key="k",
        **arguments,
    )
    assert (decision.reasons, decision.plan) == ((reason,), plan)
    assert decision.action == artifact.catalog.index(plan)
    assert decision.propensity is decision.distribution is None
    assert decision.served is False
    assert decision.versions.policy is decision.versions.features is None
    assert decision.u == uniform("k")


def test_scores_that_are_not_finite_serve_the_default(overflowing):
    arguments = {"catalog": overflowing.catalog, "artifact": overflowing, "key": "k"}
    decision = select(**arguments, context=OVERFLOW)
    assert decision.reasons == (Reason.NON_FINITE_SCORES,)
    assert decision.plan == DEFAULT
    assert decision.propensity is decision.distribution is None
    assert not decision.served
    assert select(**arguments, context={"budget": 4}).reasons == (Reason.DRAWN,)


def test_one_policy_failure_does_not_fail_its_neighbours(overflowing):
    plans = overflowing.catalog
    choices = [
        Choice(plans, OVERFLOW if i % 3 == 0 else {"budget": i}, f"k{i}", overflowing)
        for i in range(9)
    ]
    decisions = select_many(choices)
    assert [d.reasons[0] is Reason.NON_FINITE_SCORES for d in decisions] == [
        i % 3 == 0 for i in range(9)
    ]


def test_in_observation_the_candidate_is_logged_and_never_served(artifact, make_artifact):
    candidate = make_artifact(seed=5, floor=0.25)
    asked = {"catalog": artifact.catalog, "context": {"budget": 9}, "key": "k"}
    plain = select(**asked, artifact=artifact, mode=Mode.OBSERVATION)
    watched = select(**asked, artifact=artifact, candidate=candidate, mode=Mode.OBSERVATION)
    assert (watched.plan, watched.propensity, watched.u) == (plain.plan, plain.propensity, plain.u)
    assert watched.distribution.tobytes() == plain.distribution.tobytes()
    own = select(
        catalog=candidate.catalog, artifact=candidate, context={"budget": 9},
        key="k" + SHADOW_SUFFIX,
    )  # fmt: skip
    assert watched.shadow.tobytes() == own.distribution.tobytes()
    assert watched.shadow_plan == own.plan
    assert watched.versions.policy == artifact.policy_id


def test_the_two_draws_of_one_request_are_independent(artifact):
    asked = {"catalog": artifact.catalog, "artifact": artifact, "candidate": artifact}
    decisions = [select(**asked, context={"budget": 9}, key=f"k{i}") for i in range(200)]
    agreeing = sum(d.plan == d.shadow_plan for d in decisions)
    chance = float((np.asarray(decisions[0].distribution) ** 2).sum())
    assert abs(agreeing / 200 - chance) < 4 * np.sqrt(chance * (1 - chance) / 200)


def test_a_candidate_is_watched_while_something_else_is_imposed(artifact):
    asked = {"catalog": artifact.catalog, "artifact": None, "context": {}, "key": "k"}
    decision = select(**asked, candidate=artifact, killed=True, mode=Mode.OBSERVATION)
    assert decision.shadow_plan is not None
    assert decision.propensity is None
    nothing = select(**asked, candidate=artifact, allowed=[])
    assert nothing.shadow is nothing.shadow_plan is None


def test_a_candidate_that_fails_leaves_no_shadow(artifact, overflowing):
    decision = select(
        catalog=artifact.catalog, artifact=artifact, candidate=overflowing,
        context=OVERFLOW, key="k",
    )  # fmt: skip
    assert decision.shadow is decision.shadow_plan is None
    assert decision.reasons == (Reason.DRAWN, Reason.SHADOW_FAILED)


def test_arm_and_mode_are_recorded(artifact):
    decision = select(
        catalog=artifact.catalog, artifact=artifact, context={}, key="k",
        mode=Mode.CANARY, arm=Arm.TREATMENT, arm_share=0.1,
    )  # fmt: skip
    assert (decision.mode, decision.arm, decision.arm_share) == (Mode.CANARY, Arm.TREATMENT, 0.1)


def test_what_is_recorded_cannot_be_changed(artifact):
    asked = {"catalog": artifact.catalog, "artifact": artifact, "candidate": artifact}
    for decision in (
        select(**asked, context={}, key="k"),
        *select_many([Choice(**asked, context={}, key=f"k{i}") for i in range(3)]),
    ):
        for vector in (decision.distribution, decision.shadow, decision.mask):
            with pytest.raises(ValueError, match="read-only"):
                vector[0] = 0


def test_a_batch_has_the_bits_of_single_selections(artifact, make_artifact, overflowing, contexts):
    # entity-neural-network issue 186, ReAgent 555: neighbours must not show in a decision.
    candidate = make_artifact(seed=5)
    variants = [
        {"artifact": artifact},
        {"artifact": artifact, "floor": 0.4},
        {"artifact": None},
        {"artifact": artifact, "candidate": candidate, "mode": Mode.OBSERVATION},
        {"artifact": candidate, "candidate": artifact, "killed": True},
        {"artifact": overflowing},
        {"artifact": artifact, "allowed": []},
        {"artifact": artifact, "allowed": [DEFAULT, OTHER]},
        {"artifact": artifact, "override": OTHER},
    ]
    choices = [
        {"catalog": artifact.catalog, "context": {**OVERFLOW, **context}, "key": f"{i}-{j}", **more}
        for i, context in enumerate(contexts)
        for j, more in enumerate(variants)
    ]
    many = select_many([Choice(**arguments) for arguments in choices])
    assert all(same(d, select(**a)) for d, a in zip(many, choices, strict=True))
    assert select_many([]) == []


def test_a_policy_of_another_catalog_is_refused(artifact, catalog_text):
    other = parse_catalog(catalog_text.replace("version: 3", "version: 4"))
    with pytest.raises(ArtifactError, match="was made for catalog"):
        select(catalog=other, artifact=artifact, context={}, key="k")
    with pytest.raises(ArtifactError, match="was made for catalog"):
        select_many([Choice(other, {}, "k", artifact)])


def test_an_equal_catalog_read_again_is_the_same(artifact, catalog_text):
    again = parse_catalog(catalog_text, "elsewhere")
    assert select(catalog=again, artifact=artifact, context={}, key="k").served


WRONG = [
    ({"override": "x"}, CatalogError, "no plan 'x'"),
    ({"pinned": "x"}, CatalogError, "no plan 'x'"),
    ({"allowed": ["x"]}, CatalogError, "no plan 'x'"),
    ({"floor": 1.5}, RangeError, "share from 0 to 1"),
    ({"context": {"budget": "3"}}, FeatureError, "`budget`"),
    ({"context": {"topics": "news"}}, FeatureError, "`topics`"),
]


@pytest.mark.parametrize(("arguments", "error", "words"), WRONG)
def test_wrong_input_is_refused(artifact, arguments, error, words):
    asked = {"catalog": artifact.catalog, "artifact": artifact, "context": {}, "key": "k"}
    with pytest.raises(error, match=words):
        select(**{**asked, **arguments})


def test_probabilities_are_what_selections_record(artifact, contexts):
    keys = sorted({key for context in contexts for key in context})
    columns = {key: [context.get(key) for context in contexts] for key in keys}
    recorded = np.array([
        select(catalog=artifact.catalog, artifact=artifact, context=c, key="k").distribution
        for c in contexts
    ])
    assert probabilities(artifact, columns).tobytes() == recorded.tobytes()
    assert probabilities(artifact, contexts).tobytes() == recorded.tobytes()
    mask = mask_contexts(artifact.catalog, columns)
    assert probabilities(artifact, columns, mask).tobytes() == recorded.tobytes()
    assert probabilities(artifact, contexts, mask).tobytes() == recorded.tobytes()


def test_a_logged_mask_stands_for_the_rules(artifact):
    mask = np.zeros((2, artifact.catalog.n_plans), dtype=bool)
    mask[:, [3, 5]] = True
    rows = probabilities(artifact, {}, mask)
    assert ((rows > 0) == mask).all()
    assert rows.sum(axis=1) == pytest.approx([1.0, 1.0])


def test_probabilities_take_another_floor_and_no_columns(artifact):
    rows = probabilities(artifact, {}, n_rows=2, floor=1.0)
    short = np.array(["length=short" in plan for plan in artifact.catalog.plan_ids])
    assert rows == pytest.approx(np.tile(short / short.sum(), (2, 1)))
    assert probabilities(artifact, []).shape == (0, artifact.catalog.n_plans)


def test_many_blocks_of_rows_have_the_bits_of_one(artifact, monkeypatch):
    columns = {"budget": np.linspace(0, 9, 50)}
    whole = probabilities(artifact, columns)
    monkeypatch.setattr("policy.scoring.BLOCK_CELLS", 33)
    assert probabilities(artifact, columns).tobytes() == whole.tobytes()


def test_probabilities_refuse_what_they_cannot_give(artifact, overflowing):
    plans = artifact.catalog.n_plans
    with pytest.raises(NonFiniteScoreError):
        probabilities(overflowing, {"budget": [1e9]})
    with pytest.raises(RangeError, match="row 1"):
        probabilities(artifact, {}, np.zeros((1, plans), dtype=bool))
    with pytest.raises(ShapeMismatchError):
        probabilities(artifact, {"budget": [1, 2]}, np.ones((3, plans), dtype=bool))
    with pytest.raises(ShapeMismatchError):
        probabilities(artifact, {"budget": [1]}, np.ones((1, plans - 1), dtype=bool))


def test_the_doctrine_has_probabilities_for_many_masks(catalog):
    mask = mask_contexts(catalog, {"budget": [1, 9]})
    rows = doctrine_probabilities(catalog, mask)
    for row, budget in zip(rows, (1, 9), strict=True):
        decision = select(catalog=catalog, artifact=None, context={"budget": budget}, key="k")
        assert row.tobytes() == decision.distribution.tobytes()
