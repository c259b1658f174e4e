"""The objectives beyond imitation: direct, doubly robust, preference, and sums of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from canopy.domain.errors import ArtifactError, ConfigError, TrainingRefusedError
from policy.distributions import distribution
from training.awr.config import AwrConfig
from training.bc.config import BcConfig
from training.config import HeadConfig, ServingConfig
from training.direct.config import DirectConfig
from training.direct.losses import direct_loss
from training.doubly_robust.config import DoublyRobustConfig, Start
from training.doubly_robust.losses import doubly_robust_loss
from training.fitting import fit_policy, numpy_head
from training.importance_weighted.config import ImportanceWeightedConfig
from training.importance_weighted.losses import importance_weights
from training.likelihood import masked_log_softmax
from training.loop import Fitter
from training.objectives import terms_of
from training.preference.config import PreferenceConfig, Reference
from training.preference.losses import preference_loss
from training.preferences.artifact import save_preferences
from training.preferences.fitting import FitSettings, Origin, fit_preferences, preferences_of
from training.preferences.pair_table import PairTable

HEAD = HeadConfig(l2=[1e-5, 1e-3], pair_l2=[0.003, 0.1])


def fitted(problem, configs, quick, serving=None):
    terms = terms_of(problem, configs, Fitter(quick))
    return fit_policy(
        problem, terms, head=HEAD, fitter=Fitter(quick), serving=serving or ServingConfig()
    )


def greedy_value(known, found):
    features, mask, expected, _ = known.fresh()
    scores = np.where(mask, numpy_head(found.head).scores(features), -np.inf)
    return expected[np.arange(len(scores)), scores.argmax(axis=1)].mean()


def bounds(known):
    _, mask, expected, logging = known.fresh()
    return (logging * expected).sum(axis=1).mean(), np.where(mask, expected, -1).max(axis=1).mean()


@pytest.mark.parametrize(
    ("configs", "least"),
    [
        ({"direct": DirectConfig()}, 0.93),
        ({"doubly_robust": DoublyRobustConfig()}, 0.90),
        ({"importance_weighted": ImportanceWeightedConfig()}, 0.75),
        ({"doubly_robust": DoublyRobustConfig(start=Start.zero)}, 0.85),
        ({"direct": DirectConfig(), "bc": BcConfig(weight=0.02)}, 0.85),
        ({"doubly_robust": DoublyRobustConfig(), "bc": BcConfig(weight=0.01)}, 0.80),
    ],
    ids=["direct", "dr", "importance", "dr-zero", "direct+bc", "dr+bc"],
)
def test_what_reads_rewards_gains_most_of_what_there_is_to_gain(known, quick, configs, least):
    logged, best = bounds(known)
    share = (greedy_value(known, fitted(known.problem, configs, quick)) - logged) / (best - logged)
    assert share >= least


def test_a_heavier_clone_keeps_the_policy_nearer_to_the_log(known, quick):
    features, mask, _, logging = known.fresh()
    distances = []
    for weight in (0.01, 0.3, 10.0):
        configs = {"doubly_robust": DoublyRobustConfig(), "bc": BcConfig(weight=weight)}
        head = fitted(known.problem, configs, quick).head
        served = distribution(numpy_head(head).scores(features), mask, 0.0)
        distances.append(np.abs(served - logging).sum(axis=1).mean())
    assert distances == sorted(distances, reverse=True)
    assert distances[2] < distances[0] / 4


def test_the_penalty_is_the_one_of_least_loss_on_validation_units(known, quick):
    found = fitted(known.problem, {"direct": DirectConfig()}, quick)
    tried = [penalty for penalty, _ in found.penalties]
    assert [penalty.pair_l2 for penalty in tried[:2]] == HEAD.pair_l2
    assert [penalty.l2 for penalty in tried] == [1e-5, 1e-5, 1e-3]
    least = min(loss for _, loss in found.penalties)
    assert found.curve.least == least
    assert dict(found.penalties)[found.chosen.penalty] == least


def test_rewards_on_another_scale_give_the_same_policy(known, quick):
    def scaled(rows):
        return replace(rows, reward=40 + 20 * rows.reward)

    moved = known.trained_on(scaled(known.inside), validation=scaled(known.problem.validation))
    for name, config in (("direct", DirectConfig()), ("doubly_robust", DoublyRobustConfig())):
        tables = [fitted(p, {name: config}, quick).head.table for p in (known.problem, moved)]
        assert torch.allclose(*tables, atol=1e-5)


@pytest.mark.parametrize(
    "config",
    [DirectConfig(), DoublyRobustConfig(), ImportanceWeightedConfig()],
    ids=lambda config: config.name,
)
def test_rewards_that_never_differ_are_refused(known, quick, config):
    flat = known.trained_on(replace(known.inside, reward=np.full(6000, 0.25)))
    with pytest.raises(TrainingRefusedError, match=r"is 0\.25 on every training row"):
        terms_of(flat, {config.name: config}, Fitter(quick))


class TestLosses:
    def rows(self, n=5, n_plans=4, seed=0):
        rng = torch.Generator().manual_seed(seed)
        scores = torch.randn(n, n_plans, generator=rng, dtype=torch.float64)
        feasible = torch.rand(n, n_plans, generator=rng) < 0.7
        action = torch.randint(n_plans, (n,), generator=rng)
        feasible[torch.arange(n), action] = True
        return scores, feasible, action

    def test_direct_is_least_where_the_mean_reward_is(self):
        reward, weight = torch.tensor([0.2, 0.9, 0.4]), torch.tensor([1.0, 2.0, 0.5])
        mean = float(weight @ reward / weight.sum())
        score = torch.tensor(float(np.log(mean / (1 - mean))), requires_grad=True)
        direct_loss(score.expand(3), reward, weight).backward()
        assert float(score.grad) == pytest.approx(0, abs=1e-6)

    def test_doubly_robust_is_the_estimate_written_out(self):
        scores, feasible, action = self.rows()
        expected = torch.rand(5, 4, dtype=torch.float64)
        reward, propensity = torch.rand(5, dtype=torch.float64), torch.full((5,), 0.3)
        log_policy = masked_log_softmax(scores, feasible)
        found = doubly_robust_loss(
            log_policy, action, reward, expected, propensity, torch.ones(5), cap=2.0
        )
        policy = np.where(feasible, np.exp(scores.numpy()), 0)
        policy /= policy.sum(axis=1, keepdims=True)
        at = np.arange(5), action.numpy()
        weight = np.minimum(policy[at] / 0.3, 2.0)
        value = (policy * expected.numpy()).sum(axis=1)
        value += weight * (reward.numpy() - expected.numpy()[at])
        assert -float(found.detach()) == pytest.approx(value.mean(), abs=1e-6)

    def test_a_cut_weight_is_a_constant_and_a_model_of_infinities_is_masked(self):
        scores, feasible, action = self.rows()
        scores.requires_grad_()
        expected = torch.where(feasible, 0.5, torch.inf).double()
        loss = doubly_robust_loss(
            masked_log_softmax(scores, feasible), action, torch.ones(5).double(), expected,
            torch.full((5,), 1e-6), torch.ones(5), cap=0.0,
        )  # fmt: skip
        loss.backward()
        assert float(loss.detach()) == pytest.approx(-0.5)
        assert scores.grad.abs().max() < 1e-12

    def test_a_preference_counts_where_both_plans_are_feasible(self):
        scores = torch.tensor([[1.0, 0.0, 5.0], [1.0, 0.0, 5.0]])
        feasible = torch.tensor([[True, True, False], [False, True, True]])
        ends = torch.tensor([0, 1]), torch.tensor([1, 2])
        share = torch.tensor([0.75, 0.25])
        found = preference_loss(scores, None, feasible, *ends, share, 1.0)
        expected = 0.75 * np.log1p(np.exp(-1.0)) + 0.25 * np.log1p(np.exp(5.0))
        assert float(found) == pytest.approx(expected, rel=1e-6)
        alone = preference_loss(scores, scores, feasible, *ends, share, 2.0)
        assert float(alone) == pytest.approx(np.log(2), rel=1e-6)
        nowhere = preference_loss(scores, None, torch.zeros_like(feasible), *ends, share, 1.0)
        assert float(nowhere) == 0

    def test_importance_weights_divide_the_logging_policy_out(self):
        found = importance_weights(
            np.array([1.0, 1.0, 0.5, 0.0]), np.array([0.5, 0.01, 0.25, 0.2]),
            np.array([1.0, 1.0, 0.5, 1.0]), cap=50.0,
        )  # fmt: skip
        assert found.tolist() == [2.0, 50.0, 4.0, 0.0]


def test_the_best_plan_wins_whatever_the_logging_policy_liked(known, quick):
    """awr follows pi_b q, and a logger that loves a bad plan pulls it along; this does not."""
    features, mask, expected, _ = known.fresh()
    best = np.where(mask, expected, -1).argmax(axis=1)
    hits = {}
    for config in (AwrConfig(), ImportanceWeightedConfig()):
        head = fitted(known.problem, {config.name: config}, quick).head
        scores = np.where(mask, numpy_head(head).scores(features), -np.inf)
        hits[config.name] = (scores.argmax(axis=1) == best).mean()
    assert hits["importance_weighted"] > hits["awr"]


def test_a_handful_of_rewarded_rows_is_refused(known, quick):
    rare = np.zeros(6000)
    rare[:10] = 1.0
    problem = known.trained_on(replace(known.inside, reward=rare))
    with pytest.raises(TrainingRefusedError, match=r"worth \d+ rows, fewer than 30"):
        terms_of(problem, {"importance_weighted": ImportanceWeightedConfig()}, Fitter(quick))


class TestPreference:
    def artifact(self, known, tmp_path, *, plans=None, n=400, wins=True):
        """Verdicts of a judge that prefers plans in the order of their number, the last first."""
        rng = np.random.default_rng(0)
        names = plans or list(known.catalog.plan_ids)
        rows = []
        for _ in range(n):
            i, j = rng.choice(len(names), 2, replace=False)
            word = "a" if rng.random() < 1 / (1 + np.exp(0.8 * (j - i))) else "b"
            rows.append((names[i], names[j], word, word if wins else "tie"))
        pairs = PairTable.of(*zip(*rows, strict=True))
        found = fit_preferences(pairs, FitSettings(n_resamples=0), families={"judge": "f"})
        made = preferences_of(found, Origin(rubrics=("r",)))
        save_preferences(made, tmp_path / "p")
        return str(tmp_path / "p")

    @pytest.mark.parametrize("reference", list(Reference))
    def test_the_policy_learns_what_judges_prefer(self, known, quick, tmp_path, reference):
        config = PreferenceConfig(path=self.artifact(known, tmp_path), reference=reference)
        found = fitted(known.problem, {"preference": config}, quick)
        features, *_ = known.fresh()
        mean = numpy_head(found.head).scores(features).mean(axis=0)
        if reference is Reference.logging:
            clone = fitted(known.problem, {"bc": BcConfig()}, quick)
            mean = mean - numpy_head(clone.head).scores(features).mean(axis=0)
        assert np.corrcoef(mean, np.arange(len(mean)))[0, 1] > 0.9

    def test_more_kinds_of_verdicts_than_fit_are_drawn_by_their_share(
        self, known, quick, tmp_path, monkeypatch
    ):
        config = PreferenceConfig(path=self.artifact(known, tmp_path))
        monkeypatch.setattr("training.preference.learner._MOST_KINDS", 12)
        found = [fitted(known.problem, {"preference": config}, quick).head for _ in range(2)]
        assert torch.equal(found[0].table, found[1].table)
        features, *_ = known.fresh()
        mean = numpy_head(found[0]).scores(features).mean(axis=0)
        assert np.corrcoef(mean, np.arange(len(mean)))[0, 1] > 0.85

    def test_its_judges_are_in_the_lineage(self, known, quick, tmp_path):
        config = PreferenceConfig(path=self.artifact(known, tmp_path))
        (term,) = terms_of(known.problem, {"preference": config}, Fitter(quick))
        assert (term.lineage.judges, term.lineage.rubrics) == ({"f"}, {"r"})
        assert term.facts["verdicts"] == 400

    def test_it_pulls_against_the_reward(self, known, quick, tmp_path):
        preference = PreferenceConfig(path=self.artifact(known, tmp_path), weight=3.0)
        alone = fitted(known.problem, {"direct": DirectConfig()}, quick)
        both = fitted(known.problem, {"direct": DirectConfig(), "preference": preference}, quick)
        features, *_ = known.fresh()
        order = np.arange(known.catalog.n_plans)
        slopes = [
            np.corrcoef(numpy_head(f.head).scores(features).mean(axis=0), order)[0, 1]
            for f in (alone, both)
        ]
        assert slopes[1] > slopes[0] + 0.1

    @pytest.mark.parametrize(
        ("made", "error", "message"),
        [
            ({"plans": ["x", "y"]}, ConfigError, "'x', which is no plan|'y', which is no plan"),
            ({"wins": False}, TrainingRefusedError, "no decisive verdict"),
        ],
    )
    def test_verdicts_that_say_nothing_here_are_refused(
        self, known, quick, tmp_path, made, error, message
    ):
        config = PreferenceConfig(path=self.artifact(known, tmp_path, **made))
        with pytest.raises(error, match=message):
            terms_of(known.problem, {"preference": config}, Fitter(quick))

    def test_no_artifact_is_an_error(self, known, quick, tmp_path):
        config = PreferenceConfig(path=str(tmp_path))
        with pytest.raises(ArtifactError, match="canopy judge fit"):
            terms_of(known.problem, {"preference": config}, Fitter(quick))


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({}, "nothing is no objective"),
        ({"ppo": BcConfig()}, "ppo is no objective"),
        ({"bc": BcConfig(weight=0)}, r"objective\.bc\.weight: expected a positive number"),
        ({"bc": BcConfig(weight=float("nan"))}, r"objective\.bc\.weight"),
        ({"doubly_robust": DoublyRobustConfig(n_folds=1)}, r"doubly_robust\.n_folds"),
        ({"importance_weighted": ImportanceWeightedConfig(cap=0)}, r"importance_weighted\.cap"),
        ({"doubly_robust": DoublyRobustConfig(cap=-1)}, r"doubly_robust\.cap"),
        ({"preference": PreferenceConfig(path="x", beta=0)}, r"preference\.beta"),
        ({"awr": AwrConfig(n_folds=0)}, r"awr\.n_folds"),
    ],
)
def test_what_cannot_be_minimised_is_an_error(known, quick, configs, message):
    with pytest.raises(ConfigError, match=message):
        terms_of(known.problem, configs, Fitter(quick))
