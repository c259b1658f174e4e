"""Catalogs: what they mean, and every way in which they are refused."""

import pickle

import numpy as np
import pytest

from canopy.domain.errors import CatalogError
from policy.catalog import MAX_PLANS, load_catalog, parse_catalog

SMALL = """\
discipline: d
version: 1
factors:
  a: {levels: [x, y]}
  b: {levels: {u: {weight: 1}, v: {weight: 3}}}
default: a=x,b=u
"""


def test_plans_are_the_product_of_levels_with_the_last_factor_fastest():
    catalog = parse_catalog(SMALL)
    assert catalog.plan_ids == ("a=x,b=u", "a=x,b=v", "a=y,b=u", "a=y,b=v")
    assert catalog.levels.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert catalog.n_plans == 4
    assert catalog.default == 0
    assert catalog.version == "1"


def test_a_forbidden_combination_is_no_plan(catalog):
    assert catalog.n_plans == 2 * 3 * 2 - 2
    assert not [plan for plan in catalog.plan_ids if plan.startswith("tone=plain,length=long")]


def test_every_plan_id_leads_back_to_its_action(catalog):
    assert [catalog.index(plan) for plan in catalog.plan_ids] == list(range(catalog.n_plans))


@pytest.mark.parametrize("name", ["tone=warm", "", "TONE=warm,length=short,on=yes", None, ["x"]])
def test_an_unknown_plan_is_refused_by_name(catalog, name):
    with pytest.raises(CatalogError, match=r"has no plan .*named like 'tone=warm,length=short"):
        catalog.index(name)


def test_weights_are_the_product_of_level_weights_over_legal_plans():
    catalog = parse_catalog(SMALL)
    assert catalog.weights.tolist() == [0.125, 0.375, 0.125, 0.375]


def test_without_weights_there_is_no_doctrine_distribution():
    text = SMALL.replace("{u: {weight: 1}, v: {weight: 3}}", "[u, v]")
    assert parse_catalog(text).weights is None


@pytest.mark.parametrize("level", ["{doctrine: Why.}", "{weight: 2}", "{}", ""], ids=str)
def test_doctrine_and_weight_are_each_optional(level):
    catalog = parse_catalog(
        f"discipline: d\nversion: 1\nfactors: {{a: {{levels: {{x: {level}}}}}}}\ndefault: a=x\n"
    )
    (known,) = catalog.factors[0].levels
    assert (known.doctrine is None) == ("doctrine" not in level)
    assert (known.weight is None) == ("weight" not in level) == (catalog.weights is None)
    assert parse_catalog(catalog.to_yaml()) == catalog


def test_a_weight_of_zero_is_kept():
    text = SMALL.replace("v: {weight: 3}", "v: {weight: 0}")
    assert parse_catalog(text).weights.tolist() == [0.5, 0.0, 0.5, 0.0]


def test_attributes_are_nan_where_the_author_gave_none(catalog):
    cost = catalog.attributes["cost"]
    assert cost[catalog.index("tone=warm,length=short,on=yes")] == 1.5
    assert cost[catalog.index("tone=warm,length=long,on=no")] == 4.0
    assert np.isnan(cost).sum() == catalog.n_plans - 2


def test_level_names_are_text_whatever_they_look_like():
    text = "discipline: d\nversion: 1.0\nfactors: {f: {levels: [1, on, null, 2020-01-01]}}\n"
    catalog = parse_catalog(text + "default: f=on\n")
    assert catalog.plan_ids == ("f=1", "f=on", "f=null", "f=2020-01-01")
    assert parse_catalog(catalog.to_yaml()) == catalog


def test_listed_plans_keep_their_ids_and_order():
    text = """\
discipline: items
version: 1
factors:
  kind: {levels: [hat, shoe]}
  price: {levels: [low, high]}
plans:
  item-7: {kind: shoe, price: low}
  item-2: {price: high, kind: hat}
  item-9: {kind: shoe, price: low}
default: item-2
"""
    catalog = parse_catalog(text)
    assert catalog.plan_ids == ("item-7", "item-2", "item-9")
    assert catalog.levels.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert catalog.default == 1
    assert parse_catalog(catalog.to_yaml()) == catalog


def test_a_catalog_round_trips_through_its_text(catalog):
    again = parse_catalog(catalog.to_yaml(), "again")
    assert again == catalog
    assert hash(again) == hash(catalog)
    assert again.document() == catalog.document()
    assert again.kinds == catalog.kinds
    assert np.array_equal(again.weights, catalog.weights)


def test_the_order_of_levels_and_factors_is_part_of_the_identity():
    other_levels = parse_catalog(SMALL.replace("[x, y]", "[y, x]"))
    lines = SMALL.splitlines(keepends=True)
    other_factors = parse_catalog("".join([*lines[:3], lines[4], lines[3], "default: b=u,a=x\n"]))
    hashes = {c.content_hash for c in (parse_catalog(SMALL), other_levels, other_factors)}
    assert len(hashes) == 3


def test_every_authored_word_is_part_of_the_identity(catalog_text, catalog):
    changed = [
        catalog_text.replace("Say it once.", "Say it twice."),
        catalog_text.replace("weight: 3", "weight: 2"),
        catalog_text.replace("too dear", "dear"),
        catalog_text.replace("lt: {budget: 5.5}", "lt: {budget: 5.6}"),
        catalog_text.replace("lt: {budget: 5.5}", "le: {budget: 5.5}"),
        catalog_text.replace("    unless: {ge", "    when: {ge"),
        catalog_text.replace("on=no: 4", "on=no: 5").replace('on=no": 4', 'on=no": 5'),
        catalog_text.replace("version: 3", "version: 4"),
    ]
    hashes = {parse_catalog(text).content_hash for text in changed}
    assert len(hashes | {catalog.content_hash}) == len(changed) + 1


def test_a_catalog_survives_pickling_after_use(catalog):
    catalog.compiled["masks"] = lambda: None
    copy = pickle.loads(pickle.dumps(catalog))
    assert copy == catalog
    assert copy.plan_ids == catalog.plan_ids
    assert copy != "catalog"


def test_a_hundred_thousand_plans_are_enumerated_at_once():
    factors = "".join(f"  f{i}: {{levels: {list('abcdefghij')}}}\n" for i in range(5))
    default = ",".join(f"f{i}=a" for i in range(5))
    text = f"discipline: d\nversion: 1\nfactors:\n{factors}default: {default}\n"
    catalog = parse_catalog(text)
    assert catalog.n_plans == 100_000
    assert catalog.plan_ids[-1] == "f0=j,f1=j,f2=j,f3=j,f4=j"
    assert catalog.index("f0=a,f1=a,f2=a,f3=b,f4=c") == 12


def test_a_file_is_read(tmp_path, catalog_text, catalog):
    path = tmp_path / "catalog.yaml"
    path.write_text(catalog_text, encoding="utf-8")
    assert load_catalog(path) == catalog
    assert load_catalog(str(path)) == catalog


def test_a_missing_or_undecodable_file_is_refused(tmp_path):
    with pytest.raises(CatalogError, match="cannot be read"):
        load_catalog(tmp_path / "none.yaml")
    path = tmp_path / "catalog.yaml"
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(CatalogError, match="not UTF-8"):
        load_catalog(path)


HEAD = "discipline: d\nversion: 1\nfactors: {a: {levels: [x, y]}, b: {levels: [u, v]}}\n"
DEFAULT = "default: a=x,b=u\n"
RULE = HEAD + DEFAULT + "feasibility:\n  - {mask: {a: y}, because: why, when: PRED}\n"
TOO_MANY = "".join(f"  f{i}: {{levels: {list('abcdefghij')}}}\n" for i in range(7))
DEEP = "{not: " * 40 + "{has: k}" + "}" * 40

REFUSED = {
    "empty": ("", "c.yaml:1:", "is empty"),
    "only a comment": ("# nothing\n", "c.yaml:1:", "is empty"),
    "no yaml": ("a: [b\n", "c.yaml:2:", "is not YAML"),
    "control character": ("a: \x07\n", "c.yaml:1:", "forbids"),
    "two documents": ("a: 1\n---\nb: 2\n", "c.yaml:2:", "is not YAML"),
    "a list": ("- a\n", "c.yaml:1:", "is not a mapping"),
    "unknown key": (HEAD + DEFAULT + "feasable: []\n", "c.yaml:5:feasable", "not a key known"),
    "no discipline": ("version: 1\n", "c.yaml:1:discipline", "is missing"),
    "no default": (HEAD, "c.yaml:1:default", "is missing"),
    "comma in the discipline": (HEAD.replace("d\n", '"a,b"\n', 1) + DEFAULT, ":1:disc", "comma"),
    "duplicate key": (HEAD + "version: 2\n" + DEFAULT, "c.yaml:4:version", "second time"),
    "duplicate level": (
        HEAD.replace("[u, v]", "{u: {}, u: {}}") + DEFAULT,
        "c.yaml:3:factors.b.levels.u",
        "second time",
    ),
    "level listed twice": (HEAD.replace("[u, v]", "[u, u]") + DEFAULT, ":3:", "lists 'u' twice"),
    "alias": (HEAD + "forbid: &f [{a: x}]\nattributes: *f\n" + DEFAULT, "c.yaml:4:", "alias"),
    "tag": (HEAD + "default: !!python/name:os.system a=x,b=u\n", "c.yaml:4:", "tag"),
    "no factors": ("discipline: d\nversion: 1\nfactors: {}\ndefault: x\n", ":3:", "no factor"),
    "equals sign in a factor": (HEAD.replace("a:", '"a=":') + DEFAULT, ":3:", "equals sign"),
    "comma in a level": (HEAD.replace("[x, y]", '["x,y"]') + DEFAULT, ":3:", "comma"),
    "comma in a level key": (HEAD.replace("[x, y]", '{"x,y": {}}') + DEFAULT, ":3:", "comma"),
    "unprintable level": (HEAD.replace("[x, y]", '["x\\u0007"]') + DEFAULT, ":3:", "unprintable"),
    "no levels key": (HEAD.replace("{levels: [x, y]}", "{}") + DEFAULT, ":3:factors.a", "levels"),
    "no level": (HEAD.replace("[x, y]", "[]") + DEFAULT, ":3:factors.a.levels", "lists no level"),
    "levels a number": (HEAD.replace("[x, y]", "3") + DEFAULT, ":3:factors.a.levels", "mapping"),
    "level a mapping in a list": (HEAD.replace("[x, y]", "[{x: 1}]") + DEFAULT, "[0]", "plain"),
    "some weights": (
        HEAD.replace("[x, y]", "{x: {weight: 1}, y: {}}") + DEFAULT,
        "c.yaml:3:factors.a.levels",
        "some levels and not others",
    ),
    "negative weight": (
        HEAD.replace("[x, y]", "{x: {weight: -1}, y: {weight: 1}}") + DEFAULT,
        "c.yaml:3:factors.a.levels.x.weight",
        "negative",
    ),
    "weight a word": (HEAD.replace("[x, y]", "{x: {weight: w}}") + DEFAULT, ".weight", "a number"),
    "weight a bool": (HEAD.replace("[x, y]", "{x: {weight: true}}") + DEFAULT, "x.weight", "True"),
    "weight empty": (HEAD.replace("[x, y]", "{x: {weight: }}") + DEFAULT, "x.weight", "no value"),
    "weight a list": (HEAD.replace("[x, y]", "{x: {weight: [1]}}") + DEFAULT, "x.weight", "plain"),
    "weight infinite": (HEAD.replace("[x, y]", "{x: {weight: 1e999}}") + DEFAULT, ":3:", "large"),
    "weights overflow": (
        HEAD.replace("[x, y]", "{x: {weight: 1e300}}").replace("[u, v]", "{u: {weight: 1e300}}")
        + DEFAULT,
        "c.yaml:3:factors",
        "overflow",
    ),
    "default of weight zero": (
        HEAD.replace("[x, y]", "{x: {weight: 0}, y: {weight: 1}}") + DEFAULT,
        "c.yaml:3:factors",
        "default plan with 0",
    ),
    "default unknown": (HEAD + "default: a=x\n", "c.yaml:4:default", "no legal plan"),
    "default forbidden": (HEAD + DEFAULT + "forbid: [{a: x}]\n", "c.yaml:4:default", "no legal"),
    "forbid unknown factor": (HEAD + DEFAULT + "forbid: [{c: x}]\n", "forbid[0].c", "not a key"),
    "forbid unknown level": (HEAD + DEFAULT + "forbid: [{a: z}]\n", ":5:forbid[0].a", "no level"),
    "forbid nothing": (HEAD + DEFAULT + "forbid: [{}]\n", ":5:forbid[0]", "describes no plan"),
    "forbid empty levels": (HEAD + DEFAULT + "forbid: [{a: []}]\n", "forbid[0].a", "no level"),
    "forbid everything": (HEAD + DEFAULT + "forbid: [{a: [x, y]}]\n", "factors", "no legal plan"),
    "forbid no list": (HEAD + DEFAULT + "forbid: {a: x}\n", ":5:forbid", "not a list"),
    "too many plans": (
        f"discipline: d\nversion: 1\nfactors:\n{TOO_MANY}default: x\n",
        "c.yaml:4:factors",
        f"more than {MAX_PLANS:,}",
    ),
    "rule masks the default": (
        RULE.replace("a: y", "a: x").replace("PRED", "{has: k}"),
        "c.yaml:6:feasibility[0]",
        "can mask the default plan 'a=x,b=u'",
    ),
    "rule lists the default": (
        RULE.replace("mask: {a: y}", 'plans: ["a=x,b=u"]').replace("PRED", "{has: k}"),
        "c.yaml:6:feasibility[0]",
        "can mask the default",
    ),
    "rule lists an unknown plan": (
        RULE.replace("mask: {a: y}", "plans: [q]").replace("PRED", "{has: k}"),
        "c.yaml:6:feasibility[0]",
        "names 'q'",
    ),
    "rule without plans": (
        RULE.replace("mask: {a: y}, ", "").replace("PRED", "{has: k}"),
        "feasibility[0]",
        "either `mask` or `plans`",
    ),
    "rule without reason": (
        RULE.replace("because: why, ", "").replace("PRED", "{has: k}"),
        "feasibility[0]",
        "gives no reason",
    ),
    "rule without condition": (RULE.replace(", when: PRED", ""), "feasibility[0]", "one condition"),
    "rule with two conditions": (
        RULE.replace("PRED", "{has: k}, unless: {has: k}"),
        "feasibility[0]",
        "one condition",
    ),
    "unknown operator": (RULE.replace("PRED", "{like: {k: v}}"), "when.like", "not a key known"),
    "two operators": (RULE.replace("PRED", "{has: k, eq: {k: 1}}"), ".when", "holds 2 operators"),
    "no operator": (RULE.replace("PRED", "{}"), "feasibility[0].when", "holds 0 operators"),
    "empty all": (RULE.replace("PRED", "{all: []}"), "when.all", "lists no predicate"),
    "all a mapping": (RULE.replace("PRED", "{all: {has: k}}"), "when.all", "not a list"),
    "two keys compared": (RULE.replace("PRED", "{eq: {k: 1, m: 2}}"), "when.eq", "one key"),
    "three sides": (RULE.replace("PRED", "{eq: [k, 1, 2]}"), "when.eq", "one key with one value"),
    "empty sides": (RULE.replace("PRED", "{eq: []}"), "when.eq", "one key with one value"),
    "order of texts": (RULE.replace("PRED", "{lt: {k: a}}"), "when.lt.k", "orders numbers"),
    "order of bools": (RULE.replace("PRED", "{ge: {k: true}}"), "when.ge.k", "orders numbers"),
    "mixed list": (RULE.replace("PRED", "{in: {k: [a, 1]}}"), "when.in.k", "mixes types"),
    "empty list": (RULE.replace("PRED", "{in: {k: []}}"), "when.in.k", "mixes types"),
    "in one value": (RULE.replace("PRED", "{in: {k: a}}"), "when.in.k", "not a list"),
    "eq a list": (RULE.replace("PRED", "{eq: {k: [a]}}"), "when.eq.k", "plain value"),
    "eq nothing": (RULE.replace("PRED", "{eq: {k: ~}}"), "when.eq.k", "no value"),
    "deep predicate": (RULE.replace("PRED", DEEP), ".not.not", "nested too deeply"),
    "two types of one key": (
        RULE.replace("PRED", "{any: [{eq: {k: 1}}, {eq: {k: a}}]}"),
        "c.yaml:6:feasibility[0]",
        "asks `k` for a text",
    ),
    "no plan listed": (HEAD + DEFAULT + "plans: {}\n", "c.yaml:5:plans", "lists no plan"),
    "listed plan incomplete": (HEAD + DEFAULT + "plans: {p: {a: x}}\n", "plans.p", "one level per"),
    "listed plan ambiguous": (
        HEAD + DEFAULT + "plans: {p: {a: [x, y], b: u}}\n",
        "plans.p",
        "one level per factor",
    ),
    "listed plan forbidden": (
        HEAD + "default: p\nforbid: [{a: x}]\nplans: {p: {a: y, b: u}, q: {a: x, b: u}}\n",
        "c.yaml:6:plans.q",
        "is forbidden",
    ),
    "attribute of an unknown plan": (
        HEAD + DEFAULT + "attributes: {cost: {q: 1}}\n",
        "c.yaml:5:attributes.cost.q",
        "no legal plan",
    ),
    "attribute a word": (
        HEAD + DEFAULT + 'attributes: {cost: {"a=x,b=u": much}}\n',
        "attributes.cost.a=x,b=u",
        "not a number",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_catalog_is_refused_with_its_place(name):
    text, place, problem = REFUSED[name]
    with pytest.raises(CatalogError) as refusal:
        parse_catalog(text, "c.yaml")
    assert refusal.value.place.startswith("c.yaml:")
    assert place in refusal.value.place
    assert problem in str(refusal.value)
    assert refusal.value.remedy


def test_has_takes_the_type_that_another_rule_gives_the_key():
    text = RULE.replace("PRED", "{any: [{has: k}, {lt: {k: 2}}, {has: k}, {has: other}]}")
    assert parse_catalog(text).kinds == {"k": "number", "other": "any"}
