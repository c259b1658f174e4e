"""Plan ids that are worked out when asked for, and equal the tuple of them all."""

import tracemalloc
from itertools import product

import pytest

from policy.catalog import parse_catalog
from policy.plan_ids import PlanIds
from policy.selector import select


def text(sizes, more=""):
    factors = "".join(
        f"  f{i}: {{levels: [{', '.join(f'l{j}' for j in range(size))}]}}\n"
        for i, size in enumerate(sizes)
    )
    default = ",".join(f"f{i}=l0" for i in range(len(sizes)))
    return f"discipline: d\nversion: 1\nfactors:\n{factors}{more}default: {default}\n"


FORBID = "forbid: [{f0: l1, f1: [l1, l2]}, {f2: l1}]\n"


@pytest.fixture(params=["", FORBID], ids=["whole", "forbid"])
def catalog(request):
    return parse_catalog(text((3, 4, 2), request.param))


@pytest.fixture
def listed(catalog):
    """The ids, by the long way."""
    names = [
        ",".join(f"f{i}=l{level}" for i, level in enumerate(levels))
        for levels in product(range(3), range(4), range(2))
    ]
    if not catalog.forbid:
        return tuple(names)
    return tuple(
        name
        for name in names
        if "f2=l1" not in name and not ("f0=l1" in name and ("f1=l1" in name or "f1=l2" in name))
    )


def test_ids_equal_the_tuple_of_them(catalog, listed):
    assert catalog.plan_ids == listed
    assert listed == catalog.plan_ids
    assert tuple(catalog.plan_ids) == listed
    assert list(reversed(catalog.plan_ids)) == list(reversed(listed))
    assert len(catalog.plan_ids) == len(listed) == catalog.n_plans
    assert hash(catalog.plan_ids) == hash(listed)
    assert catalog.plan_ids == parse_catalog(catalog.to_yaml()).plan_ids


def test_ids_differ_from_other_tuples(catalog, listed):
    assert catalog.plan_ids != listed[1:]
    assert catalog.plan_ids != (*listed[1:], listed[0])
    assert catalog.plan_ids != list(listed)


def test_positions_and_slices_are_those_of_the_tuple(catalog, listed):
    ids = catalog.plan_ids
    for position in range(-len(listed), len(listed)):
        assert ids[position] == listed[position]
    for part in (slice(None), slice(2, 9), slice(None, None, -3), slice(-4, None), slice(5, 2)):
        assert ids[part] == listed[part]
    for position in (len(listed), -len(listed) - 1):
        with pytest.raises(IndexError):
            ids[position]


def test_an_id_and_its_action_turn_into_each_other(catalog, listed):
    for action, plan in enumerate(listed):
        assert catalog.index(plan) == catalog.plan_ids.index(plan) == action
        assert plan in catalog.plan_ids


@pytest.mark.parametrize(
    "wrong", ["", "f0=l0", "f0=l0,f1=l0,f2=l9", "f1=l0,f0=l0,f2=l0", "f0=l0,f1=l0,f2=l0,", 3, None],
    ids=range(7),
)  # fmt: skip
def test_what_is_no_id_has_no_action(catalog, wrong):
    assert catalog.find(wrong) is None
    assert wrong not in catalog.plan_ids
    with pytest.raises(ValueError, match="is no plan"):
        catalog.plan_ids.index(wrong)


def test_an_illegal_combination_has_no_action():
    catalog = parse_catalog(text((3, 4, 2), FORBID))
    for plan in ("f0=l1,f1=l2,f2=l0", "f0=l0,f1=l0,f2=l1", "f0=l2,f1=l3,f2=l1"):
        assert catalog.find(plan) is None


def test_an_id_beyond_the_bounds_given_is_not_found(catalog, listed):
    with pytest.raises(ValueError, match="is no plan"):
        catalog.plan_ids.index(listed[0], 1)
    assert catalog.plan_ids.index(listed[3], 1, 5) == 3


def test_ids_of_many_plans_are_short_to_print():
    assert repr(parse_catalog(text((10,) * 5)).plan_ids) == (
        "<100,000 plan ids from 'f0=l0,f1=l0,f2=l0,f3=l0,f4=l0' to 'f0=l9,f1=l9,f2=l9,f3=l9,f4=l9'>"
    )


@pytest.mark.parametrize("sizes", [(10, 10, 10, 100), (10,) * 5], ids=["four", "five"])
@pytest.mark.parametrize("more", ["", FORBID], ids=["whole", "forbid"])
def test_a_hundred_thousand_plans_serve_one_without_the_others(sizes, more):
    catalog = parse_catalog(text(sizes, more))
    assert isinstance(catalog.plan_ids, PlanIds)
    last = catalog.n_plans - 1
    assert catalog.index(catalog.plan_ids[last]) == last
    tracemalloc.start()
    try:
        decision = select(catalog=catalog, artifact=None, context={}, key="k", floor=0.5)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decision.plan == catalog.plan_ids[decision.action]
    # The row, the mask and what is derived from it; a hundred thousand ids would be 8 MB more.
    assert kept < 40 * catalog.n_plans
