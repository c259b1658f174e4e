"""Laws of catalog differences, and of the terms of a score."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.catalog import parse_catalog
from policy.catalog_diff import GONE, diff_catalogs
from policy.contributions import contributions
from policy.masks import mask_context

LOOSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
NAMES = ("a", "b", "c")


@st.composite
def catalogs(draw):
    """Small catalogs over the same few names, listed or enumerated."""
    levels = {
        name: draw(st.lists(st.sampled_from("uvwx"), min_size=1, max_size=3, unique=True))
        for name in NAMES[: draw(st.integers(1, 3))]
    }
    plan = {name: draw(st.sampled_from(known)) for name, known in levels.items()}
    lines = ["discipline: d", f"version: {draw(st.integers(1, 2))}", "factors:"]
    for name, known in levels.items():
        if draw(st.booleans()):
            entries = ", ".join(
                f"{level}: {{weight: {draw(st.integers(1, 2))}}}" for level in known
            )
            lines.append(f"  {name}: {{levels: {{{entries}}}}}")
        else:
            lines.append(f"  {name}: {{levels: [{', '.join(known)}]}}")
    default = ",".join(f"{name}={level}" for name, level in plan.items())
    others = [(name, level) for name, known in levels.items() for level in known
              if level != plan[name]]  # fmt: skip
    if others and draw(st.booleans()):
        name, level = draw(st.sampled_from(others))
        lines.append(f"forbid: [{{{name}: {level}}}]")
    elif draw(st.booleans()):
        cells = ", ".join(f"{name}: {level}" for name, level in plan.items())
        lines.append(f"plans: {{first: {{{cells}}}, '{default}': {{{cells}}}}}")
    if others and draw(st.booleans()):
        name, level = draw(st.sampled_from(others))
        limit, because = draw(st.integers(1, 2)), draw(st.sampled_from("pq"))
        rule = f"{{mask: {{{name}: {level}}}, when: {{lt: {{n: {limit}}}}}, because: {because}}}"
        if not any(line.startswith("plans") for line in lines):
            lines.append(f"feasibility: [{rule}]")
    lines.append(f"default: {default}")
    return parse_catalog("\n".join(lines))


@given(catalogs())
@LOOSE
def test_a_catalog_differs_from_itself_in_nothing(catalog):
    difference = diff_catalogs(catalog, catalog)
    assert difference.is_empty
    assert difference.mapping.tolist() == list(range(catalog.n_plans))


@given(catalogs(), catalogs())
@LOOSE
def test_the_mapping_keeps_ids_and_misses_none(old, new):
    difference = diff_catalogs(old, new)
    known = {plan: action for action, plan in enumerate(new.plan_ids)}
    assert difference.mapping.tolist() == [known.get(plan, GONE) for plan in old.plan_ids]
    assert {new.plan_ids[a] for a in difference.added} == set(new.plan_ids) - set(old.plan_ids)
    assert {old.plan_ids[a] for a in difference.removed} == set(old.plan_ids) - set(new.plan_ids)


@given(catalogs(), catalogs())
@LOOSE
def test_a_difference_is_the_mirror_of_the_one_from_the_other_side(old, new):
    there, back = diff_catalogs(old, new), diff_catalogs(new, old)
    for added, removed in (
        ("added", "removed"),
        ("factors_added", "factors_removed"),
        ("levels_added", "levels_removed"),
        ("rules_added", "rules_removed"),
        ("forbid_added", "forbid_removed"),
    ):
        assert list(getattr(there, added)) == list(getattr(back, removed))
        assert list(getattr(there, removed)) == list(getattr(back, added))
    assert there.default == (None if back.default is None else back.default[::-1])
    assert {(c.level, c.old, c.new) for c in there.weights} == {
        (c.level, c.new, c.old) for c in back.weights
    }
    assert [(c.old, c.new) for c in there.rules_changed] == [
        (c.new, c.old) for c in back.rules_changed
    ]
    assert back.mapping[there.mapping[there.kept]].tolist() == there.kept.tolist()
    assert there.is_empty == back.is_empty


@given(data=st.data())
@LOOSE
def test_the_terms_of_a_score_sum_to_it(data, artifact, any_contexts):
    context = data.draw(any_contexts)
    mask = mask_context(artifact.catalog, context).feasible
    scores = artifact.head.scores(artifact.schema.encode(context)[None])[0]
    action = data.draw(st.integers(0, len(mask) - 1))
    terms = contributions(artifact, context, action, mask)
    size = 1 + max(abs(term.logit) for term in terms)
    assert sum(t.logit for t in terms) == pytest.approx(scores[action], abs=1e-9 * size)
    lead = scores[action] - np.mean(scores[mask])
    assert sum(t.against_mean for t in terms) == pytest.approx(lead, abs=1e-9 * size)
