"""Laws of `select`: over any catalog, policy, mask, floor, mode, arm, pin and failure."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from scipy import stats

from canopy.domain.decision import Reason
from policy.catalog import parse_catalog
from policy.distributions import picked
from policy.kernel import SHADOW_SUFFIX
from policy.masks import mask_context
from policy.selector import Choice, draw, select, select_many, uniform
from tests.property.policy.worlds import CONTEXTS, catalogs, choices, content, policies

LOOSE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
DRAWN = {Reason.DRAWN, Reason.DOCTRINE}
N_DRAWS = 100_000


def one(choice):
    """A choice made by `select`."""
    return select(**{name: getattr(choice, name) for name in Choice.__dataclass_fields__})


def is_distribution(row, mask, floor):
    """Whether a vector is a distribution over the feasible plans, each at its floor or above."""
    row, mask = np.asarray(row), np.asarray(mask)
    return (
        abs(math.fsum(row) - 1.0) <= 1e-12
        and not row[~mask].any()
        and row[mask].min() >= floor / mask.sum() * (1 - 1e-15)
        and row.max() <= 1.0
    )


@given(choices())
@LOOSE
def test_what_is_drawn_is_a_distribution_over_the_feasible_plans(choice):
    decision = one(choice)
    event(decision.reasons[0].value)
    if decision.distribution is not None:
        assert is_distribution(decision.distribution, decision.mask, decision.floor)
        assert decision.mask[decision.action]
    if decision.shadow is not None:
        assert is_distribution(decision.shadow, decision.mask, choice.candidate.floor)


@given(choices())
@LOOSE
def test_the_propensity_is_that_of_the_plan_drawn_or_absent(choice):
    decision = one(choice)
    is_drawn = decision.reasons[0] in DRAWN
    assert decision.served is is_drawn
    assert (decision.propensity is None) is (decision.distribution is None) is (not is_drawn)
    if is_drawn:
        assert decision.propensity == decision.distribution[decision.action] > 0
        assert decision.reasons[0] is (Reason.DOCTRINE if choice.artifact is None else Reason.DRAWN)
    assert decision.plan == choice.catalog.plan_ids[decision.action]
    assert (decision.versions.policy is None) is (not is_drawn or choice.artifact is None)
    assert (decision.mode, decision.arm, decision.arm_share) == (
        choice.mode, choice.arm, choice.arm_share,
    )  # fmt: skip


@given(choices())
@LOOSE
def test_what_imposes_a_plan_comes_in_its_order(choice):
    decision, default = one(choice), choice.catalog.plan_ids[choice.catalog.default]
    expected = [
        (choice.killed, Reason.KILLED, default),
        (choice.override is not None, Reason.OVERRIDDEN, choice.override),
        (choice.pinned is not None, Reason.PINNED, choice.pinned),
        (choice.unavailable, Reason.POLICY_UNAVAILABLE, default),
        (choice.suspended, Reason.POLICY_SUSPENDED, default),
        (not decision.mask.any(), Reason.NO_FEASIBLE_PLAN, default),
    ]
    first = next(((reason, plan) for holds, reason, plan in expected if holds), None)
    if first is not None:
        assert (decision.reasons[0], decision.plan) == first
    elif decision.reasons[0] not in DRAWN:
        assert decision.reasons[0] in {Reason.NON_FINITE_SCORES, Reason.POLICY_FAILED}
        assert decision.plan == default


@given(st.data())
@LOOSE
def test_a_batch_has_the_bits_of_single_selections(data):
    catalog = data.draw(catalogs())
    policy = data.draw(policies(catalog))
    asked = [
        *data.draw(st.lists(choices(catalog), max_size=3)),
        *[
            Choice(catalog, context, f"k{i}", policy, candidate=policy)
            for i, context in enumerate(data.draw(st.lists(CONTEXTS, max_size=5)))
        ],
        *data.draw(st.lists(choices(), max_size=2)),
    ]
    decisions = select_many(asked)
    assert [content(decision) for decision in decisions] == [content(one(c)) for c in asked]


@given(choices())
@LOOSE
def test_a_decision_is_replayed_from_what_is_recorded(choice):
    decision = one(choice)
    assert decision.u == uniform(choice.key)
    if decision.distribution is not None:
        stored = np.frombuffer(decision.distribution.tobytes(), dtype="<f8")
        assert draw(stored, decision.u) == decision.action
    if decision.shadow is not None:
        action = draw(decision.shadow, uniform(choice.key + SHADOW_SUFFIX))
        assert choice.catalog.plan_ids[action] == decision.shadow_plan
    assert content(one(choice)) == content(decision)


@given(choices())
@LOOSE
def test_a_candidate_never_touches_what_is_served(choice):
    watched, alone = one(choice), one(replace(choice, candidate=None))
    assert content(watched)[:8] == content(alone)[:8]
    assert content(watched)[9:13] == content(alone)[9:13]
    assert alone.reasons == watched.reasons[:1]
    assert watched.reasons[1:] in {(), (Reason.SHADOW_FAILED,)}
    is_asked = choice.candidate is not None and bool(watched.mask.any())
    assert (watched.shadow is not None) is (is_asked and len(watched.reasons) == 1)
    if is_asked and choice.candidate.catalog is not choice.catalog:
        assert watched.reasons[1:] == (Reason.SHADOW_FAILED,)


@given(choices())
@LOOSE
def test_nothing_done_afterwards_changes_what_was_recorded(choice):
    # ReAgent 555: one mask buffer, used again, made all stored masks equal to the last.
    decision = one(choice)
    before = content(decision)
    choice.context["n"], choice.context["t"] = 1e9, "z"
    choice.context.pop("more", [0])[0] = 2
    if choice.allowed is not None:
        choice.allowed.clear()
    one(choice)
    assert content(decision) == before
    for vector in (decision.mask, decision.distribution, decision.shadow):
        if vector is not None:
            with pytest.raises(ValueError, match="read-only"):
                vector[0] = vector[0]
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        decision.mask.setflags(write=True)


@given(choices())
@LOOSE
def test_the_mask_is_that_of_the_rules_within_what_is_allowed(choice):
    mask = mask_context(choice.catalog, choice.context, choice.allowed)
    decision = one(choice)
    assert decision.mask.tobytes() == mask.feasible.tobytes()
    if choice.allowed is not None:
        feasible = {choice.catalog.plan_ids[a] for a in np.flatnonzero(decision.mask)}
        assert feasible <= set(choice.allowed)


CASES = {
    "doctrine": (False, {"n": -2.0, "f": False, "t": "x", "s": ["p"]}),
    "doctrine, narrowed": (False, {"n": 3.0, "f": True, "t": "x"}),
    "learned": (True, {"n": -2.0, "f": False, "t": "x", "s": ["p"]}),
    "learned, narrowed": (True, {"n": 3.0, "f": True, "t": "x"}),
    "learned, missing": (True, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_hundred_thousand_draws_agree_with_the_distribution(name, artifact):
    is_learned, context = CASES[name]
    policy = artifact if is_learned else None
    counts = np.zeros(artifact.catalog.n_plans)
    row = None
    for start in range(0, N_DRAWS, 1000):
        for decision in select_many([
            Choice(artifact.catalog, context, f"{name}-{i}", policy)
            for i in range(start, start + 1000)
        ]):
            counts[decision.action] += 1
            row = np.asarray(decision.distribution)
    possible = row > 0
    assert not counts[~possible].any()
    assert possible.sum() > 1
    test = stats.chisquare(counts[possible], N_DRAWS * row[possible] / row[possible].sum())
    assert test.pvalue > 0.001


@pytest.mark.parametrize("n", [10, 5000])
@pytest.mark.parametrize("n_masked", [1, 300])
def test_a_sum_that_rounding_left_below_u_lands_on_a_feasible_plan(n, n_masked):
    row = np.concatenate([np.full(n, 1.0 / n), np.zeros(n_masked)])
    u = math.nextafter(1.0, 0.0)
    row[: n - 1] *= 1.0 - 1e-10
    assert row.cumsum()[-1] <= u
    assert draw(row, u) == picked(row, u) == n - 1


def test_ten_tenths_add_up_to_less_than_the_largest_u():
    row = np.array([0.1] * 10 + [0.0])
    u = math.nextafter(1.0, 0.0)
    assert row.cumsum()[-1] == u
    assert draw(row, u) == 9


@given(st.integers(1, 12), st.floats(0, 1), st.integers(0, 2**16))
@LOOSE
def test_the_only_feasible_plan_is_certain(n, floor, seed):
    rng = np.random.default_rng(seed)
    levels = ", ".join(f"l{i}" for i in range(n))
    catalog = parse_catalog(
        f"discipline: d\nversion: 1\nfactors: {{a: {{levels: [{levels}]}}}}\ndefault: a=l0\n"
    )
    plan = catalog.plan_ids[int(rng.integers(n))]
    decision = select(
        catalog=catalog, artifact=None, context={}, key=str(seed), allowed=[plan], floor=floor
    )
    assert (decision.plan, decision.propensity) == (plan, 1.0)
