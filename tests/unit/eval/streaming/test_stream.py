"""A log read in passing says what it says in memory, whatever its files and batches."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner

from canopy.domain.errors import ConfigError, LogError
from canopy.logs.batches import open_batches
from eval.assessment import Judging
from eval.estimator_names import parse_estimators
from eval.evaluate_cli import evaluate as command
from eval.report import evaluate
from eval.reward_models import RewardModelSpec
from eval.stream import Streaming, evaluate_stream
from eval.unit_ledger import Limits
from eval.usable_rows import Split
from tests.unit.eval.streaming.conftest import ASKED, PLANS, make_frame


def same(ours, theirs, place=""):
    """Equal documents, numbers within rounding; calibration bins apart, which may differ."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), place
        for name in theirs:
            if name != "calibration":
                same(ours[name], theirs[name], f"{place}.{name}")
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), place
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            same(one, other, f"{place}[{i}]")
    elif isinstance(theirs, float) and isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-12), place
    else:
        assert ours == theirs, place


def test_one_file_says_what_it_says_in_memory(parquet, in_memory):
    found = evaluate(parquet, stream=True, **ASKED)
    same(found.document(), in_memory.document())
    assert np.array_equal(found.histogram.counts, in_memory.histogram.counts)
    theirs = in_memory.model.calibration
    assert found.model.calibration.mean_predicted == pytest.approx(theirs.mean_predicted)
    assert found.model.calibration.error == pytest.approx(theirs.error, abs=0.01)


@pytest.mark.parametrize("cuts", [(1,), (7, 500), (300, 301, 900)])
def test_how_rows_are_spread_over_files_means_nothing(cuts, frame, write, in_memory, tmp_path):
    edges = [0, *cuts, len(frame)]
    for number, (start, end) in enumerate(pairwise(edges)):
        write(tmp_path / "log" / f"part-{number}.parquet", frame.iloc[start:end])
    found = evaluate(tmp_path / "log", **ASKED)
    same(found.document(), in_memory.document())


@pytest.mark.parametrize("batch_rows", [64, 1_000])
def test_the_size_of_batches_means_nothing(batch_rows, parquet, in_memory):
    batches = open_batches(parquet)
    judging = Judging(parse_estimators(ASKED["estimators"]))
    how = Streaming(None, None, Split.ALL, None, ASKED["against"], ASKED["by"], None)

    class Small:
        facts = batches.facts
        names = batches.names

        def read(self, columns, *, propensity_constant):
            return batches.read(
                columns, propensity_constant=propensity_constant, batch_rows=batch_rows
            )

    same(evaluate_stream(Small(), judging, how).document(), in_memory.document())


def test_partitioned_folders_are_columns(frame, write, tmp_path):
    for name, rows in frame.groupby(frame.index % 3):
        write(tmp_path / "log" / f"tenant=t{name}" / "part.parquet", rows)
    found = evaluate(tmp_path / "log", by="tenant", estimators=["ips", "dr"])
    assert [s.value for s in found.segments] == ["t0", "t1", "t2"]
    alone = evaluate(frame[frame.index % 3 == 1], plans=PLANS, estimators=["ips", "dr"])
    assert found.segments[1].verdicts[0].value == pytest.approx(alone.verdict("ips").value)
    assert found.segments[1].verdicts[0].interval == pytest.approx(alone.verdict("ips").interval)


def test_csv_is_read_in_passing_too(frame, write, tmp_path, in_memory):
    path = write(tmp_path / "log.csv", frame)
    found = evaluate(path, stream=True, plans=PLANS, **ASKED)
    for ours, theirs in zip(found.verdicts, in_memory.verdicts, strict=True):
        assert ours.value == pytest.approx(theirs.value, rel=1e-9)


def test_a_named_target_and_one_on_factors_of_a_catalog(frame, write, tmp_path):
    path = write(tmp_path / "log.parquet", frame)
    for target in ("uniform", "logging", "columns"):
        kept = evaluate(path, target, stream=False, estimators=["ips", "dr"]).document()
        same(evaluate(path, target, stream=True, estimators=["ips", "dr"]).document(), kept)


@pytest.mark.parametrize("split", ["reserve", "train"])
def test_splits_and_units_of_another_column(split, parquet):
    more = {"split": split, "units": "segment", "estimators": ["ips", "sndr"]}
    same(
        evaluate(parquet, stream=True, **more).document(),
        evaluate(parquet, stream=False, **more).document(),
    )


def test_too_many_units_are_merged_and_the_verdict_hardly_moves(tmp_path, write):
    frame = make_frame(n=6_000, n_units=3_000, seed=3)
    path = write(tmp_path / "log.parquet", frame)
    names = ["ips", "snips", "dr", "sndr"]
    judging = Judging(parse_estimators(names), n_resamples=800)
    exact = evaluate(path, stream=False, estimators=names, n_resamples=800)
    how = Streaming(None, None, Split.ALL, None, None, None, None)
    merged = evaluate_stream(
        open_batches(path), judging, replace(how, limits=Limits(most_units=500, groups=1_024))
    )
    assert any("too many to be kept apart" in note for note in merged.notes)
    assert merged.log.n_units == pytest.approx(exact.log.n_units, rel=0.05)
    for ours, theirs in zip(merged.intervals, exact.intervals, strict=True):
        assert ours.std_err == pytest.approx(theirs.std_err, rel=0.1)
        assert ours.unit_t == pytest.approx(theirs.unit_t, abs=0.3 * theirs.std_err)
        assert ours.bootstrap == pytest.approx(theirs.bootstrap, abs=0.5 * theirs.std_err)
        assert (ours.n_resamples, theirs.n_resamples) == (800, 800)
    for ours, theirs in zip(merged.verdicts, exact.verdicts, strict=True):
        assert ours.value == pytest.approx(theirs.value, rel=1e-9)
        assert ours.ess == pytest.approx(theirs.ess, rel=1e-9)


def test_without_predictions_of_its_own_the_model_based_are_refused_with_the_remedy(
    frame, write, tmp_path
):
    path = write(tmp_path / "log.parquet", frame.drop(columns=["q_all"]))
    found = evaluate(path, stream=True)
    assert found.verdict("ips").status == "ok"
    assert "log q_all" in found.verdict("dr").reason
    assert found.model is None


def test_a_fault_is_named_by_its_row_in_the_whole_log(frame, write, tmp_path):
    write(tmp_path / "log" / "part-0.parquet", frame.iloc[:700])
    bad = frame.iloc[700:].copy()
    path = write(tmp_path / "log" / "part-1.parquet", bad)
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    rewards = table.column("reward").to_pylist()
    rewards[42] = 7.0
    position = table.column_names.index("reward")
    pq.write_table(table.set_column(position, "reward", [rewards]), path)
    with pytest.raises(LogError, match="row 743, column reward"):
        evaluate(tmp_path / "log")


def test_no_usable_row_is_a_refusal_and_no_crash(frame, write, tmp_path):
    path = write(tmp_path / "log.parquet", frame.assign(reward=np.nan))
    found = evaluate(path, stream=True)
    assert found.is_refused
    assert (found.log.n_used, found.log.n_rows) == (0, len(frame))
    same(found.verdicts[0].document(), evaluate(path, stream=False).verdicts[0].document())


def test_a_column_of_many_values_is_no_segmentation(parquet):
    with pytest.raises(LogError, match="more than 100 values"):
        evaluate(parquet, stream=True, by="decision_id", estimators=["ips"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": np.full(1_200, 0.5)}, "target_propensities"),
        ({"units": ["a"] * 1_200}, "Name a column"),
        ({"reward_model": RewardModelSpec()}, "q_all"),
    ],
)
def test_what_cannot_come_in_passing_is_refused_with_its_remedy(more, message, parquet):
    with pytest.raises(ConfigError, match=message):
        evaluate(parquet, stream=True, **more)


def test_folders_that_are_no_log_are_refused(tmp_path, frame, write):
    with pytest.raises(LogError, match=r"holds no \.parquet file"):
        evaluate(tmp_path)
    with pytest.raises(LogError, match="no such file"):
        evaluate(tmp_path / "nowhere", stream=True)
    plain = frame.drop(columns=["propensities", "target_propensities", "q_all"])
    write(tmp_path / "log" / "a.parquet", plain.iloc[:10])
    write(tmp_path / "log" / "b.parquet", plain.iloc[10:20], plans=PLANS[::-1])
    with pytest.raises(LogError, match="says other things"):
        evaluate(tmp_path / "log")
    (tmp_path / "log" / "b.parquet").write_text("not parquet")
    with pytest.raises(LogError, match="not a Parquet file"):
        evaluate(tmp_path / "log")


def test_the_command_streams_on_demand_and_for_folders(parquet, tmp_path):
    def run(*words):
        return CliRunner().invoke(command, [str(word) for word in words])

    kept = json.loads(run(parquet, "--json", "--no-stream").stdout)
    same(json.loads(run(parquet, "--json", "--stream").stdout), kept)
    same(json.loads(run(parquet.parent, "--json").stdout), kept)
    out = tmp_path / "report.html"
    assert run(parquet, "--stream", "--html", out, "--by", "segment").exit_code == 0
    assert out.read_text().count("<svg") == 4


def test_rows_read_are_told(parquet):
    told = []
    evaluate(parquet, stream=True, estimators=["ips"], on_rows=told.append)
    assert sum(told) == 1_200
