"""Faults that other tools of the field have or had, each as the behaviour that is right.

Where an issue is known it is named. What concerns serving, training or judges is tested there.
"""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from canopy.domain.errors import LogError, RangeError
from eval.estimators import (
    Candidate,
    clipped_ips,
    doubly_robust,
    expected_reward,
    importance_weight,
    ips,
    marginal_weight,
    slope,
    snips,
)
from eval.intervals import betting_sequence, bootstrap, srm, two_arm_sequence
from eval.report import evaluate
from eval.reward_features import encode_context
from eval.reward_models import RewardModelSpec


def log_of(**changes):
    """A sound log of 60 rows over plans a and b."""
    rng = np.random.default_rng(0)
    taken = rng.integers(0, 2, 60)
    columns = {
        "decision_id": [f"d{i}" for i in range(60)],
        "unit_id": [f"u{i}" for i in range(60)],
        "ts": pd.Timestamp("2026-01-01", tz="UTC"),
        "plan": np.where(taken == 0, "a", "b"),
        "propensity": 0.5,
        "reward": rng.integers(0, 2, 60).astype(float),
        "propensities": [[0.5, 0.5]] * 60,
        "target_propensities": [[0.7, 0.3]] * 60,
        "x_n": rng.normal(size=60),
    } | changes
    return pd.DataFrame({k: v for k, v in columns.items() if v is not None})


def evaluated(**changes):
    return evaluate(log_of(**changes), plans=["a", "b"])


def test_a_context_number_is_centred_before_it_is_scaled():
    """zr-obp 201: the bracket stood wrong; a constant column is zeros, not NaN."""
    found = encode_context({"x": np.array([1.0, 2.0, 3.0]), "c": np.ones(3)}, 3)
    assert found[:, 0].mean() == pytest.approx(0)
    assert found[:, 0].std() == pytest.approx(1)
    assert np.isfinite(found).all()


def test_a_missing_propensity_names_its_row_and_column():
    """zr-obp 207, ray 9: no deep assertion, no filler."""
    propensity = [0.5] * 60
    propensity[2] = None
    with pytest.raises(LogError, match="row 3, column propensity"):
        evaluated(propensity=propensity)


def test_the_statistics_need_numpy_and_scipy_alone():
    """pybandits 59: an old estimator package held the whole stack back."""
    code = (
        "import sys, eval.estimators, eval.intervals, eval.agreement;"
        "print([m for m in ('pandas','sklearn','torch','duckdb','pyarrow') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_slope_does_not_depend_on_the_order_of_candidates():
    """zr-obp 168."""
    candidates = [Candidate(lam, 0.5 + lam / 100, 0.3 / (1 + lam)) for lam in (0, 1, 5, 20)]
    shuffled = [candidates[i] for i in (2, 0, 3, 1)]
    assert slope(candidates) == slope(shuffled)


def test_the_weight_is_the_targets_probability_of_the_logged_plan():
    """ray 7107: it was taken of a plan drawn anew."""
    assert importance_weight([0.1], [0.5]) == pytest.approx([0.2])


@pytest.mark.parametrize("value", [-0.105, 2.15, np.nan])
def test_a_log_likelihood_or_a_density_is_no_probability(value):
    """ray 12047, 4361."""
    with pytest.raises(RangeError, match="row 1"):
        importance_weight([value], [0.5])
    with pytest.raises(RangeError, match="row 1"):
        importance_weight([0.5], [value])


def test_one_exploding_weight_is_refused_with_its_size():
    """ray 37818: weights of 1e21 and a NaN that went on."""
    found = ips(np.ones(40), np.r_[1e21, np.ones(39)])
    assert (found.value, found.status) == (None, "refused")
    assert found.max_weight == 1e21
    assert found.ess == pytest.approx(1)


def test_a_renamed_propensity_column_is_missing_and_never_one():
    """ReAgent 133, coba: there is no default propensity."""
    renamed = log_of().rename(columns={"propensity": "x_prob"})
    with pytest.raises(LogError, match="propensity"):
        evaluate(renamed, plans=["a", "b"])


def test_a_log_without_probabilities_gives_model_based_values_that_cannot_promote():
    """VW 3910, 4319, coba 44: "my log has no probabilities"."""
    served = evaluated()
    assert "never promotes" in served.verdict("dm").reason
    assert served.verdict("dm").interval is None


def test_argmax_logs_say_that_there_is_no_overlap():
    """hydra 605: a point mass identifies no other policy."""
    found = evaluated(
        plan=["a"] * 60, propensity=[1.0] * 60, propensities=[[1.0, 0.0]] * 60,
        target_propensities=[[0.0, 1.0]] * 60,
    )  # fmt: skip
    weighted = [v for v in found.verdicts if v.estimator != "dm"]
    assert all(v.status == "refused" for v in weighted)
    assert "never logged" in weighted[0].reason
    assert "floor" in weighted[0].reason


def test_the_sample_ratio_is_tested_from_five_expected_units_on():
    """growthbook 3220: it was hidden below 100."""
    assert srm((6, 4), (0.5, 0.5)).status == "ok"
    assert srm((4, 4), (0.5, 0.5)).status == "too_few"


def test_five_rows_give_a_verdict_per_estimator_and_say_what_is_missing():
    """coba 19, zr-obp 138: one log in, verdicts out."""
    plain = log_of(propensities=None, target_propensities=None).head(5)
    plain["target_propensity"] = np.where(plain.plan == "a", 0.7, 0.3)
    found = evaluate(plain)
    assert len(found.verdicts) == 7
    assert found.verdict("ips").value is not None
    assert "--plans or --catalog" in found.verdict("dr").reason
    assert "target_propensities" in found.verdict("dr").reason


def test_levels_of_two_factors_are_weighed_jointly():
    """OBP's MIPS multiplies the ratios of each dimension: 1 everywhere here."""
    logging = np.tile([0.4, 0.1, 0.1, 0.4], (4, 1))
    target = np.tile([0.1, 0.4, 0.4, 0.1], (4, 1))
    levels = [[0, 0], [0, 1], [1, 0], [1, 1]]
    found = marginal_weight(target, logging, levels, np.arange(4))
    assert found == pytest.approx([0.25, 4, 4, 0.25])


def test_resampling_recomputes_the_sum_of_weights():
    """OBP resamples rows already divided by the full sum: [.90, 1.10] where all rewards are 1."""
    weight = np.tile([0.5, 1.5], 50)
    ratios = snips(np.ones(100), weight).ratios
    found = bootstrap(
        ratios.numerators, ratios.denominators, rng=np.random.default_rng(0), n_resamples=500
    )
    assert (found.lo, found.hi) == pytest.approx((1, 1))


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_a_reward_that_is_no_number_is_an_error(reward):
    """OBP accepts NaN rewards."""
    with pytest.raises(RangeError, match="reward, row 2"):
        ips([1, reward], [1, 1])


def test_no_overlap_is_a_refusal_and_no_nan_with_a_warning():
    found = snips([1.0, 0.0], [0.0, 0.0])
    assert (found.value, found.status) == (None, "refused")
    assert "no overlap" in found.reason


def test_a_reward_model_of_one_class_or_an_unseen_plan_still_answers():
    """OBP's regression model raises on a single reward class."""
    found = evaluate(
        log_of(reward=[1.0] * 60), plans=["a", "b", "never"][:2], reward_model=RewardModelSpec()
    )
    assert found.verdict("dm").value == pytest.approx(1, abs=1e-6)
    three = log_of(propensities=[[0.5, 0.5, 0.0]] * 60, target_propensities=[[0.7, 0.3, 0.0]] * 60)
    assert evaluate(three, plans=["a", "b", "never"]).verdict("dr").status == "ok"


def test_predictions_of_exactly_0_and_1_are_used_as_they_are_and_arrays_are_left_alone():
    """contextualbandits adds noise to them and edits the caller's array."""
    q, m = np.array([0.0, 1.0, 0.0]), np.array([0.5, 0.5, 0.5])
    before = q.copy()
    first = doubly_robust([0, 1, 1], [1, 1, 1], q, m).value
    assert first == doubly_robust([0, 1, 1], [1, 1, 1], q, m).value == pytest.approx(5 / 6)
    assert np.array_equal(q, before)


def test_masked_predictions_may_be_anything():
    found = expected_reward([[0.5, 0.5, 0.0]], [[0.2, 0.4, np.nan]], mask=[[1, 1, 0]])
    assert found == pytest.approx([0.3])


def test_nearly_equal_constant_arms_do_not_stop_a_test_at_once():
    """A Gaussian rule with a floor of 1e-12 stopped at .80 against .79 after ten rows."""
    treated = np.tile([1, 0], 10)
    found = two_arm_sequence(np.where(treated == 1, 0.80, 0.79), treated, 0.5, 0, 1)
    assert not found.excludes_zero


def test_an_empty_confidence_set_is_an_alarm_of_drift():
    """confseq reports [0, 1], or a lower bound above the upper one, without a word."""
    found = betting_sequence(np.r_[np.ones(200), np.zeros(200)])
    assert (found.drift, found.interval) == (True, None)


def test_a_tuned_parameter_is_not_remembered_from_another_log():
    """OBP caches it on the object."""
    narrow = [Candidate(1, 0.5, 0.4), Candidate(9, 0.5, 0.1)]
    other = [Candidate(1, 0.1, 0.1), Candidate(9, 0.9, 0.05)]
    assert slope(narrow).chosen.hyperparameter == 9
    assert slope(other).chosen.hyperparameter == 1
    assert slope(narrow).chosen.hyperparameter == 9


def test_clipping_states_its_bias_and_keeps_the_diagnostics_of_the_raw_weights():
    found = clipped_ips(np.ones(40), np.r_[30.0, np.ones(39)], 2.0)
    assert found.max_weight == 30
    assert found.bias_bound == pytest.approx(28 / 40)
