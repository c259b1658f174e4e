"""Catalog texts: the same plans and the same identity that `policy.catalog` sees."""

import pytest

from canopy.domain.errors import CatalogError
from canopy.logs.catalog_text import catalog_of_plans, of_discipline, outline
from canopy.logs.world import FactoredWorld
from policy.catalog import parse_catalog

AUTHORED = """
# written by hand
discipline: copy
version: 2
factors:
  tone:
    levels:
      plain: {doctrine: "Say it.", weight: 1}
      warm: {doctrine: "Say it kindly.", weight: 2}
  length: {levels: {short: {weight: 1}, long: {weight: 1}}}
forbid:
  - {tone: warm, length: long}
feasibility:
  - mask: {tone: warm}
    when: {eq: [formal, true]}
    because: Formal readers.
default: tone=plain,length=short
"""
TEXTS = [
    AUTHORED,
    FactoredWorld.create((2, 3)).catalog_text(),
    catalog_of_plans(["a=1,b=x", "a=1,b=y", "a=2,b=x"], "factored"),
    catalog_of_plans(["yes", "7", "with=equals", "and,comma", "50%"], "flat"),
    catalog_of_plans(["b", "a"], "default", "a"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_outline_agrees_with_the_catalog(text):
    catalog, found = parse_catalog(text, "catalog"), outline(text)
    assert found.plans == catalog.plan_ids
    assert (found.discipline, found.version) == (catalog.discipline, catalog.version)
    plain = outline(catalog.to_yaml())
    assert plain.catalog_hash == catalog.content_hash
    assert plain.plans == catalog.plan_ids


@pytest.mark.parametrize("text", TEXTS[1:])
def test_texts_written_here_have_the_identity_of_their_catalog(text):
    assert outline(text).catalog_hash == parse_catalog(text, "catalog").content_hash


def test_plan_ids_that_name_factors_keep_them():
    catalog = parse_catalog(catalog_of_plans(["a=1,b=x", "a=2,b=y"], "d"), "catalog")
    assert [factor.name for factor in catalog.factors] == ["a", "b"]
    flat = parse_catalog(catalog_of_plans(["a=1,b=x", "c=2"], "d"), "catalog")
    assert [factor.name for factor in flat.factors] == ["plan"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_catalog_moves_to_another_discipline_with_its_plans(text):
    moved = of_discipline(text, "other: craft")
    assert outline(moved).discipline == "other: craft"
    assert outline(moved).plans == outline(text).plans
    assert ("# written by hand" in moved) == ("# written by hand" in text)
    assert of_discipline(moved, "other: craft") == moved


NO_LEVEL = "discipline: d\nversion: 1\nfactors: {a: {levels: []}}\ndefault: a=1\n"


@pytest.mark.parametrize(
    "text", ["", "- a list", "discipline: d", "factors: {a: 1}", "a: [", NO_LEVEL]
)
def test_what_is_no_catalog_is_refused(text):
    with pytest.raises(CatalogError):
        outline(text, "file.yaml")
