"""Evaluations of logs: what is used, what is refused, and what stands beside the verdicts."""

import json

import numpy as np
import pandas as pd
import pytest

from canopy.domain.episode import is_reserved
from canopy.domain.errors import ConfigError, LogError, RangeError, ShapeMismatchError
from canopy.logs.tabular import write_log
from eval.opened_log import open_log
from eval.report import evaluate
from eval.reward_models import RewardModelSpec

VERDICT_KEYS = [
    "estimator", "status", "value", "interval", "level", "n", "n_null_reward", "ess",
    "mean_weight", "max_weight", "unsupported_mass", "reason",
]  # fmt: skip
VALUES = {
    "ips": 0.6825, "snips": 0.596939, "dm": 0.53, "dr": 0.577167, "sndr": 0.571254,
    # No weight exceeds 10; shrunk by hand: m + 100 w / (w^2 + 100) (r - q).
    "switch-dr": 0.577167, "dros": 0.578438,
}  # fmt: skip
KEPT = {
    "ips": 0.483333, "snips": 0.451557, "dm": 0.53, "dr": 0.575185, "sndr": 0.572215,
    "switch-dr": 0.575185, "dros": 0.575572,
}  # fmt: skip


def values(evaluation):
    return {v.estimator: v.value for v in evaluation.verdicts}


def test_the_hand_worked_log_gives_its_values_and_no_interval(golden_frame, golden_plans):
    found = evaluate(golden_frame, plans=golden_plans)
    assert values(found) == pytest.approx(VALUES, abs=1e-6)
    assert {v.status for v in found.verdicts} == {"ok"}
    assert {v.interval for v in found.verdicts} == {None}
    weighted = [v for v in found.verdicts if v.estimator != "dm"]
    assert all("3 units, fewer than 30" in v.reason for v in weighted)
    assert found.verdict("ips").ess == pytest.approx(3.418340, abs=1e-6)
    assert found.verdict("ips").unsupported_mass == pytest.approx(0)
    assert found.logging.value == pytest.approx(0.55)


def test_the_same_log_as_a_file_says_the_same(golden_frame, golden_plans, tmp_path):
    path = tmp_path / "log.parquet"
    table = golden_frame.assign(feasible=[np.array(f).tolist() for f in golden_frame.feasible])
    write_log(path, {name: table[name].tolist() for name in table}, plans=golden_plans)
    assert values(evaluate(path)) == pytest.approx(VALUES, abs=1e-6)
    assert values(evaluate(str(path), "columns")) == pytest.approx(VALUES, abs=1e-6)


def test_a_verdict_has_exactly_the_documented_keys(golden_frame, golden_plans):
    found = evaluate(golden_frame, plans=golden_plans)
    assert [list(v.document()) for v in found.verdicts] == [VERDICT_KEYS] * 7
    assert list(found.to_frame().columns) == VERDICT_KEYS
    json.dumps(found.document(), allow_nan=False)


def test_dropped_rows_count_for_the_decisions_they_stand_for(golden_frame, golden_plans):
    found = evaluate(golden_frame.assign(keep_prob=[1, 0.5, 1, 0.25, 1]), plans=golden_plans)
    assert values(found) == pytest.approx(KEPT, abs=1e-6)
    assert found.verdict("ips").ess == pytest.approx(2.805260, abs=1e-6)
    assert found.verdict("ips").mean_weight == pytest.approx(1.070370, abs=1e-6)
    assert found.verdict("ips").n == 5


def test_rows_without_reward_or_propensity_are_counted_and_left_out(golden_frame, golden_plans):
    extra = golden_frame.iloc[[0, 1, 2]].assign(
        decision_id=["x", "y", "z"],
        reward=[None, None, 0.5],
        drawn=[True, True, False],
        propensity=[0.5, 0.6, None],
    )
    log = pd.concat([golden_frame.assign(drawn=True), extra], ignore_index=True)
    found = evaluate(log, plans=golden_plans)
    assert values(found) == pytest.approx(VALUES, abs=1e-6)
    assert {v.n_null_reward for v in found.verdicts} == {2}
    assert (found.log.n_rows, found.log.n_used, found.log.n_null_propensity) == (8, 5, 1)
    assert [note.split(" rows")[0] for note in found.notes[:2]] == ["1", "2"]
    assert found.positions.tolist() == [0, 1, 2, 3, 4]


def test_a_log_without_a_usable_row_refuses_everything(golden_frame, golden_plans):
    found = evaluate(golden_frame.assign(reward=np.nan), plans=golden_plans)
    assert found.is_refused
    assert {v.value for v in found.verdicts} == {None}
    assert all("no data" in v.reason for v in found.verdicts)
    assert {v.n_null_reward for v in found.verdicts} == {5}


def test_the_probability_of_the_plan_taken_is_enough_for_weights_alone(golden_frame):
    log = golden_frame.drop(columns=["propensities", "feasible", "target_propensities", "q_all"])
    found = evaluate(log.assign(target_propensity=[0.7, 0.1, 0.6, 0.5, 0.4]))
    assert found.verdict("ips").value == pytest.approx(0.6825)
    assert found.verdict("dr").status == "refused"
    assert "which plans there are" in found.verdict("dr").reason
    assert found.verdict("ips").unsupported_mass is None
    assert any("Unsupported target mass is unknown" in note for note in found.notes)


def test_targets_may_be_named_or_given_as_probabilities(golden_frame, golden_plans):
    log = golden_frame.drop(columns="target_propensities")
    given = np.array(golden_frame["target_propensities"].tolist())
    assert values(evaluate(log, given, plans=golden_plans)) == pytest.approx(VALUES, abs=1e-6)
    taken = np.array([0.7, 0.1, 0.6, 0.5, 0.4])
    assert evaluate(log, taken, plans=golden_plans).verdict("ips").value == pytest.approx(0.6825)
    uniform = evaluate(log, "uniform", plans=golden_plans)
    thirds = np.array([1, 1, 1, 1.5, 1]) / 3
    weight = thirds / golden_frame["propensity"]
    assert uniform.weight == pytest.approx(weight)


def test_the_logging_policy_as_target_gives_the_mean_reward(world):
    found = evaluate(world(), "logging")
    mean = world()["reward"].mean()
    assert found.verdict("ips").value == pytest.approx(mean)
    assert found.verdict("snips").value == pytest.approx(mean)
    assert found.verdict("ips").mean_weight == pytest.approx(1)


def test_a_known_value_lies_within_both_intervals(world):
    found = evaluate(world(n=3000, seed=3))
    truth = 0.1 * 0.2 + 0.1 * 0.2 + 0.8 * 0.8
    for name in ("ips", "snips", "dr", "sndr"):
        verdict = found.verdict(name)
        assert verdict.interval[0] <= truth <= verdict.interval[1]
    for detail in found.intervals:
        assert detail.n_units == 1500
        if detail.estimator == "dm":
            continue
        assert detail.bootstrap == pytest.approx(detail.unit_t, abs=0.02)
    assert found.model.calibration.error < 0.05


def test_a_model_alone_has_a_value_and_no_interval(world):
    found = evaluate(world(n=600), against="logging")
    verdict = found.verdict("dm")
    assert verdict.status == "ok"
    assert verdict.interval is None
    assert "model-based" in verdict.reason
    assert {d.interval for d in found.differences if d.estimator == "dm"} == {None}


def test_the_bootstrap_interval_can_be_the_verdicts_own(world):
    found = evaluate(world(), interval="bootstrap", estimators=["ips"], n_resamples=500)
    (detail,) = found.intervals
    assert found.verdicts[0].interval == detail.bootstrap
    assert detail.n_resamples == 500
    again = evaluate(world(), interval="bootstrap", estimators=["ips"], n_resamples=500)
    assert again.verdicts[0].interval == detail.bootstrap


def test_too_few_units_for_a_bootstrap_leave_none(world):
    found = evaluate(world(n=120), interval="bootstrap", estimators=["ips"])
    assert found.verdicts[0].interval is None
    assert "fewer than 100 units" in found.verdicts[0].reason
    assert found.intervals[0].unit_t is not None


def test_units_and_not_rows_are_what_an_interval_counts(world):
    log = world(n=600, rows_per_unit=30)
    assert evaluate(log, estimators=["ips"]).verdicts[0].interval is None
    by_row = evaluate(log, estimators=["ips"], units="decision_id")
    assert by_row.verdicts[0].interval is not None
    labels = evaluate(log, estimators=["ips"], units=list(range(600)))
    assert labels.verdicts[0].interval == by_row.verdicts[0].interval


def test_weights_that_do_not_average_to_one_are_refused(world):
    log = world(n=2000)
    doubled = log.assign(propensity=log["propensity"] * 0.5).drop(columns="propensities")
    found = evaluate(doubled, plans=["a", "b", "c"])
    for name in ("ips", "snips", "dr", "sndr"):
        assert found.verdict(name).value is None
        assert "the weights average 1.9" in found.verdict(name).reason
    assert found.verdict("dm").status == "ok"
    assert "ips" not in found.contributions


def test_target_mass_where_nothing_is_logged_is_refused(world):
    log = world(n=400)
    never = np.array([0.6, 0.4, 0.0])
    taken = np.where(log["plan"] == "c", "a", log["plan"])
    log = log.assign(
        plan=taken,
        propensities=[never.tolist()] * 400,
        propensity=[never["abc".index(plan)] for plan in taken],
        target_propensities=[[0.58, 0.39, 0.03]] * 400,
    )
    found = evaluate(log, plans=["a", "b", "c"])
    refused = found.verdict("ips")
    assert refused.unsupported_mass == pytest.approx(0.03)
    assert refused.value is None
    assert found.verdict("dm").status == "ok"
    slight = log.assign(target_propensities=[[0.6, 0.395, 0.005]] * 400)
    assert evaluate(slight, plans=["a", "b", "c"]).verdict("ips").status == "ok"


def test_paired_differences_are_tighter_than_two_intervals(world):
    found = evaluate(world(n=2000), against="logging")
    difference = {d.estimator: d for d in found.differences}["snips"]
    assert difference.value == pytest.approx(found.verdict("snips").value - found.logging.value)
    verdict = found.verdict("snips")
    width = difference.interval[1] - difference.interval[0]
    sum_of_widths = np.diff(verdict.interval)[0] + np.diff(found.logging.interval)[0]
    assert width < sum_of_widths
    assert difference.against == "logging"


def test_a_policy_does_not_differ_from_itself(world):
    found = evaluate(world(n=400), against="columns")
    for difference in found.differences:
        assert difference.value == pytest.approx(0)
        if difference.estimator != "dm":
            assert difference.interval == pytest.approx((0, 0))


def test_a_refused_side_refuses_the_difference(world):
    log = world(n=400)
    nothing = log.assign(target_propensity=0.0).drop(columns="target_propensities")
    found = evaluate(nothing, "uniform", against="columns", estimators=["ips"], plans=list("abc"))
    assert found.differences[0].value is None
    assert found.differences[0].reason.startswith("columns: no overlap")


def test_segments_are_evaluated_apart(world):
    log = world(n=1000)
    log.loc[:9, "reward"] = None
    found = evaluate(log, by="segment")
    assert [segment.value for segment in found.segments] == ["new", "old"]
    for segment in found.segments:
        part = log[log["x_segment"] == segment.value]
        used = part["reward"].notna()
        assert {v.n for v in segment.verdicts} == {int(used.sum())}
        assert {v.n_null_reward for v in segment.verdicts} == {int((~used).sum())}
        alone = evaluate(part, plans=["a", "b", "c"], estimators=["snips"])
        assert segment.verdicts[1].value == pytest.approx(alone.verdicts[0].value)


def test_an_identifier_is_no_segment(world):
    with pytest.raises(LogError, match="300 values"):
        evaluate(world(n=600), by="unit_id")


def test_the_reserve_and_the_rest_make_up_the_log(world):
    log = world(n=600)
    parts = {split: evaluate(log, split=split).log for split in ("all", "reserve", "train")}
    n_reserved = sum(is_reserved(unit) for unit in log["unit_id"])
    assert parts["reserve"].n_rows == n_reserved
    assert parts["train"].n_rows == 600 - n_reserved
    assert parts["all"].n_rows == 600


def test_declared_propensities_are_said_to_be_declared(world):
    log = world(n=600).drop(columns=["propensity", "propensities", "target_propensities"])
    found = evaluate(log, "uniform", plans=list("abc"), propensity_constant=1 / 3)
    assert found.log.propensity_declared
    assert "The propensities were declared, not logged." in found.notes
    assert found.verdict("ips").value == pytest.approx(log["reward"].mean())


def test_a_log_read_before_may_be_restated(world):
    log = open_log(world(n=200), plans=["a", "b", "c"]).log
    assert evaluate(log, estimators=["ips"]).log.reward_range == (0, 1)
    assert evaluate(log, estimators=["ips"], reward_range=(0, 5)).log.reward_range == (0, 5)
    with pytest.raises(LogError, match=r"row .*reward.*--range"):
        evaluate(log, reward_range=(0, 0.5))
    with pytest.raises(LogError, match="read before"):
        evaluate(log, propensity_constant=0.5)
    with pytest.raises(LogError, match="differ from the log's"):
        evaluate(log, plans=["c", "b", "a"])


def test_contributions_are_paired_with_the_rows_they_come_from(world):
    found = evaluate(world(n=300))
    for name, parts in found.contributions.items():
        assert parts.shape == (300,)
        assert parts.mean() == pytest.approx(found.verdict(name).value)


def test_a_log_of_too_few_units_has_no_model(golden_frame, golden_plans):
    log = golden_frame.drop(columns="q_all").assign(unit_id=list("AABBB"))
    found = evaluate(log, plans=golden_plans)
    assert "2 units cannot be split into 3 folds" in found.verdict("dm").reason
    assert found.verdict("ips").status == "ok"


def test_a_model_asked_for_is_fitted_although_the_log_has_predictions(world):
    log = world(n=300).assign(q_all=[[0.5, 0.5, 0.5]] * 300)
    assert "own predictions" in evaluate(log, plans=list("abc")).model.source
    fitted = evaluate(log, plans=list("abc"), reward_model=RewardModelSpec()).model
    assert "logistic regression" in fitted.source


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"estimators": ["magic"]}, ConfigError, "knows no 'magic'.*ips, snips"),
        ({"estimators": []}, ConfigError, "each name once"),
        ({"estimators": ["ips", "ips"]}, ConfigError, "each name once"),
        ({"level": 1.0}, ConfigError, "--level"),
        ({"interval": "wald"}, ConfigError, "unit-t, bootstrap"),
        ({"split": "test"}, ConfigError, "all, reserve, train"),
        ({"target": "uniform", "policy": "folder"}, ConfigError, "two targets"),
        ({"by": "color"}, LogError, "no column 'color'"),
        ({"units": "household"}, LogError, "no column 'household'"),
        ({"units": [1, 2]}, ShapeMismatchError, "units"),
        ({"target": np.ones(3)}, ShapeMismatchError, "target"),
        ({"target": np.full((60, 2), 0.5)}, ShapeMismatchError, "target"),
        ({"target": np.full((60, 3), 0.5)}, RangeError, "target, row 1: expected a sum of 1"),
        ({"target": np.full(60, 1.5)}, RangeError, "target, row 1"),
        ({"reward_model": RewardModelSpec(reward_by="color")}, LogError, "--reward-by"),
        ({"reward_model": RewardModelSpec(encode_plans="ordinal")}, ConfigError, "no catalog"),
    ],
)
def test_impossible_requests_raise_and_say_what_to_do(world, arguments, error, message):
    with pytest.raises(error, match=message):
        evaluate(world(n=60), plans=["a", "b", "c"], **arguments)


def test_a_log_that_names_no_target_or_no_plans_says_so(golden_frame, golden_plans):
    bare = golden_frame.drop(columns=["propensities", "feasible", "target_propensities", "q_all"])
    with pytest.raises(LogError, match="names no policy to evaluate"):
        evaluate(bare, plans=golden_plans)
    with pytest.raises(LogError, match="--plans or --catalog"):
        evaluate(bare, "uniform")
    with pytest.raises(LogError, match="row 2, column plan"):
        evaluate(open_log(bare).log, "uniform", plans=["a", "c"])
    with pytest.raises(LogError, match="a data frame, a file or a decision log"):
        evaluate(42)


def test_asking_for_a_verdict_that_was_not_asked_for_says_so(golden_frame, golden_plans):
    found = evaluate(golden_frame, plans=golden_plans, estimators=["ips"])
    with pytest.raises(LookupError, match="there are: ips"):
        found.verdict("dr")


def test_a_notebook_shows_the_verdicts(golden_frame, golden_plans):
    shown = evaluate(golden_frame, plans=golden_plans)._repr_html_()
    assert "<td>ips</td>" in shown
    assert "0.6825" in shown
