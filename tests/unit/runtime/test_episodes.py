"""The row of a decision, and what is read back from it."""

from uuid import UUID

import numpy as np
import pytest

from canopy.domain.clock import now
from canopy.domain.ids import content_hash
from policy.catalog import parse_catalog
from policy.selector import Choice, select_many
from runtime.episodes import (
    by_plan,
    decision_row,
    draw_key,
    masked_plans,
    stored_mask,
    stored_vector,
)


def row_for(ask, catalog):
    choice = Choice(
        catalog=catalog, context=ask.context, key=ask.key, allowed=ask.allowed,
        override=ask.override,
    )  # fmt: skip
    (decision,) = select_many([choice])
    return decision, decision_row(ask, decision, decision_id=UUID(int=7), decided_at=now())


def test_a_row_gives_back_the_distribution_and_the_mask_to_the_bit(make_ask, catalog):
    decision, row = row_for(make_ask(context={"budget": 1}), catalog)
    assert stored_vector(row.logging).tobytes() == np.asarray(decision.distribution).tobytes()
    assert stored_mask(row).tolist() == list(decision.mask)
    assert by_plan(row.logging, catalog.plan_ids)[row.plan] == row.propensity


@pytest.mark.parametrize(("n_plans", "is_whole"), [(256, True), (257, False)])
def test_distributions_are_whole_up_to_256_plans_and_a_digest_above(make_ask, n_plans, is_whole):
    levels = ", ".join(f"l{n}" for n in range(n_plans))
    catalog = parse_catalog(
        f"discipline: d\nversion: 1\nfactors:\n  f: {{levels: [{levels}]}}\ndefault: f=l0\n", "x"
    )
    decision, row = row_for(make_ask(), catalog)
    raw = np.asarray(decision.distribution, dtype="<f8").tobytes()
    assert row.logging == (raw if is_whole else None)
    assert row.logging_digest == (None if is_whole else content_hash(raw))
    assert row.n_plans == n_plans
    assert stored_mask(row).all()


def test_every_masked_plan_has_its_reason_and_reasons_are_counted(make_ask, catalog):
    allowed = ("tone=warm,length=short", "tone=warm,length=long")
    _, row = row_for(make_ask(context={"budget": 1}, allowed=allowed), catalog)
    found = masked_plans(row, catalog)
    assert found.n_masked == 5
    assert found.by_reason == {"long texts need a budget of 3": 2, "not allowed by the caller": 3}
    assert dict(found.shown)["tone=warm,length=long"] == "long texts need a budget of 3"


def test_an_imposed_plan_leaves_no_distribution(make_ask, catalog):
    _, row = row_for(make_ask(override="tone=plain,length=long"), catalog)
    assert (row.logging, row.logging_digest, row.propensity) == (None, None, None)
    assert by_plan(row.logging, catalog.plan_ids) is None


def test_two_requests_never_share_a_key():
    assert draw_key("a", "b:c") != draw_key("a:b", "c")
    assert draw_key("1:a", "b") != draw_key("1", "a:b")
    assert draw_key("a", "b") == draw_key("a", "b")
