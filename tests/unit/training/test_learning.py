"""Learning in a world whose truth is known: seeded, and sized so that luck does not decide."""

from dataclasses import replace

import numpy as np
import pytest

from canopy.domain.errors import ConfigError, TrainingRefusedError
from policy.distributions import distribution
from training.awr import learner as awr
from training.awr.config import AdvantageKind, AwrConfig
from training.bc import learner as bc
from training.bc.config import BcConfig
from training.config import HeadConfig, ServingConfig
from training.cross_fitting import RidgeSums, fit_baseline
from training.data.rows import fold_places
from training.data.store import RowStore
from training.fitting import fit_policy, numpy_head
from training.loop import Fitter, planned_epochs
from training.reward_model import fit_reward_models

ONE = HeadConfig(l2=[1e-5], pair_l2=[0.1])


def fitted(problem, learner, config, quick, serving=None, head=ONE):
    return fit_policy(
        problem, (learner.term(problem, config, Fitter(quick)),), head=head, fitter=Fitter(quick),
        serving=serving or ServingConfig(),
    )  # fmt: skip


def true_value(known, found, *, floor=0.05, temperature=None):
    features, mask, expected, _ = known.fresh()
    scores = numpy_head(found.head).scores(features)
    served = distribution(scores / (temperature or found.chosen.temperature), mask, floor)
    return float((served * expected).sum(axis=1).mean())


def test_bc_recovers_the_logging_policy(known, quick):
    found = fitted(known.problem, bc, BcConfig(), quick)
    features, mask, _, logging = known.fresh()
    learnt = distribution(numpy_head(found.head).scores(features), mask, 0.0)
    assert np.abs(learnt - logging).mean() < 0.012
    assert np.abs(learnt - mask / mask.sum(axis=1, keepdims=True)).mean() > 0.05


@pytest.mark.parametrize("advantage", list(AdvantageKind))
def test_awr_beats_the_logging_policy(known, quick, advantage):
    found = fitted(known.problem, awr, AwrConfig(advantage=advantage), quick)
    _, _, expected, logging = known.fresh()
    logged = float((logging * expected).sum(axis=1).mean())
    gain = true_value(known, found) - logged
    assert gain > {"observed": 0.07, "model": 0.08}[advantage.value]


def test_the_estimate_that_chose_is_near_the_truth(known, quick):
    found = fitted(known.problem, awr, AwrConfig(), quick)
    assert found.chosen.served.value == pytest.approx(true_value(known, found), abs=0.08)


def test_the_same_seed_gives_the_same_bits(known, quick):
    first, second = (fitted(known.problem, awr, AwrConfig(), quick) for _ in range(2))
    other = fitted(replace(known.problem, seed=6), awr, AwrConfig(), quick)
    weights = [found.head.named_weights() for found in (first, second, other)]
    assert all(weights[0][name].tobytes() == weights[1][name].tobytes() for name in weights[0])
    assert any(weights[0][name].tobytes() != weights[2][name].tobytes() for name in weights[0])


def test_rows_without_a_choice_change_nothing(known, quick):
    rows = np.arange(3000)
    feasible = known.inside.feasible[rows].copy()
    feasible[::2] = False
    feasible[rows, known.inside.action[rows]] = True
    train = replace(known.inside.take(rows), feasible=feasible)
    both, without = known.trained_on(train), known.trained_on(train.take(train.has_choice))
    assert both.train.n_single >= 1500
    assert without.train.n_single == 0
    tables = [fitted(p, bc, BcConfig(), quick).head.table for p in (both, without)]
    assert (tables[0] == tables[1]).all()


def test_a_kept_row_stands_for_the_dropped_ones(known, quick):
    """Rewarded rows kept at one in four, weighed back, give the same policy as all rows."""
    rng = np.random.default_rng(0)
    first = known.problem.shape.levels[known.inside.action][:, 0] == 0
    keep = np.where(first, 0.25, 1.0)
    kept = rng.random(len(keep)) < keep
    rows = replace(known.inside, keep_prob=keep).take(kept)
    thinned = known.trained_on(rows)
    blind = known.trained_on(replace(rows, keep_prob=np.ones(kept.sum())))
    features, mask, _, logging = known.fresh()
    errors = [
        np.abs(
            distribution(numpy_head(fitted(p, bc, BcConfig(), quick).head).scores(features),
                         mask, 0.0) - logging
        ).mean()
        for p in (thinned, blind)
    ]  # fmt: skip
    assert errors[0] < 0.02
    assert errors[1] > 0.08


def test_rewards_that_never_differ_make_awr_imitate(known, quick):
    problem = known.trained_on(replace(known.inside, reward=np.full(6000, 0.1)))
    for advantage in AdvantageKind:
        weighting = awr.weigh(problem, AwrConfig(advantage=advantage), Fitter(quick))
        (block,) = problem.train.blocks()
        assert (weighting.weight(block) == 1.0).all()
        assert (weighting.weight(problem.beyond) == 1.0).all()


def test_weights_that_leave_a_handful_of_rows_are_refused(known, quick):
    config = AwrConfig(beta=0.01, cap=1e6)
    rare = np.zeros(6000)
    rare[:40] = 1.0
    problem = known.trained_on(replace(known.inside, reward=rare))
    with pytest.raises(
        TrainingRefusedError, match=r"worth \d+ of 5992 rows.*Raise objective.awr.beta"
    ):
        awr.weigh(problem, config, Fitter(quick))


def test_a_temperature_that_validation_cannot_support_is_out(known, quick):
    few = replace(
        known.problem,
        validation=known.problem.validation.take(np.arange(200)),
        validation_features=known.problem.validation_features[:200],
    )
    found = fitted(few, awr, AwrConfig(), quick, ServingConfig(least_ess=90))
    assert found.chosen.served.ess >= 90
    assert any(candidate.served.ess < 90 for candidate in found.candidates)
    with pytest.raises(TrainingRefusedError, match="validation supports none of them"):
        fitted(few, awr, AwrConfig(), quick, ServingConfig(least_ess=201))


def test_nothing_to_choose_is_refused(known, quick):
    only = np.zeros_like(known.inside.feasible)
    only[np.arange(6000), known.inside.action] = True
    with pytest.raises(TrainingRefusedError, match="nothing to choose"):
        known.trained_on(replace(known.inside, feasible=only))


def test_an_empty_grid_is_refused(known, quick):
    with pytest.raises(ConfigError, match=r"head.pair_l2: is empty"):
        fitted(known.problem, bc, BcConfig(), quick, head=HeadConfig(pair_l2=[]))
    with pytest.raises(ConfigError, match=r"serving.temperatures: is empty"):
        fitted(known.problem, bc, BcConfig(), quick, ServingConfig(temperatures=[]))


@pytest.mark.parametrize(
    ("config", "key"),
    [(AwrConfig(n_folds=1), "objective.awr.n_folds"), (AwrConfig(baseline_l2=0), "baseline_l2")],
)
def test_a_baseline_that_cannot_be_cross_fitted_is_refused(tiny, quick, config, key):
    with pytest.raises(ConfigError, match=key):
        awr.weigh(tiny, config, Fitter(quick))


def test_no_row_is_expected_by_a_fit_that_saw_its_unit(known):
    """Out of fold: what a unit's own reward is moves nothing that is expected of it."""
    (block,) = known.problem.train.blocks()
    fold = block.fold(3)
    everyone = (fold_places(known.inside) * 3).astype(int)
    moved = replace(known.inside, reward=np.where(everyone == 1, 5.0, known.inside.reward))
    before = fit_baseline(known.problem, n_folds=3, l2=1.0)(block)
    after = fit_baseline(known.trained_on(moved), n_folds=3, l2=1.0)(block)
    np.testing.assert_allclose(after[fold == 1], before[fold == 1], rtol=1e-9)
    assert (np.abs(after - before)[fold != 1] > 0.5).all()


def test_units_of_one_fold_are_refused(tiny):
    (block,) = tiny.train.blocks()
    lonely = replace(block, fold_place=np.full(60, 0.1))
    problem = replace(tiny, train=RowStore.of(lonely))
    with pytest.raises(TrainingRefusedError, match="all 60 training rows are in one fold"):
        fit_baseline(problem, n_folds=3, l2=1.0)


def test_ridge_agrees_with_a_second_route():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(2)
    x, y, w = rng.normal(size=(80, 4)) + 3, rng.normal(size=80), rng.random(80)
    model = Ridge(alpha=2.5).fit(x, y, sample_weight=w)
    whole, first, second = (RidgeSums.none(4) for _ in range(3))
    whole.add(x, y, w)
    first.add(x[:30], y[:30], w[:30])
    second.add(x[30:], y[30:], w[30:])
    *slopes, intercept = whole.fit(2.5)
    np.testing.assert_allclose((first + second).fit(2.5), whole.fit(2.5), rtol=1e-9)
    np.testing.assert_allclose(slopes, model.coef_, rtol=1e-9)
    assert intercept == pytest.approx(model.intercept_, rel=1e-9)


def test_the_reward_model_predicts_better_than_the_mean(known, quick):
    models = fit_reward_models(known.problem, n_folds=2, pair_l2=0.01, fitter=Fitter(quick))
    (block,) = known.problem.train.blocks()
    expected, reward = models.expected_taken(block), block.reward
    assert ((expected - reward) ** 2).mean() < 0.93 * reward.var()
    assert expected.mean() == pytest.approx(reward.mean(), abs=0.01)


def test_smaller_logs_get_more_passes(quick):
    left_open = replace(quick, epochs=None)
    assert [planned_epochs(n, left_open) for n in (100, 12_500, 10**6)] == [60, 21, 15]
    assert planned_epochs(100, quick) == 12
