"""Masks: rules over a context, in one form and in the other, with a reason per masked plan."""

import numpy as np
import pytest

from canopy.domain.errors import CatalogError, FeatureError, RangeError, ShapeMismatchError
from policy.catalog import parse_catalog
from policy.masks import NOT_ALLOWED, check_mask, mask_context, mask_contexts

BUDGET, CHANNEL = "longer texts need a budget of 3", "people expect warmth there"


def feasible(catalog, context, allowed=None):
    mask = mask_context(catalog, context, allowed)
    return {catalog.plan_ids[action] for action in np.flatnonzero(mask.feasible)}


def test_a_rule_with_unless_masks_until_its_predicate_holds(catalog):
    short = {plan for plan in catalog.plan_ids if "length=short" in plan}
    assert feasible(catalog, {}) == short
    assert feasible(catalog, {"budget": 2.999}) == short
    assert len(feasible(catalog, {"budget": 6})) == catalog.n_plans


def test_a_missing_value_makes_every_comparison_false(catalog):
    for missing in ({}, {"budget": None}, {"budget": float("nan")}, {"budget": np.float32("nan")}):
        assert mask_context(catalog, missing).fired == (0,)


def test_presence_is_asked_with_has(catalog):
    assert 2 in mask_context(catalog, {"pinned": False}).fired
    assert 2 not in mask_context(catalog, {"pinned": float("nan")}).fired
    assert 2 not in mask_context(catalog, {"pinned": 1, "approved": False}).fired


def test_every_masked_plan_has_a_reason_and_no_feasible_one_has(catalog):
    mask = mask_context(catalog, {"channel": "sms"}, ["tone=warm,length=short,on=yes"])
    for action, plan in enumerate(catalog.plan_ids):
        reason = mask.reason(action)
        assert (reason is None) == bool(mask.feasible[action])
        if "length=short" not in plan:
            assert reason == BUDGET
        elif "tone=plain" in plan:
            assert reason == CHANNEL
        elif "on=no" in plan:
            assert reason == NOT_ALLOWED
    assert mask.reasons() == {
        plan: mask.reason(action)
        for action, plan in enumerate(catalog.plan_ids)
        if not mask.feasible[action]
    }


@pytest.mark.parametrize("action", [-1, 10, 1000])
def test_the_reason_of_no_plan_is_refused(catalog, action):
    with pytest.raises(RangeError, match="0 to 9"):
        mask_context(catalog, {}).reason(action)


def test_the_default_plan_is_feasible_under_every_rule(catalog, contexts):
    for context in contexts:
        assert mask_context(catalog, context).feasible[catalog.default]


def test_what_the_caller_allows_narrows_what_the_rules_allow(catalog):
    allowed = ["tone=warm,length=short,on=no", "tone=warm,length=long,on=no"]
    assert feasible(catalog, {}, allowed) == {allowed[0]}
    assert feasible(catalog, {}, []) == set()
    assert mask_context(catalog, {}, allowed).n_feasible == 1


def test_an_unknown_plan_may_not_be_allowed(catalog):
    with pytest.raises(CatalogError, match="has no plan 'x'"):
        mask_context(catalog, {}, ["x"])


def test_a_mask_cannot_be_opened_to_writing(catalog):
    for mask in (mask_context(catalog, {}), mask_context(catalog, {}, [catalog.plan_ids[0]])):
        with pytest.raises(ValueError, match="read-only"):
            mask.feasible[0] = False
        with pytest.raises(ValueError, match="WRITEABLE"):
            mask.feasible.setflags(write=True)


WRONG = [
    ({"budget": "3"}, "`budget`", "expected a number"),
    ({"budget": True}, "`budget`", "expected a number"),
    ({"budget": np.bool_(0)}, "`budget`", "expected a number"),
    ({"budget": 10**400}, "`budget`", "too large"),
    ({"budget": [3]}, "`budget`", "expected a number"),
    ({"channel": 3}, "`channel`", "expected text"),
    ({"channel": b"chat"}, "`channel`", "expected text"),
    ({"approved": 1}, "`approved`", "expected true or false"),
    ({"approved": "true"}, "`approved`", "expected true or false"),
]


@pytest.mark.parametrize(("context", "place", "problem"), WRONG)
def test_a_value_of_a_wrong_type_is_refused_by_key(catalog, context, place, problem):
    with pytest.raises(FeatureError, match=problem) as single:
        mask_context(catalog, context)
    assert single.value.place == place
    columns = {key: [None, value] for key, value in context.items()}
    with pytest.raises(FeatureError, match=problem) as many:
        mask_contexts(catalog, columns)
    assert many.value.place == f"{place}, row 2"


def test_many_contexts_are_masked_as_one_by_one(catalog, contexts):
    keys = sorted({key for context in contexts for key in context})
    columns = {key: [context.get(key) for context in contexts] for key in keys}
    rows = mask_contexts(catalog, columns)
    assert rows.dtype == np.bool_
    for row, context in zip(rows, contexts, strict=True):
        assert np.array_equal(row, mask_context(catalog, context).feasible)


@pytest.mark.parametrize(
    "columns",
    [
        {"budget": np.array([2, 4]), "approved": np.array([True, False])},
        {"budget": np.array([2.0, np.nan]), "channel": np.array(["chat", "mail"])},
        {"budget": np.array([2, 4], dtype=object), "pinned": np.array([1, None], dtype=object)},
        {"channel": np.array(["sms", None], dtype=object), "pinned": np.array([0.0, np.nan])},
        {"channel": ("sms", "voice"), "budget": np.array([7, 1], dtype=np.uint8)},
    ],
)
def test_columns_of_any_array_type_mean_the_same(catalog, columns):
    rows = mask_contexts(catalog, columns)
    for position, row in enumerate(rows):
        context = {key: values[position] for key, values in columns.items()}
        assert np.array_equal(row, mask_context(catalog, context).feasible)


OPERATORS = {
    "{eq: {k: 2}}": [True, False, False, False],
    "{ne: {k: 2}}": [False, True, True, False],
    "{lt: {k: 2}}": [False, True, False, False],
    "{le: {k: 2}}": [True, True, False, False],
    "{gt: {k: 2}}": [False, False, True, False],
    "{ge: [k, 2.0]}": [True, False, True, False],
    "{in: {k: [2, 7]}}": [True, False, True, False],
    "{has: k}": [True, True, True, False],
    "{not: {lt: {k: 2}}}": [True, False, True, True],
    "{all: [{gt: {k: 1}}, {lt: {k: 3}}]}": [True, False, False, False],
    "{any: [{lt: {k: 1}}, {gt: {k: 3}}]}": [False, True, True, False],
}


@pytest.mark.parametrize("predicate", OPERATORS)
@pytest.mark.parametrize("kind", ["when", "unless"])
def test_each_operator_means_what_it_says(predicate, kind):
    plans = parse_catalog(
        "discipline: d\nversion: 1\nfactors: {a: {levels: [x, y]}}\ndefault: a=x\n"
        f"feasibility: [{{mask: {{a: y}}, {kind}: {predicate}, because: why}}]\n"
    )
    values = [2, 0.5, 7, None]
    expected = [answer == (kind == "when") for answer in OPERATORS[predicate]]
    assert [bool(mask_context(plans, {"k": v}).fired) for v in values] == expected
    assert (~mask_contexts(plans, {"k": values})[:, 1]).tolist() == expected


def test_a_catalog_without_rules_masks_nothing():
    text = "discipline: d\nversion: 1\nfactors: {a: {levels: [x, y]}}\ndefault: a=x\n"
    catalog = parse_catalog(text)
    assert mask_context(catalog, {"a": object()}).feasible.all()
    assert mask_contexts(catalog, {}, n_rows=3).tolist() == [[True, True]] * 3


def test_rows_are_counted_or_stated(catalog):
    assert mask_contexts(catalog, {}, n_rows=2).shape == (2, 10)
    assert mask_contexts(catalog, {"budget": []}).shape == (0, 10)
    with pytest.raises(FeatureError, match="nothing to count"):
        mask_contexts(catalog, {})
    with pytest.raises(ShapeMismatchError, match="column `channel`"):
        mask_contexts(catalog, {"budget": [1, 2], "channel": ["a"]})
    with pytest.raises(ShapeMismatchError, match="column `budget`"):
        mask_contexts(catalog, {"budget": [1, 2]}, n_rows=3)


@pytest.mark.parametrize(
    "column", ["chat", b"chat", {"a": 1}, np.zeros((2, 2)), np.float64(1), 7], ids=repr
)
def test_what_is_no_column_is_refused(catalog, column):
    with pytest.raises(FeatureError, match="is no column"):
        mask_contexts(catalog, {"channel": column})


def test_more_than_sixty_four_rules_are_told_apart():
    levels = [f"l{i}" for i in range(81)]
    rules = "".join(
        f"  - {{mask: {{a: {level}}}, when: {{gt: {{k: {i}}}}}, because: r{i}}}\n"
        for i, level in enumerate(levels[1:], start=1)
    )
    text = (
        f"discipline: d\nversion: 1\nfactors: {{a: {{levels: {levels}}}}}\n"
        f"default: a=l0\nfeasibility:\n{rules}"
    )
    catalog = parse_catalog(text.replace("'", ""))
    values = np.arange(0.5, 81, 0.5)
    rows = mask_contexts(catalog, {"k": values})
    for row, value in zip(rows, values, strict=True):
        assert np.array_equal(row, mask_context(catalog, {"k": value}).feasible)
        assert np.flatnonzero(~row).tolist() == list(range(1, int(np.ceil(value))))


def test_the_cache_of_masks_is_bounded(catalog):
    mask_context(catalog, {})
    masks = catalog.compiled["masks"].masks
    limit = catalog.compiled["masks"].most_masks
    held = masks[1]
    masks.update(dict.fromkeys(range(100, 100 + limit), held))
    again = mask_context(catalog, {"budget": 9})
    assert again.n_feasible == catalog.n_plans
    assert len(masks) == limit
    # The oldest went, the newest is kept.
    assert 1 not in masks
    assert next(reversed(masks.values())) is again


def test_a_mask_handed_in_is_checked():
    with pytest.raises(RangeError, match="booleans"):
        check_mask(np.array([1, 0]), (2,))
    with pytest.raises(ShapeMismatchError, match="mask"):
        check_mask(np.array([True]), (2,))
