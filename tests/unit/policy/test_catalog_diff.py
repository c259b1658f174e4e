"""What a new version of a catalog changes."""

import json

import numpy as np
import pytest

from policy.catalog import parse_catalog
from policy.catalog_diff import GONE, LevelName, WeightChange, diff_catalogs, plan_mapping

OLD = """\
discipline: d
version: 1
factors:
  tone:
    levels: {warm: {doctrine: Like a neighbour., weight: 3}, plain: {doctrine: Once., weight: 1}}
  size: {levels: [short, medium, long]}
forbid: [{tone: plain, size: long}]
feasibility:
  - {mask: {size: long}, when: {lt: {budget: 3}}, because: too dear}
  - {mask: {tone: plain}, when: {eq: {channel: chat}}, because: people expect warmth}
default: tone=warm,size=short
attributes: {cost: {"tone=warm,size=short": 1.5}}
"""


def changed(*pairs):
    """The difference that replacements in the text make."""
    text = OLD
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    return diff_catalogs(parse_catalog(OLD), parse_catalog(text))


def ids(catalog, actions):
    return [catalog.plan_ids[action] for action in actions.tolist()]


def test_a_catalog_does_not_differ_from_itself():
    difference = diff_catalogs(parse_catalog(OLD), parse_catalog(OLD))
    assert difference.is_empty
    assert difference.mapping.tolist() == [0, 1, 2, 3, 4]
    assert not difference.is_renumbered


def test_a_new_level_adds_its_plans_and_moves_the_others():
    difference = changed(("[short, medium, long]", "[tiny, short, medium, long]"))
    assert difference.levels_added == (LevelName("size", "tiny"),)
    assert ids(difference.new, difference.added) == ["tone=warm,size=tiny", "tone=plain,size=tiny"]
    assert not len(difference.removed)
    assert difference.mapping.tolist() == [1, 2, 3, 5, 6]
    assert difference.is_renumbered
    assert not difference.is_empty


def test_a_retired_level_takes_its_plans_along():
    difference = changed(("[short, medium, long]", "[short, long]"))
    assert difference.levels_removed == (LevelName("size", "medium"),)
    assert ids(difference.old, difference.removed) == [
        "tone=warm,size=medium", "tone=plain,size=medium",
    ]  # fmt: skip
    assert difference.mapping.tolist() == [0, GONE, 1, 2, GONE]


def test_another_factor_leaves_no_plan_as_it_was():
    difference = changed(("  size:", "  reach: {levels: [far]}\n  size:"), (
        "warm,size=short", "warm,reach=far,size=short",
    ))  # fmt: skip
    assert difference.factors_added == ("reach",)
    assert difference.factors_removed == ()
    assert len(difference.kept) == 0
    assert (difference.mapping == GONE).all()
    assert difference.default == ("tone=warm,size=short", "tone=warm,reach=far,size=short")


def test_a_constraint_is_told_with_the_plans_it_takes():
    difference = changed(("size: long}]", "size: long}, {tone: plain, size: medium}]"))
    assert difference.forbid_added == ({"tone": "plain", "size": "medium"},)
    assert ids(difference.old, difference.removed) == ["tone=plain,size=medium"]
    lifted = changed(("forbid: [{tone: plain, size: long}]\n", ""))
    assert lifted.forbid_removed == ({"tone": "plain", "size": "long"},)
    assert ids(lifted.new, lifted.added) == ["tone=plain,size=long"]


def test_weights_doctrine_default_and_attributes_are_compared():
    assert changed(("weight: 3", "weight: 2")).weights == (
        WeightChange(LevelName("tone", "warm"), 3.0, 2.0),
    )
    assert changed(("Once.", "Only once.")).doctrine == (LevelName("tone", "plain"),)
    moved = changed(("default: tone=warm,size=short", "default: tone=warm,size=medium"))
    assert moved.default == ("tone=warm,size=short", "tone=warm,size=medium")
    assert changed(("1.5", "2.5")).attributes == ("cost",)
    assert changed(("{cost:", "{price:")).attributes == ("cost", "price")


def test_rules_are_told_apart_by_content_and_paired_by_reason():
    edited = changed(("lt: {budget: 3}", "lt: {budget: 4}"))
    assert [change.because for change in edited.rules_changed] == ["too dear"]
    assert edited.rules_changed[0].old["when"] == {"lt": {"budget": 3}}
    assert edited.rules_changed[0].new["when"] == {"lt": {"budget": 4}}
    assert edited.rules_added == edited.rules_removed == ()
    renamed = changed(("because: too dear", "because: no money"))
    assert [rule["because"] for rule in renamed.rules_added] == ["no money"]
    assert [rule["because"] for rule in renamed.rules_removed] == ["too dear"]


def test_the_version_alone_is_no_difference():
    assert changed(("version: 1", "version: 2")).is_empty


LISTED = """\
discipline: d
version: 2
factors: {tone: {levels: [warm, plain]}, size: {levels: [short, medium, long]}}
plans:
  other: {tone: plain, size: short}
  "tone=plain,size=short": {tone: plain, size: short}
  "tone=warm,size=short": {tone: warm, size: short}
default: tone=warm,size=short
"""


def test_listed_plans_are_the_same_where_their_ids_are():
    old, new = parse_catalog(OLD), parse_catalog(LISTED)
    assert plan_mapping(old, new).tolist() == [2, GONE, GONE, 1, GONE]
    assert plan_mapping(new, old).tolist() == [GONE, 3, 0]
    assert plan_mapping(new, new).tolist() == [0, 1, 2]


def test_a_document_counts_all_and_lists_some():
    difference = changed(("[short, medium, long]", "[a, b, short, medium, long]"))
    document = difference.document(most=3)
    assert document["plans"]["n_added"] == 4
    assert document["plans"]["added"] == [
        "tone=warm,size=a", "tone=warm,size=b", "tone=plain,size=a",
    ]  # fmt: skip
    assert document["levels"]["added"] == ["size=a", "size=b"]
    assert document["old"]["version"] == "1"
    assert json.loads(json.dumps(document)) == document
    assert difference.document(most=0)["plans"]["added"] == []


def test_what_a_difference_holds_cannot_be_changed():
    difference = diff_catalogs(parse_catalog(OLD), parse_catalog(OLD))
    with pytest.raises(ValueError, match="read-only"):
        difference.mapping[0] = 3


def test_a_hundred_thousand_plans_are_compared_by_arithmetic():
    levels = ", ".join(f"l{i}" for i in range(10))
    factors = "".join(f"  f{i}: {{levels: [{levels}]}}\n" for i in range(5))
    default = f"default: {','.join(f'f{i}=l0' for i in range(5))}\n"
    text = f"discipline: d\nversion: 1\nfactors:\n{factors}{default}"
    old = parse_catalog(text)
    new = parse_catalog(
        text.replace("f0: {levels: [l0, l1", "f0: {levels: [l0, x, l1").replace(
            "default", "forbid: [{f1: l1, f2: l2}]\ndefault"
        )
    )
    difference = diff_catalogs(old, new)
    assert (old.n_plans, new.n_plans) == (100_000, 108_900)
    assert (len(difference.kept), len(difference.removed)) == (99_000, 1_000)
    sample = difference.kept[::997]
    assert ids(old, sample) == ids(new, difference.mapping[sample])
    assert np.array_equal(np.sort(difference.mapping[difference.kept]), np.setdiff1d(
        np.arange(new.n_plans), difference.added
    ))  # fmt: skip
