"""Weights of factor levels: hand-worked values, joint sums by brute force, what is refused."""

import numpy as np
import pytest

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.estimators import (
    doubly_robust,
    ips,
    marginal_dr,
    marginal_weight,
    marginalized_ips,
    unsupported_mass,
)
from eval.intervals import unit_interval

FACTOR = np.array([[0], [0], [1]])

TWO_BINARY = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])


def test_the_hand_worked_log_gives_its_marginal_values(golden):
    weight = marginal_weight(golden.target, golden.logging, FACTOR, golden.action)
    assert weight == pytest.approx([1.125, 0.25, 2.4, 1, 0.777778], abs=1e-6)
    assert marginalized_ips(golden.reward, weight).value == pytest.approx(0.670556, abs=1e-6)
    found = marginal_dr(golden.reward, weight, *golden.model)
    assert found.value == pytest.approx(0.578667, abs=1e-6)


def test_joint_weights_are_no_product_of_the_factors_own():
    # One factor at a time the two policies agree; together they never do.
    logging, target = np.array([[0.4, 0.1, 0.1, 0.4]] * 4), np.array([[0.1, 0.4, 0.4, 0.1]] * 4)
    joint = marginal_weight(target, logging, TWO_BINARY, np.arange(4))
    assert joint == pytest.approx([0.25, 4, 4, 0.25])
    for factor in (0, 1):
        alone = marginal_weight(target, logging, TWO_BINARY[:, [factor]], np.arange(4))
        assert alone == pytest.approx(np.ones(4))


def test_all_factors_give_the_importance_weight(golden):
    plans = np.arange(3)[:, None]
    weight = marginal_weight(golden.target, golden.logging, plans, golden.action)
    assert weight == pytest.approx(golden.weight, rel=1e-15)


def test_no_factor_gives_one_everywhere(golden):
    nothing = np.empty((3, 0))
    weight = marginal_weight(golden.target, golden.logging, nothing, golden.action)
    assert (weight == 1).all()
    assert marginalized_ips(golden.reward, weight).value == pytest.approx(golden.reward.mean())


def test_masked_plans_lend_their_levels_no_weight(golden):
    weight = marginal_weight(
        golden.target, golden.logging, FACTOR, golden.action, mask=golden.logging > 0
    )
    assert weight[3] == 1


def test_dropped_rows_are_divided_by_the_decisions_they_stand_for(golden):
    k = golden.keep
    arrays = golden.target, golden.logging, FACTOR, golden.action
    weight = marginal_weight(*arrays, keep_prob=k)
    plain = marginal_weight(*arrays)
    assert weight == pytest.approx(plain / k)
    assert (
        marginal_weight(*arrays[:2], np.empty((3, 0)), golden.action, keep_prob=k) == 1 / k
    ).all()
    found = marginalized_ips(golden.reward, weight, keep_prob=k)
    assert found.value == pytest.approx((plain * golden.reward / k).sum() / 9)
    q, m = golden.model
    found = marginal_dr(golden.reward, weight, q, m, keep_prob=k, n_decisions=9)
    assert found.value == pytest.approx(((m + plain * (golden.reward - q)) / k).sum() / 9)


def test_diagnostics_are_those_of_the_levels(golden):
    weight = marginal_weight(golden.target, golden.logging, FACTOR, golden.action)
    found = marginalized_ips(golden.reward, weight)
    assert found.ess == pytest.approx(weight.sum() ** 2 / np.square(weight).sum())
    assert found.max_weight == pytest.approx(2.4)
    assert found.ess > ips(golden.reward, golden.weight).ess


def test_the_estimators_over_levels_are_the_plain_ones_with_other_weights(golden):
    weight = marginal_weight(golden.target, golden.logging, FACTOR, golden.action)
    units = list("AABBC")
    for one, other in (
        (marginalized_ips(golden.reward, weight), ips(golden.reward, weight)),
        (
            marginal_dr(golden.reward, weight, *golden.model),
            doubly_robust(golden.reward, weight, *golden.model),
        ),
    ):
        assert one.contributions == pytest.approx(other.contributions)
        error = unit_interval(one.contributions, units).std_err
        sums = np.array([
            (one.contributions - one.value)[rows].sum() for rows in ([0, 1], [2, 3], [4])
        ])
        assert error == pytest.approx(np.sqrt(3 / 2 * np.square(sums).sum()) / 5)


def test_mass_that_no_plan_of_the_levels_covers_is_unsupported():
    target, logging = np.array([[0.25] * 4] * 2), np.array([[0.5, 0, 0.5, 0], [0.5, 0.5, 0, 0]])
    assert unsupported_mass(target, logging) == pytest.approx([0.5, 0.5])
    first = TWO_BINARY[:, [0]]
    assert unsupported_mass(target, logging, first) == pytest.approx([0, 0.5])
    assert unsupported_mass(target, logging, TWO_BINARY) == pytest.approx([0.5, 0.5])
    assert unsupported_mass(target, logging, np.empty((4, 0))) == pytest.approx([0, 0])


def brute_force(target, logging, levels, taken):
    weight = []
    for pi_e, pi_b, action in zip(target, logging, taken, strict=True):
        alike = [b for b in range(len(levels)) if tuple(levels[b]) == tuple(levels[action])]
        weight.append(sum(pi_e[b] for b in alike) / sum(pi_b[b] for b in alike))
    return weight


@pytest.mark.parametrize("n_factors", [1, 2, 3])
def test_weights_agree_with_sums_plan_by_plan(n_factors):
    rng = np.random.default_rng(n_factors)
    n, n_plans = 60, 24
    levels = rng.integers(-1, 2, (n_plans, n_factors))
    mask = rng.random((n, n_plans)) < 0.7
    mask[:, 0] = True
    logging, target = (np.where(mask, rng.exponential(size=(n, n_plans)), 0) for _ in range(2))
    logging, target = (p / p.sum(axis=1, keepdims=True) for p in (logging, target))
    taken = np.array([rng.choice(n_plans, p=p) for p in logging])
    weight = marginal_weight(target, logging, levels, taken, mask=mask)
    assert weight == pytest.approx(brute_force(target, logging, levels, taken), rel=1e-12)


def sound(**changes):
    arrays = {
        "target": [[0.5, 0.5], [0.2, 0.8]],
        "logging": [[0.9, 0.1], [0.5, 0.5]],
        "factor_levels": [[0], [1]],
        "taken": [0, 1],
    }
    return marginal_weight(**(arrays | changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"target": [[0.5, 0.5], [0.2, 0.7]]}, RangeError, "target, row 2: expected a sum of 1"),
        ({"target": [[0.5, 0.5], [-0.2, 1.2]]}, RangeError, "target, row 2.*plan 0"),
        ({"target": [[0.5, 0.5], [np.nan, 1]]}, RangeError, "target, row 2: .* from 0 to 1"),
        ({"target": [0.5, 0.5]}, ShapeMismatchError, "target"),
        ({"logging": [[1.0], [1.0]]}, ShapeMismatchError, r"logging has shape \(2, 1\)"),
        ({"logging": [[0.9, 0.1], [0.5, 0.4]]}, RangeError, "logging, row 2: expected a sum of 1"),
        ({"logging": [[0, 1], [0.5, 0.5]]}, RangeError, "logging, row 1: .* of the plan taken"),
        ({"factor_levels": [[0]]}, ShapeMismatchError, "factor_levels"),
        ({"factor_levels": [0, 1]}, ShapeMismatchError, r"factor_levels has shape \(2,\)"),
        ({"factor_levels": [[0], [np.nan]]}, RangeError, "factor_levels, row 2"),
        ({"taken": [0, 2]}, RangeError, "taken, row 2: expected a plan from 0 to 1"),
        ({"taken": [-1, 1]}, RangeError, "taken, row 1: expected a plan from 0 to 1"),
        ({"taken": [0.5, 1]}, RangeError, "taken, row 1: .* got 0.5"),
        ({"taken": [0]}, ShapeMismatchError, "taken"),
        ({"mask": [[1, 0], [1, 1]]}, RangeError, "target, row 1: expected 0 where a plan is mask"),
        ({"mask": [[0, 0], [1, 1]]}, RangeError, "mask, row 1: expected at least one feasible"),
        ({"mask": [[1, 1]]}, ShapeMismatchError, "mask"),
        ({"keep_prob": [0, 1]}, RangeError, "keep_prob, row 1"),
    ],
)
def test_arrays_that_do_not_fit_raise_and_name_the_row(changes, error, message):
    assert sound().tolist() == pytest.approx([0.5 / 0.9, 1.6])
    with pytest.raises(error, match=message):
        sound(**changes)


@pytest.mark.parametrize(
    ("weight", "reason"),
    [([], "no data"), ([0, 0, 0], "every weight is 0"), ([1e21, 1, 1], "too little overlap")],
)
def test_levels_that_never_meet_are_refused(weight, reason):
    reward = np.full(len(weight), 0.5)
    for found in (marginalized_ips(reward, weight), marginal_dr(reward, weight, reward, reward)):
        assert found.value is None
        assert reason in found.reason
