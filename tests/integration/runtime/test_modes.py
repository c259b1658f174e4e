"""Canaries, stops and pins through the serving process, down to the row."""

import math

import pytest
from scipy.stats import chi2

from canopy.domain.decision import Mode
from canopy.domain.errors import InputError
from canopy.domain.intervention import EVERY_DISCIPLINE
from canopy.domain.tenant import FLEET
from policy.modes import assign_arm
from runtime.registry import register_policy
from runtime.transitions import lower, set_share

pytestmark = pytest.mark.integration

CRAFT = "public_copy"
N_UNITS = 300


@pytest.fixture
def canary(served, database, make_policy):
    """Starts a canary of two policies; gives them and a way to move its share."""
    champion, candidate = make_policy(seed=1), make_policy(seed=2)
    for policy in (champion, candidate):
        register_policy(database, FLEET, policy.folder)

    def start(share, salt="first", control=champion):
        with database.unit_of_work(FLEET) as work:
            work.states.transition(
                CRAFT,
                champion=control and control.policy_id,
                candidate=candidate.policy_id,
                mode=Mode.CANARY,
                catalog_hash=candidate.catalog.content_hash,
                actor="test",
                reason="a test",
                action="promote",
                canary_salt=salt,
                canary_share=share,
            )
        served.runtime.pointers.sweep()

    start.champion, start.candidate = champion, candidate
    return start


def arms(served, asking, stage, units=N_UNITS):
    items = [asking(f"{stage}-{n}", unit_id=f"unit-{n}") for n in range(units)]
    answer = served.client.post("/v1/selections", json={"items": items}).json()["items"]
    return {f"unit-{n}": one for n, one in enumerate(answer)}


def test_a_ramp_only_ever_adds_units_to_the_treatment(served, asking, database, canary):
    canary(0.05)
    treated = []
    for share in (0.05, 0.20, 0.50, 1.0):
        with database.unit_of_work(FLEET) as work:
            set_share(work, CRAFT, share, actor="test", reason="the ramp")
        served.runtime.pointers.sweep()
        found = arms(served, asking, f"s{share}")
        treated.append({unit for unit, one in found.items() if one["arm"] == "treatment"})
        for one in found.values():
            assert one["mode"] == "canary"
            expected = canary.candidate if one["arm"] == "treatment" else canary.champion
            assert one["versions"]["policy"] == expected.policy_id
    assert treated[0] <= treated[1] <= treated[2] <= treated[3]
    assert [len(units) for units in treated] == sorted(len(units) for units in treated)
    assert len(treated[3]) == N_UNITS
    assert 0 < len(treated[0]) < N_UNITS / 5


def test_the_arms_share_and_the_propensity_given_the_arm_are_on_the_row(
    served, asking, database, canary
):
    canary(0.3)
    found = arms(served, asking, "one", 40)
    with database.unit_of_work("acme") as work:
        for one in found.values():
            row = work.decisions.get(one["decision_id"])
            assert row.arm_share == pytest.approx(0.3 if row.arm == "treatment" else 0.7)
            assert row.propensity == one["propensity"] > 0
            assert row.shadow_plan is None


def test_control_without_a_champion_is_the_doctrine_policy(served, asking, canary):
    canary(0.5, control=None)
    reasons = {one["arm"]: one["reasons"] for one in arms(served, asking, "one").values()}
    assert reasons == {"control": ["doctrine"], "treatment": ["drawn"]}


def test_the_arm_is_the_one_assigned_whatever_is_served(served, asking, database, canary):
    canary(0.5)
    before = {unit: one["arm"] for unit, one in arms(served, asking, "before", 60).items()}
    with database.unit_of_work(FLEET) as work:
        work.interventions.set_stop(CRAFT, is_on=True, actor="test", reason="a test")
    served.runtime.pointers.sweep()
    stopped = arms(served, asking, "stopped", 60)
    assert {one["reasons"][0] for one in stopped.values()} == {"killed"}
    assert {unit: one["arm"] for unit, one in stopped.items()} == before


def test_another_canary_assigns_its_units_afresh():
    units = [f"unit-{n}" for n in range(20_000)]
    counts = [[0, 0], [0, 0]]
    for unit in units:
        first = assign_arm(unit, "first", 0.3) == "treatment"
        second = assign_arm(unit, "second", 0.3) == "treatment"
        counts[first][second] += 1
    n = len(units)
    rows = [sum(row) for row in counts]
    columns = [counts[0][j] + counts[1][j] for j in (0, 1)]
    statistic = sum(
        (counts[i][j] - rows[i] * columns[j] / n) ** 2 / (rows[i] * columns[j] / n)
        for i in (0, 1)
        for j in (0, 1)
    )
    assert chi2.sf(statistic, 1) > 0.001
    assert math.isclose(columns[1] / n, 0.3, abs_tol=0.015)


@pytest.mark.parametrize(
    ("owner", "discipline"),
    [(FLEET, EVERY_DISCIPLINE), (FLEET, CRAFT), ("acme", EVERY_DISCIPLINE), ("acme", CRAFT)],
    ids=["everybody", "discipline", "tenant", "tenant and discipline"],
)
def test_a_stop_serves_the_default_plan_to_whom_it_concerns(
    served, database, catalog, owner, discipline
):
    served.select("warm-up").raise_for_status()
    with database.unit_of_work(owner) as work:
        work.interventions.set_stop(discipline, is_on=True, actor="test", reason="a test")
    served.runtime.pointers.sweep()
    stopped = served.select("stopped").json()
    assert (stopped["reasons"], stopped["propensity"]) == (["killed"], None)
    assert stopped["plan"] == catalog.plan_ids[catalog.default]
    other = served.select("other", tenant="globex").json()
    assert (other["reasons"] == ["killed"]) == (owner == FLEET)
    with database.unit_of_work(owner) as work:
        work.interventions.set_stop(discipline, is_on=False, actor="test", reason="it is over")
    served.runtime.pointers.sweep()
    assert served.select("resumed").json()["reasons"] == ["doctrine"]


def test_a_stop_set_before_a_tenant_was_ever_seen_holds_for_its_first_selection(served, database):
    with database.unit_of_work("newcomer") as work:
        work.interventions.set_stop(EVERY_DISCIPLINE, is_on=True, actor="test", reason="a test")
    assert served.select("first", tenant="newcomer").json()["reasons"] == ["killed"]


def test_a_pin_serves_its_plan_without_a_propensity_and_the_tenants_own_wins(served, database):
    served.select("warm-up").raise_for_status()
    for owner, plan in ((FLEET, "tone=plain,length=short"), ("acme", "tone=plain,length=medium")):
        with database.unit_of_work(owner) as work:
            work.interventions.set_pin(CRAFT, plan=plan, actor="test", reason="a test")
    served.runtime.pointers.sweep()
    own = served.select("own").json()
    assert (own["plan"], own["reasons"], own["propensity"]) == (
        "tone=plain,length=medium", ["pinned"], None,
    )  # fmt: skip
    assert served.select("other", tenant="globex").json()["plan"] == "tone=plain,length=short"


def test_a_pin_that_outlived_its_catalog_is_passed_over(served, database):
    with database.unit_of_work(FLEET) as work:
        work.interventions.set_pin(CRAFT, plan="tone=gone", actor="test", reason="a test")
    served.runtime.pointers.sweep()
    assert served.select("r").json()["reasons"] == ["doctrine"]


def test_lowering_a_canary_ends_it_and_keeps_the_champion(served, database, canary):
    canary(0.5)
    with database.unit_of_work(FLEET) as work:
        state = lower(work, CRAFT, Mode.OBSERVATION, actor="test", reason="harm")
    assert (state.mode, state.canary_share) == (Mode.OBSERVATION, None)
    assert state.champion == canary.champion.policy_id
    with database.unit_of_work(FLEET) as work:
        state = lower(work, CRAFT, None, actor="test", reason="harm")
    assert (state.candidate, state.champion) == (None, canary.champion.policy_id)


def test_lowering_a_champion_brings_back_the_one_before_it(database, make_policy, point):
    first, second = make_policy(seed=1), make_policy(seed=2)
    point(first)
    point(second)
    with database.unit_of_work(FLEET) as work:
        state = lower(work, CRAFT, Mode.OBSERVATION, actor="test", reason="harm")
    assert (state.champion, state.candidate) == (first.policy_id, second.policy_id)
    with database.unit_of_work(FLEET) as work:
        last = work.states.transitions(CRAFT)[-1]
    assert (last.action, last.reason, last.actor) == ("lower", "harm", "test")


@pytest.mark.parametrize("to", [Mode.ON, Mode.CANARY])
def test_what_is_not_less_is_not_lowering(database, make_policy, point, to):
    point(None, make_policy(seed=1), Mode.OBSERVATION)
    with database.unit_of_work(FLEET) as work, pytest.raises(InputError, match="is not less"):
        lower(work, CRAFT, to, actor="test", reason="a test")


def test_a_share_moves_only_while_a_canary_runs(database, make_policy, point):
    point(make_policy(seed=1))
    with database.unit_of_work(FLEET) as work, pytest.raises(InputError, match="no canary runs"):
        set_share(work, CRAFT, 0.5, actor="test", reason="a test")
