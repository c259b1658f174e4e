"""What people impose: any stop stops, the tenant's own pin wins, an owner replaces only its own."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canopy.domain.intervention import EVERY_DISCIPLINE, InterventionKind
from canopy.domain.tenant import FLEET
from canopy.storage.control_rows import InterventionRow
from runtime.interventions import NOTHING_IMPOSED, Interventions

OWNERS = (FLEET, "acme", "globex")
CRAFTS = ("copy", "audit")


def stop(owner, discipline):
    return row(owner, discipline, InterventionKind.STOP, None)


def pin(owner, discipline, plan):
    return row(owner, discipline, InterventionKind.PIN, plan)


def row(owner, discipline, kind, plan):
    return InterventionRow(
        owner, discipline, kind, 1, True, plan, "test", "a test", datetime(2026, 1, 1, tzinfo=UTC)
    )


def held(*rows):
    interventions = Interventions()
    for owner in {one.tenant_id for one in rows}:
        interventions.replace(owner, rows)
    return interventions


@pytest.mark.parametrize(
    ("owner", "discipline"),
    [(FLEET, EVERY_DISCIPLINE), (FLEET, "copy"), ("acme", EVERY_DISCIPLINE), ("acme", "copy")],
    ids=["everybody", "discipline", "tenant", "tenant and discipline"],
)
def test_a_stop_concerns_its_owner_and_discipline_alone(owner, discipline):
    interventions = held(stop(owner, discipline))
    assert interventions.on("acme", "copy").is_stopped
    assert interventions.on("globex", "copy").is_stopped == (owner == FLEET)
    assert interventions.on("acme", "audit").is_stopped == (discipline == EVERY_DISCIPLINE)


def test_the_tenants_own_pin_wins_over_the_fleets():
    interventions = held(pin(FLEET, "copy", "theirs"), pin("acme", "copy", "own"))
    assert interventions.on("acme", "copy").pin == "own"
    assert interventions.on("globex", "copy").pin == "theirs"
    assert interventions.on("acme", "audit") == NOTHING_IMPOSED


def test_a_pin_does_not_hide_a_stop():
    imposed = held(stop(FLEET, EVERY_DISCIPLINE), pin("acme", "copy", "own")).on("acme", "copy")
    assert imposed == (True, "own")


def test_an_owner_that_imposes_nothing_any_more_is_let_go():
    interventions = held(stop("acme", "copy"), stop(FLEET, "audit"))
    interventions.replace("acme", [stop(FLEET, "audit")])
    assert not interventions.on("acme", "copy").is_stopped
    assert interventions.on("acme", "audit").is_stopped


@given(
    st.sets(st.tuples(st.sampled_from(OWNERS), st.sampled_from((EVERY_DISCIPLINE, *CRAFTS)))),
    st.dictionaries(
        st.tuples(st.sampled_from(OWNERS), st.sampled_from(CRAFTS)), st.sampled_from("pqr")
    ),
)
def test_what_is_imposed_is_what_the_rows_say(stops, pins):
    interventions = held(*(stop(*key) for key in stops), *(pin(*k, v) for k, v in pins.items()))
    for tenant in OWNERS:
        for discipline in CRAFTS:
            concerning = {
                (owner, craft)
                for owner in (FLEET, tenant)
                for craft in (EVERY_DISCIPLINE, discipline)
            }
            expected = (
                bool(stops & concerning),
                pins.get((tenant, discipline), pins.get((FLEET, discipline))),
            )
            assert interventions.on(tenant, discipline) == expected
