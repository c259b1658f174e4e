"""The fits beside plain Bradley-Terry: order effect, ties, covariates, levels of plans."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from canopy.domain.errors import InputError, RangeError, ShapeMismatchError
from training.preferences import fit_bradley_terry
from training.preferences.comparisons import surviving_comparisons
from training.preferences.covariates import fit_with_covariates
from training.preferences.davidson import fit_davidson
from training.preferences.factored import fit_factored, level_features
from training.preferences.order_effect import count_orders, fit_order_effect
from training.preferences.pair_regression import fit_pair_regression
from training.preferences.pair_table import PairTable


def chance(z):
    return 1 / (1 + np.exp(-z))


def orders(seed, b, *, n=5, games=200):
    """Tables of verdicts by who was shown first, drawn with an order effect of `b`."""
    rng = np.random.default_rng(seed)
    strength = np.linspace(1, -1, n)
    first = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                first[i, j] = rng.binomial(games, chance(strength[i] - strength[j] + b))
    second = games - first
    np.fill_diagonal(second, 0)
    return first, second, strength


class TestOrderEffect:
    def test_its_interval_covers_the_bias_that_made_the_verdicts(self):
        covered = 0
        for seed in range(100):
            found = fit_order_effect(*orders(seed, 0.4, games=30)[:2])
            covered += abs(found.b - 0.4) <= 1.96 * found.std_err
        assert 90 <= covered <= 99

    def test_scores_are_on_the_scale_of_one_verdict(self):
        first, second, strength = orders(1, 1.0, games=4_000)
        found = fit_order_effect(first, second)
        assert found.scores == pytest.approx(strength - strength.mean(), abs=0.05)
        # Both orders counted as two votes shrink it, as published for b = 1: to .82.
        flattened = fit_bradley_terry(first + second.T).scores
        slope = flattened @ strength / (strength @ strength)
        assert slope == pytest.approx(0.82, abs=0.02)

    def test_a_general_fitter_finds_the_same(self):
        first, second, _ = orders(2, -0.3)
        rows, won, weight = [], [], []
        for i, j in np.argwhere(first + second > 0):
            x = np.zeros(6)
            x[i], x[j], x[5] = 1, -1, 1
            rows += [x, x]
            won += [1, 0]
            weight += [first[i, j], second[i, j]]
        model = LogisticRegression(C=1e9, fit_intercept=False, tol=1e-10, max_iter=10_000)
        model.fit(np.array(rows), won, sample_weight=weight)
        found = fit_order_effect(first, second)
        assert found.b == pytest.approx(model.coef_[0, 5], abs=1e-4)

    def test_an_order_that_explains_everything_is_separated(self):
        first = np.array([[0, 3.0], [3, 0]])
        found = fit_order_effect(first, np.zeros((2, 2)))
        assert (found.status, found.b, found.scores) == ("separated", None, None)

    def test_one_order_only_cannot_tell_order_from_items(self):
        found = fit_order_effect([[0, 3.0], [0, 0]], [[0, 2.0], [0, 0]])
        assert found.b is None
        assert found.likelihood_ratio is None

    def test_nothing_judged_is_no_data(self):
        assert fit_order_effect(np.zeros((2, 2)), np.zeros((2, 2))).status == "no_data"

    def test_both_orders_are_counted_by_who_was_shown_first(self):
        pairs = PairTable.of(["x", "x", "y"], ["y", "y", "x"], ["a", "b", "tie"], ["a", None, "b"])
        first, second = count_orders(pairs)
        # Row 1: x first and x won; y first and x won. Row 2: x first, y won. Row 3: x first, x won.
        assert first.tolist() == [[0, 2], [0, 0]]
        assert second.tolist() == [[0, 1], [1, 0]]


class TestDavidson:
    def tables(self, seed, n=4):
        rng = np.random.default_rng(seed)
        wins = rng.integers(1, 9, (n, n)).astype(float)
        ties = rng.integers(0, 6, (n, n)).astype(float)
        ties += ties.T
        for table in (wins, ties):
            np.fill_diagonal(table, 0)
        return wins, ties

    @pytest.mark.parametrize("seed", range(4))
    def test_a_general_optimiser_finds_the_same(self, seed):
        wins, ties = self.tables(seed)

        def loss(at):
            score, nu, total = np.append(at[:3], 0.0), np.exp(at[3]), 0.0
            for i in range(4):
                for j in range(i + 1, 4):
                    one, other = np.exp(score[i]), np.exp(score[j])
                    tie = nu * np.sqrt(one * other)
                    whole = one + other + tie
                    total -= wins[i, j] * np.log(one / whole) + wins[j, i] * np.log(other / whole)
                    total -= ties[i, j] * np.log(tie / whole)
            return total

        best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
        found = fit_davidson(wins, ties)
        assert found.scores - found.scores[3] == pytest.approx(np.append(best.x[:3], 0), abs=1e-5)
        assert found.tie_strength == pytest.approx(np.exp(best.x[3]), rel=1e-5)

    def test_expected_ties_are_the_ties_counted(self):
        wins, ties = self.tables(9)
        found = fit_davidson(wins, ties)
        pi = np.exp(found.scores)
        played = wins + wins.T + ties
        tie = found.tie_strength * np.sqrt(np.outer(pi, pi))
        expected = played * tie / (pi[:, None] + pi + tie)
        assert expected.sum() == pytest.approx(ties.sum())

    def test_without_ties_it_is_bradley_terry(self):
        wins, _ = self.tables(3)
        found = fit_davidson(wins, np.zeros_like(wins))
        assert found.tie_strength == 0
        assert found.scores == pytest.approx(fit_bradley_terry(wins).scores)

    @pytest.mark.parametrize(
        ("wins", "ties", "status"),
        [
            ([[0, 0], [0, 0]], [[0, 3], [3, 0]], "separated"),
            ([[0, 0], [0, 0]], [[0, 0], [0, 0]], "no_data"),
            ([[0, 2], [0, 0]], [[0, 0], [0, 0]], "separated"),
        ],
    )
    def test_where_it_does_not_exist_it_says_so(self, wins, ties, status):
        found = fit_davidson(wins, ties)
        assert (found.status, found.scores, found.tie_strength) == (status, None, None)

    def test_ties_must_be_symmetric(self):
        with pytest.raises(RangeError, match="symmetric"):
            fit_davidson([[0, 1], [1, 0]], [[0, 1], [0, 0]])


class TestCovariates:
    def world(self, effect, *, seed=0, n_pairs=3_000):
        rng = np.random.default_rng(seed)
        strength = np.array([0.8, 0.0, -0.8])
        a = rng.integers(0, 3, n_pairs)
        b = (a + rng.integers(1, 3, n_pairs)) % 3
        # Stronger items write longer texts, which is what control is for.
        length = 50 * (strength[a] - strength[b]) + rng.normal(0, 40, n_pairs)
        z = strength[a] - strength[b] + effect * length / 40
        won = rng.random(n_pairs) < chance(z)
        verdict = np.where(won, "a", "b").tolist()
        return PairTable.of(
            [f"i{k}" for k in a], [f"i{k}" for k in b], verdict, verdict,
            covariates={"length": length},
        ), strength  # fmt: skip

    def test_scores_are_what_they_are_at_equal_length(self):
        pairs, strength = self.world(0.5)
        comparisons = surviving_comparisons(pairs)
        plain = fit_bradley_terry(comparisons.wins).scores
        found = fit_with_covariates(comparisons)
        place = [pairs.items.index(f"i{k}") for k in range(3)]
        controlled = np.array([found.scores[k] for k in place])
        assert controlled == pytest.approx(strength, abs=0.15)
        assert plain[place[0]] - plain[place[2]] > controlled[0] - controlled[2] + 0.5
        (effect,) = found.effects
        assert effect.coefficient / effect.scale == pytest.approx(0.5 / 40, rel=0.2)

    def test_no_effect_is_told_from_one(self):
        inside = 0
        for seed in range(60):
            (effect,) = fit_with_covariates(
                surviving_comparisons(self.world(0.0, seed=seed, n_pairs=400)[0])
            ).effects
            inside += abs(effect.coefficient) <= 1.96 * effect.std_err
        assert 53 <= inside <= 60

    def test_a_covariate_that_explains_everything_is_separated(self):
        pairs = PairTable.of(
            ["x", "y"] * 4, ["y", "x"] * 4, ["a"] * 8, ["a"] * 8, covariates={"size": [1.0] * 8}
        )
        found = fit_with_covariates(surviving_comparisons(pairs))
        assert (found.status, found.scores) == ("separated", None)
        assert found.effects[0].coefficient is None

    @pytest.mark.parametrize(
        ("covariates", "message"), [({}, "are none"), ({"size": [0.0, 0.0]}, "never differs")]
    )
    def test_nothing_to_hold_equal_is_an_error(self, covariates, message):
        pairs = PairTable.of(["x", "y"], ["y", "x"], ["a", "a"], ["a", "a"], covariates=covariates)
        with pytest.raises(InputError, match=message):
            fit_with_covariates(surviving_comparisons(pairs))


class TestFactored:
    LEVELS = np.array([(a, b, c) for a in range(3) for b in range(2) for c in range(2)])

    def world(self, seed, *, games=60, with_pairs=True, noise=0.0):
        rng = np.random.default_rng(seed)
        features = level_features(self.LEVELS, with_pairs=with_pairs)
        strength = features @ rng.normal(0, 0.4, features.shape[1])
        strength += noise * rng.normal(size=len(strength))
        n = len(strength)
        wins = np.zeros((n, n))
        for i in range(n):
            for j in range(i + 1, n):
                wins[i, j] = rng.binomial(games, chance(strength[i] - strength[j]))
                wins[j, i] = games - wins[i, j]
        return wins, strength - strength.mean()

    def test_scores_by_levels_are_nearer_to_the_truth_than_free_ones(self):
        errors = {"factored": 0.0, "free": 0.0}
        for seed in range(10):
            wins, strength = self.world(seed, with_pairs=False, games=12)
            found = fit_factored(wins, self.LEVELS, with_pairs=False)
            errors["factored"] += np.mean((found.scores - strength) ** 2)
            errors["free"] += np.mean((fit_bradley_terry(wins).scores - strength) ** 2)
        assert errors["factored"] < errors["free"] / 1.5

    def test_enough_terms_are_the_free_fit(self):
        wins, _ = self.world(1)
        levels = np.array([(a, b) for a in range(6) for b in range(2)])
        found = fit_factored(wins, levels)
        assert found.degrees == 0
        assert found.scores == pytest.approx(fit_bradley_terry(wins).scores, abs=1e-6)
        assert found.difference_variance == pytest.approx(
            fit_bradley_terry(wins).difference_variance, abs=1e-8
        )

    def test_the_ratio_says_whether_levels_explain_the_verdicts(self):
        p_values = [fit_factored(self.world(seed)[0], self.LEVELS).p_value for seed in range(40)]
        assert np.mean(np.array(p_values) < 0.05) <= 0.15
        wins, _ = self.world(0, noise=0.8)
        assert fit_factored(wins, self.LEVELS).p_value < 1e-4

    def test_a_plan_that_nobody_judged_has_a_score_from_its_levels(self):
        wins, strength = self.world(2, with_pairs=False, games=400)
        wins[5, :] = wins[:, 5] = 0
        found = fit_factored(wins, self.LEVELS, with_pairs=False)
        assert found.is_identified.all()
        assert found.scores[5] == pytest.approx(strength[5], abs=0.15)

    def test_a_level_that_nobody_judged_is_not_identified(self):
        wins, _ = self.world(3, with_pairs=False)
        unseen = self.LEVELS[:, 0] == 2
        wins[unseen] = wins[:, unseen] = 0
        found = fit_factored(wins, self.LEVELS, with_pairs=False)
        assert not found.is_identified[0, unseen].any()
        assert np.isnan(found.difference_variance[0, unseen]).all()
        assert found.is_identified[~unseen][:, ~unseen].all()
        with_prior = fit_factored(wins, self.LEVELS, with_pairs=False, prior=1.0)
        assert with_prior.is_identified.all()

    def test_levels_of_other_plans_are_an_error(self):
        with pytest.raises(ShapeMismatchError, match="levels"):
            fit_factored(np.zeros((3, 3)), self.LEVELS)
        with pytest.raises(RangeError, match="prior"):
            fit_factored(np.zeros((12, 12)), self.LEVELS, prior=-1)


class TestPairRegression:
    def test_separation_is_what_a_linear_programme_says(self):
        """Small tables, every pattern: fitted exactly where no direction separates."""
        rng = np.random.default_rng(0)
        seen = set()
        for _ in range(200):
            design = rng.integers(-1, 2, (4, 2)).astype(float)
            won = rng.integers(0, 2, 4).astype(float)
            lost = 1 - won
            found = fit_pair_regression(design, won, lost)
            angles = np.linspace(0, 2 * np.pi, 721)
            directions = np.column_stack([np.cos(angles), np.sin(angles)])
            agreement = (directions @ design.T).round(9) * (won - lost)
            separates = ((agreement >= 0).all(axis=1) & (agreement > 0).any(axis=1)).any()
            expected = "no_data" if not design.any() else "separated" if separates else "fitted"
            assert found.status == expected
            seen.add(expected)
        assert {"separated", "fitted"} <= seen

    def test_a_prior_makes_every_fit_finite(self):
        found = fit_pair_regression(np.eye(2), np.ones(2), np.zeros(2), prior=1.0)
        assert found.status == "fitted"
        # The score equation of one win under a unit prior: 1 - s(x) = x.
        assert found.coefficients == pytest.approx([0.40105813754] * 2)

    def test_margins_of_forty_do_not_overflow(self):
        found = fit_pair_regression(np.array([[1.0]]), np.array([1e17]), np.array([1.0]), prior=0.0)
        assert found.coefficients[0] == pytest.approx(np.log(1e17), rel=1e-6)

    @pytest.mark.parametrize(
        ("won", "prior", "error"),
        [
            (np.ones(3), 0.0, ShapeMismatchError),
            (np.array([1, -1.0]), 0.0, RangeError),
            (np.array([1, np.nan]), 0.0, RangeError),
            (np.ones(2), -1.0, RangeError),
        ],
    )
    def test_rows_that_cannot_be_are_errors(self, won, prior, error):
        with pytest.raises(error):
            fit_pair_regression(np.eye(2), won, np.zeros(2), prior=prior)
