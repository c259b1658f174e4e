"""Decision-service JSON: imported whole, or refused by file, line and field."""

import gzip
import json
from datetime import UTC, datetime

import numpy as np
import pytest

from canopy.domain.errors import LogError
from canopy.logs.dsjson import is_dsjson, read_dsjson
from canopy.logs.tabular import log_of
from policy.catalog import parse_catalog


def event(number=1, **changes):
    return {
        "_label_cost": -1.0, "_label_probability": 0.75, "_label_Action": 2, "_labelIndex": 1,
        "Timestamp": "2026-01-31T08:00:00.1234567Z", "EventId": f"e{number}", "a": [2, 1],
        "c": {"User": {"age": 30, "_secret": 1}, "_multi": [{"_tag": "tea"}, {"_tag": "milk"}]},
        "p": [0.75, 0.25], "VWState": {"m": "model-7"},
    } | changes  # fmt: skip


def written(path, *events):
    lines = (e if isinstance(e, str) else json.dumps(e) for e in events)
    path.write_text("\n".join(lines) + "\n")
    return path


def read(path, **options):
    converted = read_dsjson(path, **options)
    return log_of(converted.columns, converted.facts)


def test_a_decision_becomes_a_row(tmp_path):
    log = read(written(tmp_path / "log.json", event(pdrop=0.75)))
    assert log.plans == ("milk", "tea")
    assert log.column("plan").tolist() == ["milk"]
    assert log.column("propensity").tolist() == [0.75]
    assert log.matrix("propensities").tolist() == [[0.75, 0.25]]
    assert log.column("reward").tolist() == [1.0]
    assert log.column("keep_prob").tolist() == [0.25]
    assert log.column("policy_version").tolist() == ["model-7"]
    assert list(log.context()) == ["User.age"]
    assert log.column("ts")[0] == np.datetime64("2026-01-31T08:00:00.123456")


def test_plans_on_offer_differ_by_row_and_become_the_feasible_set(tmp_path):
    other = event(2, c={"_multi": [{"_tag": "tea"}, {"id": "rum"}]})
    log = read(written(tmp_path / "log.json", event(), other))
    assert log.plans == ("milk", "rum", "tea")
    assert log.matrix("feasible").tolist() == [[1, 0, 1], [0, 1, 1]]
    assert parse_catalog(log.catalog_text, "catalog").plan_ids == log.plans


@pytest.mark.parametrize("multi", [[{"f": 1}, {"f": 2}], [{"_tag": "x"}, {"_tag": "x"}]])
def test_plans_without_a_name_of_their_own_are_named_by_position(tmp_path, multi):
    log = read(written(tmp_path / "log.json", event(), event(2, c={"_multi": multi})))
    assert log.plans == ("action=1", "action=2")
    assert log.column("plan").tolist() == ["action=2", "action=2"]


def test_a_plan_that_was_never_shown_has_no_reward(tmp_path):
    log = read(written(tmp_path / "log.json", event(_skipLearn=True, _label_cost=0)))
    assert log.table.column("reward").null_count == 1
    assert log.column("propensity").tolist() == [0.75]


def test_a_cost_of_minus_zero_is_a_reward_of_zero(tmp_path):
    log = read(written(tmp_path / "log.json", event(_label_cost=-0.0)))
    assert str(log.column("reward")[0]) == "0.0"


def test_lines_without_a_decision_are_counted_and_said(tmp_path):
    dangling = {"RewardValue": 1.0, "EventId": "x", "EnqueuedTimeUtc": "2026-01-01T00:00:00Z"}
    path = written(tmp_path / "log.json", event(), dangling, dangling, "[CHECKPOINT INFO LINE]")
    assert read(path).n_rows == 1
    notes = " ".join(read_dsjson(path).notes)
    assert "2 outcomes without their decision" in notes
    assert "1 checkpoint" in notes


def test_a_declared_time_stands_in_for_lines_without_one(tmp_path):
    bare = {k: v for k, v in event().items() if k not in {"Timestamp", "EventId"}}
    path = written(tmp_path / "log.json", bare)
    log = read(path, timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    assert log.column("decision_id").tolist() == ["line-1"]
    with pytest.raises(LogError, match="no time zone"):
        read_dsjson(path, timestamp=datetime(2026, 1, 1))  # noqa: DTZ001


def without(name):
    return {k: v for k, v in event(2).items() if k != name}


@pytest.mark.parametrize(
    ("second", "field", "problem"),
    [
        ("{broken", "", "not JSON"),
        ("[1]", "", "object"),
        (without("Timestamp"), "Timestamp", "--timestamp"),
        (without("_label_cost"), "_label_cost", "missing"),
        (without("p"), "p", "missing"),
        (without("c"), "c", "missing"),
        (event(2, Timestamp="2026-01-31"), "Timestamp", "offset"),
        (event(2, Timestamp="soon"), "Timestamp", "soon"),
        (event(2, a=[0, 1]), "a", "from 1 to 2"),
        (event(2, a=[2, 2]), "a", "at most once"),
        (event(2, _label_Action=3, _labelIndex=2), "_label_Action", "not in"),
        (event(2, _labelIndex=0), "_labelIndex", "expected 1"),
        (event(2, p=[0.5, 0.25, 0.25]), "p", "3 probabilities for 2"),
        (event(2, p=[0.75, 0.2]), "p", "sums to"),
        (event(2, p=[1.75, -0.75]), "p", "between 0 and 1"),
        (event(2, _label_probability=0.7), "_label_probability", "`p` says"),
        (event(2, _label_probability=True), "_label_probability", "expected float"),
        (event(2, pdrop=1), "pdrop", "below 1"),
        (event(2, c={"User": {}}), "_multi", "missing"),
    ],
)
def test_an_unsound_line_is_refused_by_file_line_and_field(tmp_path, second, field, problem):
    path = written(tmp_path / "log.json", event(), second)
    with pytest.raises(LogError) as raised:
        read_dsjson(path)
    assert raised.value.place.startswith(f"{path}:2")
    assert raised.value.place.endswith(field)
    assert problem in str(raised.value)


def test_gzip_is_read_and_the_format_recognised(tmp_path):
    path = tmp_path / "log.json.gz"
    path.write_bytes(gzip.compress((json.dumps(event()) + "\n").encode()))
    assert is_dsjson(path)
    assert read(path).n_rows == 1
    assert not is_dsjson(written(tmp_path / "other.json", {"a": 1}))
    with pytest.raises(LogError, match="no line holds a decision"):
        read_dsjson(written(tmp_path / "empty.json", ""))
