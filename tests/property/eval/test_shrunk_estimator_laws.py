"""What estimators with cut, shrunk or shared weights owe, whatever the log."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.estimators import (
    balanced_weight,
    clipped_ips,
    direct_method,
    doubly_robust,
    dr_shrinkage,
    ips,
    marginal_weight,
    sub_gaussian_ips,
    switch,
    switch_dr,
    unsupported_mass,
)

SHARES = st.floats(0.05, 1.0)
RANGE = (0.0, 1.0)


@st.composite
def logs(draw, n_plans=4):
    """Rows over a few plans: everything an estimator may want, a mask among it."""
    n = draw(st.integers(2, 15))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    mask = rng.random((n, n_plans)) < 0.8
    mask[:, 0] = True
    logging, target = (
        rng.dirichlet(np.full(n_plans, draw(SHARES) * 3), n) * mask + 1e-3 * mask for _ in range(2)
    )
    logging /= logging.sum(axis=1, keepdims=True)
    target /= target.sum(axis=1, keepdims=True)
    taken = (logging.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_plans - 1)
    taken = np.where(mask[np.arange(n), taken], taken, 0)
    q = np.where(mask, rng.random((n, n_plans)), np.nan)
    picked = np.arange(n), taken
    return {
        "reward": rng.random(n).round(2),
        "logging": logging,
        "target": target,
        "taken": taken,
        "q_all": q,
        "mask": mask,
        "weight": target[picked] / logging[picked],
        "q": q[picked],
        "m": (target * np.nan_to_num(q)).sum(axis=1),
    }


def modelled(log):
    return log["reward"], log["weight"], log["q"], log["m"]


def mean(found):
    """The value, whether or not the overlap would let it be believed."""
    return found.contributions.mean()


@given(logs(), st.floats(0, 30))
def test_cut_estimators_lie_within_their_stated_bias_of_the_uncut_one(log, cut):
    plain = mean(doubly_robust(*modelled(log)))
    for found in (
        switch_dr(*modelled(log), cut, reward_range=RANGE),
        dr_shrinkage(*modelled(log), cut, reward_range=RANGE),
        dr_shrinkage(*modelled(log), cut, shrinkage="pessimistic", reward_range=RANGE),
    ):
        assert abs(mean(found) - plain) <= found.bias_bound + 1e-9
    clipped = clipped_ips(log["reward"], log["weight"], cut)
    assert abs(mean(clipped) - mean(ips(log["reward"], log["weight"]))) <= clipped.bias_bound + 1e-9


@given(logs())
def test_limits_are_the_estimators_they_stand_for(log):
    dm, dr = mean(direct_method(log["m"])), mean(doubly_robust(*modelled(log)))
    plain = mean(ips(log["reward"], log["weight"]))
    for estimator in (switch_dr, dr_shrinkage):
        assert mean(estimator(*modelled(log), np.inf)) == pytest.approx(dr)
        assert mean(estimator(*modelled(log), 0.0)) == pytest.approx(dm)
    assert mean(sub_gaussian_ips(log["reward"], log["weight"], 0.0)) == pytest.approx(plain)
    rows = {name: log[name] for name in ("reward", "target", "logging", "taken", "q_all")}
    assert mean(switch(**rows, tau=np.inf, mask=log["mask"])) == pytest.approx(plain)
    assert mean(switch(**rows, tau=0.0, mask=log["mask"])) == pytest.approx(dm)


@given(logs(), st.floats(0, 1), st.floats(0.01, 50))
def test_shrunk_weights_keep_their_bounds(log, share, lam):
    ones = np.ones(len(log["reward"]))
    harmonic = sub_gaussian_ips(ones, log["weight"], share).contributions
    assert (harmonic <= max(1.0, 1 / share if share else np.inf) + 1e-9).all()
    optimistic = dr_shrinkage(ones, log["weight"], 0 * ones, 0 * ones, lam).contributions
    assert (optimistic <= np.sqrt(lam) / 2 + 1e-9).all()
    assert (optimistic <= log["weight"] + 1e-9).all()


@given(logs(), st.permutations(range(4)))
def test_the_order_of_plans_means_nothing(log, order):
    levels = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    found = marginal_weight(log["target"], log["logging"], levels[:, :1], log["taken"])
    place = np.argsort(order)
    again = marginal_weight(
        log["target"][:, order], log["logging"][:, order], levels[order, :1], place[log["taken"]]
    )
    assert again == pytest.approx(found)


@given(logs())
def test_weights_of_levels_lie_between_those_of_their_plans(log):
    levels = np.array([[0], [0], [1], [1]])
    found = marginal_weight(log["target"], log["logging"], levels, log["taken"], mask=log["mask"])
    with np.errstate(invalid="ignore"):
        each = log["target"] / log["logging"]
    same = levels[log["taken"]] == levels.T
    most = np.where(same & log["mask"], each, -np.inf).max(axis=1)
    least = np.where(same & log["mask"], each, np.inf).min(axis=1)
    assert (found <= most + 1e-9).all()
    assert (found >= least - 1e-9).all()
    everything = marginal_weight(log["target"], log["logging"], np.eye(4), log["taken"])
    assert everything == pytest.approx(log["weight"])


@given(logs())
def test_coarser_levels_never_leave_more_of_the_target_unsupported(log):
    logging = log["logging"].copy()
    logging[:, 3] = 0
    logging /= logging.sum(axis=1, keepdims=True)
    by_plan = unsupported_mass(log["target"], logging)
    by_level = unsupported_mass(log["target"], logging, np.array([[0], [0], [1], [1]]))
    everything = unsupported_mass(log["target"], logging, np.zeros((4, 1)))
    assert (by_level <= by_plan + 1e-12).all()
    assert everything == pytest.approx(0)


@given(logs(), st.integers(1, 9), st.integers(1, 9))
def test_balanced_weights_lie_between_those_of_the_loggers(log, n_first, n_second):
    picked = np.arange(len(log["reward"])), log["taken"]
    first = log["logging"][picked]
    second = np.full(len(first), 0.25)
    target = log["target"][picked]
    found = balanced_weight(target, np.stack([first, second], axis=1), [n_first, n_second])
    low, high = (
        np.minimum(target / first, target / second),
        np.maximum(target / first, target / second),
    )
    assert (found <= high + 1e-9).all()
    assert (found >= low - 1e-9).all()
