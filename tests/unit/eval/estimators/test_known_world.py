"""Exact expectations: logs in which every frequency IS its probability, so nothing is simulated."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.estimators import (
    balanced_weight,
    clipped_ips,
    direct_method,
    doubly_robust,
    dr_shrinkage,
    expected_reward,
    importance_weight,
    ips,
    marginal_dr,
    marginal_weight,
    marginalized_ips,
    self_normalized_dr,
    snips,
    sub_gaussian_ips,
    switch,
    switch_dr,
    unsupported_mass,
)

LEVELS = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
N_CONTEXTS, N_PLANS, PER_CONTEXT, FINE = 3, 6, 20, 16

seeds = st.integers(0, 10**6)


@dataclass(frozen=True)
class Population:
    """A log of every decision, as often as it happens; q is the true reward of every plan."""

    reward: np.ndarray
    action: np.ndarray
    target: np.ndarray
    logging: np.ndarray
    q: np.ndarray
    guess: np.ndarray
    context: np.ndarray
    keep: np.ndarray

    @property
    def value(self):
        return (self.target * self.q).sum(axis=1).mean()

    @property
    def taken(self):
        return np.arange(len(self.action)), self.action

    @property
    def weight(self):
        return importance_weight(self.target[self.taken], self.logging[self.taken])

    @property
    def model(self):
        return self.guess[self.taken], expected_reward(self.target, self.guess)

    def thinned(self):
        """The log after rows were dropped, in exact proportion to their keep probability."""
        kept = np.zeros(len(self.reward), dtype=bool)
        cell = np.stack([self.context, self.action, self.reward, self.keep], axis=1)
        for rows in np.unique(cell, axis=0):
            members = np.flatnonzero((cell == rows).all(axis=1))
            kept[members[: round(len(members) * rows[3])]] = True
        return Population(*(getattr(self, name)[kept] for name in self.__dataclass_fields__))


def population(seed, *, by_levels=False, unsupported=False):
    """A random world: masks, logging and target policies, rewards, a wrong reward model."""
    rng = np.random.default_rng(seed)
    mask = rng.random((N_CONTEXTS, N_PLANS)) < 0.8
    mask[:, 0] = True
    parts = []
    for x in range(N_CONTEXTS):
        feasible = np.flatnonzero(mask[x])
        logged = feasible[: max(1, len(feasible) - unsupported)]
        extra = rng.multinomial(PER_CONTEXT - len(logged), rng.dirichlet(np.ones(len(logged))))
        counts = np.zeros(N_PLANS, dtype=int)
        counts[logged] = 1 + extra
        shares = rng.integers(0, 5, 2)[LEVELS[:, 0]] if by_levels else rng.integers(0, 5, N_PLANS)
        target = np.where(mask[x], rng.dirichlet(np.full(N_PLANS, 0.5)) + 1e-3, 0)
        guess = np.where(mask[x], rng.random(N_PLANS), np.nan)
        if by_levels:
            # Wrong, but right about what tells plans of equal levels apart: nothing does.
            guess = np.where(mask[x], rng.random(2)[LEVELS[:, 0]], np.nan)
        keep_of = rng.choice([1, 0.5, 0.25], (N_PLANS, 2))
        for a in np.flatnonzero(counts):
            n = counts[a] * FINE
            reward = (np.arange(n) < n * shares[a] // 4).astype(float)
            parts.append((
                reward,
                np.full(n, a),
                np.tile(target / target.sum(), (n, 1)),
                np.tile(counts / PER_CONTEXT, (n, 1)),
                np.tile(shares / 4, (n, 1)),
                np.tile(guess, (n, 1)),
                np.full(n, x),
                keep_of[a, reward.astype(int)],
            ))
    return Population(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def unbiased(log, **keywords):
    """Estimators that no model and no parameter can mislead, on the log."""
    k = keywords.get("keep_prob", 1)
    r, w = log.reward, log.weight / k
    return {
        "ips": ips(r, w, **keywords),
        "clipped at infinity": clipped_ips(r, w, np.inf, **keywords),
        "snips": snips(r, w, **keywords),
        "dr": doubly_robust(r, w, *log.model, **keywords),
        "sndr": self_normalized_dr(r, w, *log.model, **keywords),
        "switch at infinity": switch_dr(r, w, *log.model, np.inf, **keywords),
        "unshrunk": dr_shrinkage(r, w, *log.model, np.inf, **keywords),
        "sub-gaussian at 0": sub_gaussian_ips(r, w, 0, **keywords),
    }


def has_a_value(found):
    """Overlap was enough; weights that are not are another test's matter."""
    return found.status == "ok"


@given(seeds)
@settings(max_examples=60)
def test_unbiased_estimators_have_the_value_as_their_expectation(seed):
    log = population(seed)
    for name, found in unbiased(log).items():
        if has_a_value(found):
            assert found.value == pytest.approx(log.value, abs=1e-12), name


@given(seeds)
@settings(max_examples=60)
def test_rows_dropped_by_what_happened_change_no_expectation(seed):
    log = population(seed)
    kept = log.thinned()
    assert len(kept.reward) < len(log.reward)
    for name, found in unbiased(kept, keep_prob=kept.keep).items():
        if has_a_value(found):
            assert found.value == pytest.approx(log.value, abs=1e-12), name


@given(seeds)
@settings(max_examples=60)
def test_levels_suffice_where_the_reward_depends_on_them_alone(seed):
    log = population(seed, by_levels=True)
    first = LEVELS[:, [0]]
    weight = marginal_weight(log.target, log.logging, first, log.action)
    for found in (
        marginalized_ips(log.reward, weight),
        marginal_dr(log.reward, weight, *log.model),
    ):
        if has_a_value(found):
            assert found.value == pytest.approx(log.value, abs=1e-12)
    kept = log.thinned()
    weight = marginal_weight(kept.target, kept.logging, first, kept.action, keep_prob=kept.keep)
    found = marginal_dr(kept.reward, weight, *kept.model, keep_prob=kept.keep)
    if has_a_value(found):
        assert found.value == pytest.approx(log.value, abs=1e-12)


@given(seeds)
@settings(max_examples=40)
def test_differences_within_levels_are_all_that_marginal_dr_needs_of_its_model(seed):
    log = population(seed)
    shift = np.random.default_rng(seed).normal(size=2)[LEVELS[:, 0]]
    guess = log.q + shift
    weight = marginal_weight(log.target, log.logging, LEVELS[:, [0]], log.action)
    found = marginal_dr(log.reward, weight, guess[log.taken], expected_reward(log.target, guess))
    if has_a_value(found):
        assert found.value == pytest.approx(log.value, abs=1e-12)


@given(seeds, st.floats(0, 12))
@settings(max_examples=60)
def test_switching_takes_the_models_word_beyond_tau_and_no_other(seed, tau):
    log = population(seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(log.target > 0, log.target / log.logging, 0)
    believed = np.where(ratio <= tau, log.q, np.nan_to_num(log.guess))
    expected = (log.target * believed).sum(axis=1).mean()
    for found in (
        switch_dr(log.reward, log.weight, *log.model, tau),
        switch(log.reward, log.target, log.logging, log.action, log.guess, tau),
    ):
        if has_a_value(found):
            assert found.value == pytest.approx(expected, abs=1e-12)
    kept = log.thinned()
    for found in (
        switch_dr(kept.reward, kept.weight / kept.keep, *kept.model, tau, keep_prob=kept.keep),
        switch(
            kept.reward, kept.target, kept.logging, kept.action, kept.guess, tau,
            keep_prob=kept.keep,
        ),
    ):  # fmt: skip
        if has_a_value(found):
            assert found.value == pytest.approx(expected, abs=1e-12)


@given(seeds, st.floats(0, 20), st.floats(0, 1))
@settings(max_examples=60)
def test_biased_estimators_are_within_the_bias_they_state(seed, limit, lam):
    log = population(seed)
    kept = log.thinned()
    for rows, k in ((log, None), (kept, kept.keep)):
        w = rows.weight if k is None else rows.weight / k
        arrays, declared = (rows.reward, w, *rows.model), {"reward_range": (0, 1), "keep_prob": k}
        for found in (
            clipped_ips(rows.reward, w, limit, 1.0, keep_prob=k),
            switch_dr(*arrays, limit, **declared),
            dr_shrinkage(*arrays, limit, **declared),
            dr_shrinkage(*arrays, limit, shrinkage="pessimistic", **declared),
            sub_gaussian_ips(rows.reward, w, lam, **declared),
        ):
            if has_a_value(found):
                assert abs(found.value - log.value) <= found.bias_bound + 1e-12
                assert found.bias_bound is not None


@given(seeds, st.floats(0.01, 20))
@settings(max_examples=40)
def test_a_right_model_leaves_no_bias_however_weights_are_cut(seed, limit):
    log = population(seed)
    kept = log.thinned()
    q, m = kept.q[kept.taken], expected_reward(kept.target, kept.q)
    arrays = kept.reward, kept.weight / kept.keep, q, m
    for found in (
        switch_dr(*arrays, limit, keep_prob=kept.keep),
        dr_shrinkage(*arrays, limit, keep_prob=kept.keep),
        dr_shrinkage(*arrays, limit, shrinkage="pessimistic", keep_prob=kept.keep),
        direct_method(m, keep_prob=kept.keep),
    ):
        if has_a_value(found):
            assert found.value == pytest.approx(log.value, abs=1e-12)


@given(seeds)
@settings(max_examples=40)
def test_what_is_never_logged_is_missed_by_at_most_its_mass(seed):
    log = population(seed, unsupported=True)
    missed = unsupported_mass(log.target, log.logging)
    found = ips(log.reward, log.weight)
    if has_a_value(found):
        assert -1e-12 <= log.value - found.value <= missed.mean() + 1e-12
        assert found.mean_weight == pytest.approx(1 - missed.mean())


@given(seeds)
@settings(max_examples=40)
def test_loggers_in_turn_are_one_logger_to_balanced_weights(seed):
    one, other = population(seed), population(seed + 1)
    q, target = one.q, one.target
    # The second logger, in the contexts of the first log: its own policy, the same world.
    logs = []
    for source in (one, other):
        rows = []
        for x in range(N_CONTEXTS):
            policy = source.logging[source.context == x][0]
            here = np.flatnonzero(one.context == x)[0]
            plans = np.repeat(np.arange(N_PLANS), np.rint(policy * PER_CONTEXT).astype(int))
            for a in plans:
                rows += [(here, a, float(j < 4 * q[here, a])) for j in range(4)]
        logs.append(np.array(rows))
    everything = np.concatenate(logs)
    at = everything[:, 0].astype(int)
    action, reward = everything[:, 1].astype(int), everything[:, 2]
    of_context = {x: other.logging[other.context == x][0] for x in range(N_CONTEXTS)}
    second = np.array([of_context[x][a] for x, a in zip(one.context[at], action, strict=True)])
    each = np.stack([one.logging[at, action], second], axis=1)
    weight = balanced_weight(target[at, action], each, [len(log) for log in logs])
    found = ips(reward, weight)
    covered = [(target[i] * q[i]).sum() for i in np.unique(one.context, return_index=True)[1]]
    if has_a_value(found):
        assert found.value == pytest.approx(np.mean(covered), abs=1e-12)


def test_dropping_failures_does_not_fool_the_corrected_estimators():
    """Failures kept one time in ten: the mean over kept rows would be .93 for a value of .5."""
    reward = np.repeat([1.0, 0.0], [100, 10])
    keep = np.repeat([1.0, 0.1], [100, 10])
    found = ips(reward, 1 / keep, keep_prob=keep)
    assert found.value == pytest.approx(0.5)
    assert reward.mean() > 0.9
    assert snips(reward, 1 / keep, keep_prob=keep).value == pytest.approx(0.5)
