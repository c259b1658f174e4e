"""A policy's failure never fails whoever asked; a wrong question does."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from canopy.domain.decision import Arm, Mode, Reason
from canopy.domain.errors import (
    ArtifactError,
    CatalogError,
    FeatureError,
    RangeError,
    ShapeMismatchError,
)
from policy.catalog import parse_catalog
from policy.features import FeatureSchema
from policy.fields import Category, Number
from policy.selector import Choice, select, select_many

DEFAULT, OTHER = "tone=warm,length=short,on=yes", "tone=plain,length=short,on=no"


class Broken:
    """A head that raises whenever it is asked."""

    def __init__(self, error, n_plans):
        self.error, self.n_plans = error, n_plans

    def odds(self, features, *, temperature=1.0):
        raise self.error

    scores = odds


class BrokenSchema:
    """A feature schema that raises something of its own."""

    content_hash = "broken"

    def encode(self, context):
        raise KeyError("slots")


ERRORS = [
    ShapeMismatchError("features", (1,), (2,)),
    ArithmeticError("overflow"),
    ZeroDivisionError("division"),
    ArtifactError("weights", "are gone.", "Fetch them."),
    ValueError("of its own parts"),
    RuntimeError("anything else"),
]


@pytest.fixture
def artifact(make_artifact):
    return make_artifact()


@pytest.fixture
def broken(artifact):
    def make(error):
        return replace(artifact, head=Broken(error, artifact.catalog.n_plans))

    return make


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_policy_that_raises_serves_the_default(broken, error):
    policy = broken(error)
    asked = {"catalog": policy.catalog, "artifact": policy, "context": {}, "key": "k"}
    for decision in (select(**asked), select_many([Choice(**asked)])[0]):
        assert decision.reasons == (Reason.POLICY_FAILED,)
        assert decision.plan == DEFAULT
        assert decision.propensity is decision.distribution is None
        assert decision.served is False
        assert decision.versions.policy is decision.versions.features is None


def test_what_a_policy_raised_is_logged(broken, caplog):
    policy = broken(ValueError("of its own parts"))
    with caplog.at_level(logging.WARNING, logger="policy.draws"):
        select(catalog=policy.catalog, artifact=policy, context={}, key="k")
    assert policy.policy_id in caplog.text
    assert "of its own parts" in caplog.text


def test_a_machine_without_memory_is_no_failure_of_the_policy(broken):
    policy = broken(MemoryError())
    asked = {"catalog": policy.catalog, "artifact": policy, "context": {}}
    with pytest.raises(MemoryError):
        select(**asked, key="k")
    with pytest.raises(MemoryError):
        select_many([Choice(**asked, key=f"k{i}") for i in range(3)])


def test_a_schema_that_fails_by_itself_serves_the_default(artifact):
    policy = replace(artifact, schema=BrokenSchema())
    decision = select(catalog=policy.catalog, artifact=policy, context={}, key="k")
    assert decision.reasons == (Reason.POLICY_FAILED,)


def test_a_head_of_another_size_serves_the_default(artifact, make_artifact):
    plans = parse_catalog("discipline: d\nversion: 1\nfactors: {a: {levels: [x]}}\ndefault: a=x\n")
    head = make_artifact(catalog=plans).head
    policy = replace(artifact, head=head)
    choices = [Choice(policy.catalog, {"budget": 9}, f"k{i}", policy) for i in range(3)]
    for decision in select_many(choices):
        assert decision.reasons == (Reason.POLICY_FAILED,)


def test_a_failing_policy_does_not_fail_its_neighbours(artifact, broken):
    policy = broken(ValueError("of its own parts"))
    choices = [
        Choice(artifact.catalog, {}, f"k{i}", policy if i % 2 else artifact) for i in range(8)
    ]
    reasons = [decision.reasons[0] for decision in select_many(choices)]
    assert reasons == [Reason.DRAWN, Reason.POLICY_FAILED] * 4


@pytest.mark.parametrize("policy", [None, "served"])
def test_a_suspended_policy_is_left_alone(broken, policy):
    failing = broken(AssertionError("it was asked"))
    decision = select(
        catalog=failing.catalog, artifact=failing if policy else None, context={}, key="k",
        suspended=True,
    )  # fmt: skip
    assert decision.reasons == (Reason.POLICY_SUSPENDED,)
    assert decision.plan == DEFAULT
    assert decision.propensity is decision.distribution is None


STRONGEST_FIRST = [
    ({"killed": True}, Reason.KILLED),
    ({"override": OTHER}, Reason.OVERRIDDEN),
    ({"pinned": OTHER}, Reason.PINNED),
    ({"unavailable": True}, Reason.POLICY_UNAVAILABLE),
    ({"suspended": True}, Reason.POLICY_SUSPENDED),
    ({"allowed": []}, Reason.NO_FEASIBLE_PLAN),
]


@pytest.mark.parametrize("first", range(len(STRONGEST_FIRST)))
def test_what_imposes_a_plan_has_one_order(artifact, first):
    arguments = {}
    for more, _ in STRONGEST_FIRST[first:]:
        arguments |= more
    decision = select(catalog=artifact.catalog, artifact=artifact, context={}, key="k", **arguments)
    assert decision.reasons == (STRONGEST_FIRST[first][1],)


def test_a_floor_is_recorded_and_idle_where_a_plan_is_imposed(artifact):
    decision = select(
        catalog=artifact.catalog, artifact=artifact, context={}, key="k", override=OTHER, floor=0.5
    )
    assert decision.floor == 0.5
    assert decision.plan == OTHER
    assert decision.propensity is decision.distribution is None


def failing_candidates(artifact, make_artifact, broken, catalog_text):
    """Candidates that fail, each in its own way."""
    elsewhere = parse_catalog(catalog_text.replace("version: 3", "version: 4"))
    narrow = make_artifact(schema=FeatureSchema(()))
    picky = FeatureSchema((Category("note", ("x",)), Number("topics", 0.0, 1.0)))
    return {
        "another catalog": make_artifact(catalog=elsewhere),
        "its own schema": replace(artifact, schema=picky),
        "a broken schema": replace(artifact, schema=BrokenSchema()),
        "a broken head": broken(ArithmeticError("overflow")),
        "a head of another width": replace(artifact, head=narrow.head),
    }


@pytest.mark.parametrize(
    "name",
    ["another catalog", "its own schema", "a broken schema", "a broken head",
     "a head of another width"],
)  # fmt: skip
def test_a_candidate_that_fails_touches_nothing(
    artifact, make_artifact, broken, catalog_text, name
):
    candidate = failing_candidates(artifact, make_artifact, broken, catalog_text)[name]
    asked = {
        "catalog": artifact.catalog,
        "artifact": artifact,
        "context": {"budget": 9, "topics": ["news"]},
        "key": "k",
        "mode": Mode.OBSERVATION,
    }
    alone = select(**asked)
    watched = [select(**asked, candidate=candidate)]
    watched += select_many([Choice(**asked, candidate=candidate) for _ in range(2)])
    for decision in watched:
        assert decision.reasons == (Reason.DRAWN, Reason.SHADOW_FAILED)
        assert decision.shadow is decision.shadow_plan is None
        assert (decision.plan, decision.propensity) == (alone.plan, alone.propensity)
        assert decision.distribution.tobytes() == alone.distribution.tobytes()


def test_a_candidate_that_had_nothing_to_choose_from_did_not_fail(artifact, broken):
    decision = select(
        catalog=artifact.catalog, artifact=artifact, candidate=broken(ValueError("asked")),
        context={}, key="k", allowed=[],
    )  # fmt: skip
    assert decision.reasons == (Reason.NO_FEASIBLE_PLAN,)


REFUSED = {
    "an override of no plan": ({"override": "x"}, CatalogError, "no plan 'x'"),
    "an override of another type": ({"override": 3}, CatalogError, "no plan 3"),
    "a pin of no plan": ({"pinned": "x"}, CatalogError, "no plan 'x'"),
    "an allowed plan that is none": ({"allowed": [OTHER, "x"]}, CatalogError, "no plan 'x'"),
    "an allowed text": ({"allowed": OTHER}, CatalogError, "no plan 't'"),
    "a floor above 1": ({"floor": 1.5}, RangeError, "share from 0 to 1"),
    "a floor below 0": ({"floor": -0.1}, RangeError, "share from 0 to 1"),
    "a floor that is NaN": ({"floor": float("nan")}, RangeError, "share from 0 to 1"),
    "an arm's share above 1": (
        {"arm": Arm.TREATMENT, "arm_share": 1.1},
        RangeError,
        "arm_share: expected a share",
    ),
    "a value a rule refuses": ({"context": {"channel": 3}}, FeatureError, "`channel`"),
    "a number as text": ({"context": {"budget": "3"}}, FeatureError, "`budget`"),
    "an infinite number": ({"context": {"budget": np.inf}}, FeatureError, "`budget`"),
    "a set as text": ({"context": {"topics": "news"}}, FeatureError, "`topics`"),
    "a text as number": ({"context": {"note": 3}}, FeatureError, "`note`"),
    "a truth as text": ({"context": {"approved": "yes"}}, FeatureError, "`approved`"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("way", ["select", "select_many"])
def test_a_bad_argument_is_refused_by_name(artifact, name, way):
    arguments, error, words = REFUSED[name]
    asked = {"catalog": artifact.catalog, "artifact": artifact, "context": {}, "key": "k"}
    asked |= arguments
    with pytest.raises(error, match=words):
        _ = select(**asked) if way == "select" else select_many([Choice(**asked)])


def test_a_policy_of_another_catalog_is_a_bad_argument(artifact, catalog_text):
    other = parse_catalog(catalog_text.replace("version: 3", "version: 4"))
    with pytest.raises(ArtifactError, match="Train it on the catalog in force"):
        select(catalog=other, artifact=artifact, context={}, key="k")
