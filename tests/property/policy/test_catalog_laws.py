"""Laws of catalogs and masks: identity, round trips, and one form for all."""

import numpy as np
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from canopy.domain.errors import CatalogError
from policy.catalog import parse_catalog
from policy.masks import mask_context, mask_contexts

LOOSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
NAMES = st.text(
    st.characters(blacklist_characters=",=", blacklist_categories=("C", "Z")),
    min_size=1,
    max_size=6,
)
AWKWARD = st.sampled_from(["1", "on", "no", "null", "~", "1e5", "1.5", "0x1", "{", "- a", "#", ":"])
LEVELS = st.lists(st.one_of(NAMES, AWKWARD), min_size=1, max_size=4, unique=True)
LITERALS = st.one_of(
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(blacklist_categories=("C", "Z"))),
    AWKWARD,
)


def refusal_of(text):
    """How a catalog's text is refused; None where it is accepted."""
    try:
        parse_catalog(text, "t.yaml")
    except CatalogError as error:
        return error
    return None


@st.composite
def documents(draw):
    """Catalogs as an author might write them, any printable name included."""
    factors = {}
    for name in draw(st.lists(st.one_of(NAMES, AWKWARD), min_size=1, max_size=3, unique=True)):
        levels = draw(LEVELS)
        if draw(st.booleans()):
            factors[name] = {"levels": levels}
        else:
            weights = draw(
                st.lists(st.floats(0.125, 8), min_size=len(levels), max_size=len(levels))
            )
            factors[name] = {
                "levels": {
                    level: {"doctrine": draw(NAMES), "weight": weight}
                    for level, weight in zip(levels, weights, strict=True)
                }
            }
    document = {"discipline": draw(NAMES), "version": draw(NAMES), "factors": factors}
    first = {name: next(iter(factor["levels"])) for name, factor in factors.items()}
    document["default"] = ",".join(f"{name}={level}" for name, level in first.items())
    name = draw(st.sampled_from(list(factors)))
    others = [level for level in factors[name]["levels"] if level != first[name]]
    if others:
        document["feasibility"] = [
            {
                "mask": {name: draw(st.sampled_from(others))},
                draw(st.sampled_from(["when", "unless"])): {
                    draw(st.sampled_from(["eq", "ne"])): {draw(NAMES): draw(LITERALS)}
                },
                "because": draw(NAMES),
            }
        ]
    return document


@given(documents())
@LOOSE
def test_a_catalog_round_trips_through_its_own_text(document):
    try:
        catalog = parse_catalog(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    except CatalogError:
        # Names that only YAML's own dialect tells apart; the law is about what was accepted.
        assume(condition=False)
    again = parse_catalog(catalog.to_yaml())
    assert again.content_hash == catalog.content_hash
    assert again.document() == catalog.document()
    assert again.plan_ids == catalog.plan_ids
    assert again.levels.tolist() == catalog.levels.tolist()
    if catalog.weights is not None:
        assert again.weights.tobytes() == catalog.weights.tobytes()


@given(st.text(max_size=200))
@LOOSE
def test_any_text_is_a_catalog_or_refused_with_its_place(text):
    refusal = refusal_of(text)
    if refusal is not None:
        assert refusal.place.startswith("t.yaml:")
        assert refusal.problem
        assert refusal.remedy


@given(data=st.data())
@LOOSE
def test_a_catalog_with_a_line_changed_is_another_or_refused(data, catalog):
    lines = catalog.to_yaml().splitlines(keepends=True)
    position = data.draw(st.integers(0, len(lines) - 1))
    changed = "".join([*lines[:position], *lines[position + 1 :]])
    refusal = refusal_of(changed)
    if refusal is None:
        assert parse_catalog(changed).content_hash != catalog.content_hash
    else:
        assert refusal.remedy


@given(data=st.data())
@LOOSE
def test_columns_are_masked_as_single_contexts(data, catalog, any_contexts):
    contexts = data.draw(st.lists(any_contexts, min_size=1, max_size=6))
    keys = {key for context in contexts for key in context}
    columns = {key: [context.get(key) for context in contexts] for key in keys}
    rows = mask_contexts(catalog, columns, n_rows=len(contexts))
    for row, context in zip(rows, contexts, strict=True):
        mask = mask_context(catalog, context)
        assert row.tobytes() == mask.feasible.tobytes()
        assert mask.n_feasible == row.sum()


@given(data=st.data())
@LOOSE
def test_a_plan_is_masked_if_and_only_if_there_is_a_reason(data, catalog, any_contexts):
    allowed = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(catalog.plan_ids))))
    mask = mask_context(catalog, data.draw(any_contexts), allowed)
    for action in range(catalog.n_plans):
        assert (mask.reason(action) is None) == bool(mask.feasible[action])
    if allowed is None:
        assert mask.feasible[catalog.default]


@given(data=st.data())
@LOOSE
def test_rules_mean_what_they_say(data, catalog, any_contexts):
    # A second route: the five rules of the catalog written out by hand.
    context = data.draw(any_contexts)
    n, t, f, s = (context.get(key) for key in "ntfs")
    n = None if n is None or n != n else float(n)  # noqa: PLR0124 - NaN
    f = None if f is None or isinstance(f, float) else bool(f)
    fired = (
        n is not None and n > 0,
        not (t == "x" or (n is not None and n <= -1)),
        t is not None and t != "y" and f is True,
        n not in {0.0, 0.5, 2.0},
        s is None,
    )
    assert mask_context(catalog, context).fired == tuple(np.flatnonzero(fired).tolist())
