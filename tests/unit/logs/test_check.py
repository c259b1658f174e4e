"""Every bad log is refused by row and column, and nothing is guessed."""

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canopy.domain.errors import LogError
from canopy.logs.tabular import check_log, read_log, read_table

HEADER = ("decision_id", "unit_id", "ts", "plan", "propensity", "reward")
FEASIBLE = {"a": True, "b": True, "c": False}
ROW = {
    "decision_id": "d", "unit_id": "u", "ts": "2026-01-31T08:00:00Z", "plan": "a",
    "propensity": "0.5", "reward": "1",
}  # fmt: skip


def rows(n=4, **changes):
    """Sound rows; `changes` give the cells of row 3."""
    made = [ROW | {"decision_id": f"d{i}", "unit_id": f"u{i}"} for i in range(1, n + 1)]
    for row in made:
        row.update({name: changes.get(f"_{name}", "") for name in changes if name not in HEADER
                    and not name.startswith("_")})  # fmt: skip
    made[2].update({name: cell for name, cell in changes.items() if not name.startswith("_")})
    return made


def csv(path, made, names=None):
    names = names or list(made[0])
    lines = [",".join(names)]
    lines += [",".join(_quoted(row.get(name, "")) for name in names) for row in made]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _quoted(cell):
    return '"' + str(cell).replace('"', '""') + '"' if set(str(cell)) & set('",\n') else str(cell)


def only_fault(found):
    assert found.n_faults == 1, found.faults
    return found.faults[0]


def test_a_sound_log_has_no_fault(tmp_path):
    found = check_log(csv(tmp_path / "log.csv", rows()))
    assert found.is_clean
    assert found.n_rows == 4


@pytest.mark.parametrize(
    ("cells", "column", "problem"),
    [
        ({"propensity": ""}, "propensity", "missing"),
        ({"propensity": "null"}, "propensity", "missing"),
        ({"propensity": "0"}, "propensity", "greater than 0"),
        ({"propensity": "-0.1"}, "propensity", "greater than 0"),
        ({"propensity": "NaN"}, "propensity", "NaN"),
        ({"propensity": "1.2"}, "propensity", "at most 1"),
        ({"propensity": "inf"}, "propensity", "at most 1"),
        ({"propensity": "high"}, "propensity", "expected a number"),
        ({"propensity": "1_0"}, "propensity", "expected a number"),
        ({"reward": "1.5"}, "reward", "range 0 to 1"),
        ({"reward": "-1e-9"}, "reward", "range 0 to 1"),
        ({"reward": "nan"}, "reward", "NaN"),
        ({"decision_id": "d2"}, "decision_id", "row 2"),
        ({"decision_id": ""}, "decision_id", "empty"),
        ({"unit_id": " "}, "unit_id", "empty"),
        ({"plan": ""}, "plan", "empty"),
        ({"ts": ""}, "ts", "empty"),
        ({"ts": "2026-01-31T08:00:00"}, "ts", "no offset"),
        ({"ts": "yesterday"}, "ts", "ISO 8601"),
        ({"keep_prob": "0", "_keep_prob": "1"}, "keep_prob", "greater than 0"),
        ({"keep_prob": "1.5", "_keep_prob": "1"}, "keep_prob", "at most 1"),
        ({"keep_prob": "", "_keep_prob": "1"}, "keep_prob", "empty"),
        ({"target_propensity": "-0.105", "_target_propensity": "0"}, "target_propensity",
         "between 0 and 1"),
        ({"target_propensity": "", "_target_propensity": "0"}, "target_propensity", "empty"),
        ({"q": "inf", "_q": "0"}, "q", "finite"),
        ({"drawn": "maybe", "_drawn": "true"}, "drawn", "true or false"),
        ({"x_age": "inf", "_x_age": "1"}, "x_age", "infinite"),
    ],
)  # fmt: skip
def test_a_bad_cell_in_row_three_is_named_by_row_and_column(tmp_path, cells, column, problem):
    fault = only_fault(check_log(csv(tmp_path / "log.csv", rows(**cells))))
    assert (fault.row, fault.column) == (3, column)
    assert problem in fault.problem
    assert fault.remedy


def test_reading_a_bad_log_names_file_row_and_column(tmp_path):
    path = csv(tmp_path / "log.csv", rows(propensity=""))
    with pytest.raises(LogError, match=r"log\.csv: row 3, column propensity") as raised:
        read_log(path)
    assert "no default" in str(raised.value)


def test_an_empty_reward_is_unmeasured_and_allowed(tmp_path):
    log = read_log(csv(tmp_path / "log.csv", rows(reward="")))
    assert np.isnan(log.column("reward")).tolist() == [False, False, True, False]
    assert log.table.column("reward").null_count == 1


def test_a_declared_range_admits_other_rewards(tmp_path):
    path = csv(tmp_path / "log.csv", rows(reward="-3"))
    assert not check_log(path).is_clean
    assert check_log(path, reward_range=(-5, 5)).is_clean


def test_an_impossible_range_is_refused(tmp_path):
    with pytest.raises(LogError, match="least first"):
        check_log(csv(tmp_path / "log.csv", rows()), reward_range=(1, 0))


def per_plan_rows(**changes):
    base = {
        "_feasible": json.dumps(FEASIBLE),
        "_propensities": json.dumps({"a": 0.5, "b": 0.5}),
    }
    return rows(**{"feasible": base["_feasible"], "propensities": base["_propensities"]}
                | base | changes)  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "column", "problem"),
    [
        ({"plan": "c", "propensity": "0.5", "propensities": '{"a": 0.5, "c": 0.5}'},
         "plan", "not feasible"),
        ({"plan": "z"}, "plan", "none of the log's 4 plans"),
        ({"propensities": '{"a": 0.5, "b": 0.6}'}, "propensities", "sums to 1.1"),
        ({"propensities": '{"a": 0.5, "b": 0.3, "c": 0.2}'}, "propensities", "not feasible"),
        ({"propensities": '{"a": 0.4, "b": 0.6}'}, "propensities", "propensity says 0.5"),
        ({"propensities": '{"a": 1.5, "b": -0.5}'}, "propensities", "between 0 and 1"),
        ({"propensities": '{"a": 0.5, "b": "x"}'}, "propensities", "expected numbers"),
        ({"propensities": "{broken"}, "propensities", "JSON"),
        ({"propensities": "0.5"}, "propensities", "JSON"),
        ({"propensities": ""}, "propensities", "empty"),
        ({"feasible": ""}, "feasible", "empty"),
        ({"feasible": '{"a": 0.5, "b": 1}'}, "feasible", "true and false"),
        ({"target_propensities": '{"a": 0.5, "c": 0.5}', "_target_propensities": '{"a": 1}'},
         "target_propensities", "not feasible"),
        ({"q_all": '{"a": 0.5}', "_q_all": '{"a": 1, "b": 0.5}'}, "q_all", "no finite prediction"),
    ],
)  # fmt: skip
def test_a_bad_cell_per_plan_is_named_by_row_and_column(tmp_path, cells, column, problem):
    path = csv(tmp_path / "log.csv", per_plan_rows(**cells))
    plans = ("a", "b", "c", "d") if "none of" in problem else ("a", "b", "c")
    found = check_log(path, plans=plans)
    faults = {(fault.row, fault.column): fault for fault in found.faults}
    assert (3, column) in faults, found.faults
    assert problem in faults[3, column].problem
    assert {fault.row for fault in found.faults} == {3}


def test_target_columns_that_disagree_at_the_plan_taken_are_refused(tmp_path):
    made = per_plan_rows(
        target_propensities='{"a": 0.2, "b": 0.8}', _target_propensities='{"a": 0.2, "b": 0.8}',
        target_propensity="0.3", _target_propensity="0.2",
    )  # fmt: skip
    fault = only_fault(check_log(csv(tmp_path / "log.csv", made)))
    assert (fault.row, fault.column) == (3, "target_propensities")


def test_a_drawn_plan_outside_its_feasible_set_is_refused_but_an_imposed_one_is_not(tmp_path):
    feasible = {"feasible": '{"b": true}', "_feasible": '{"a": true, "b": true}'}
    drawn = csv(tmp_path / "drawn.csv", rows(**feasible))
    fault = only_fault(check_log(drawn))
    assert (fault.row, fault.column) == (3, "plan")
    imposed = rows(**feasible, propensity="", drawn="false", _drawn="true")
    assert check_log(csv(tmp_path / "imposed.csv", imposed)).is_clean


def test_a_plan_that_was_not_drawn_must_not_have_a_propensity(tmp_path):
    made = rows(drawn="false", _drawn="true")
    fault = only_fault(check_log(csv(tmp_path / "log.csv", made)))
    assert (fault.row, fault.column) == (3, "propensity")
    assert "drawn is false" in fault.problem


def test_lists_without_an_order_are_refused_and_with_one_are_read(tmp_path):
    made = rows(propensities="[0.5, 0.5]", _propensities="[0.5, 0.5]")
    path = csv(tmp_path / "log.csv", made)
    fault = only_fault(check_log(path))
    assert (fault.row, fault.column) == (None, "propensities")
    assert "--plans" in fault.remedy
    log = read_log(path, plans=["a", "b"])
    assert log.matrix("propensities").tolist() == [[0.5, 0.5]] * 4


def test_a_list_of_another_length_is_refused(tmp_path):
    made = rows(propensities="[0.5, 0.25, 0.25]", _propensities="[0.5, 0.5]")
    fault = only_fault(check_log(csv(tmp_path / "log.csv", made), plans=["a", "b"]))
    assert (fault.row, fault.column) == (3, "propensities")
    assert "3 entries" in fault.problem


def test_objects_by_plan_id_need_no_order(tmp_path):
    made = rows(propensities='{"b": 0.5, "a": 0.5}', _propensities='{"a": 0.5, "b": 0.5}')
    log = read_log(csv(tmp_path / "log.csv", made))
    assert log.plans == ("a", "b")
    assert log.matrix("propensities")[2].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", HEADER)
def test_a_mandatory_column_that_is_missing_is_named(tmp_path, name):
    names = [other for other in HEADER if other != name]
    fault = only_fault(check_log(csv(tmp_path / "log.csv", rows(), names)))
    assert (fault.row, fault.column) == (None, name)
    assert "missing" in fault.problem


def test_a_renamed_propensity_is_refused_with_the_right_name(tmp_path):
    made = [{("propensty" if k == "propensity" else k): v for k, v in row.items()}
            for row in rows()]  # fmt: skip
    found = check_log(csv(tmp_path / "log.csv", made))
    assert found.counts == {"propensty": 1, "propensity": 1}
    assert any("Rename it to propensity" in fault.remedy for fault in found.faults)


def test_a_declared_constant_fills_a_log_without_propensities_and_is_marked(tmp_path):
    names = [name for name in HEADER if name != "propensity"]
    path = csv(tmp_path / "log.csv", rows(), names)
    log = read_log(path, propensity_constant=0.25)
    assert log.facts.propensity_declared
    assert log.column("propensity").tolist() == [0.25] * 4


def test_a_declared_constant_never_overrules_logged_propensities(tmp_path):
    found = check_log(csv(tmp_path / "log.csv", rows()), propensity_constant=0.25)
    assert found.counts == {"propensity": 4}
    assert "0.5" in found.faults[0].problem


@pytest.mark.parametrize("constant", [0, -1, 1.5, float("nan")])
def test_an_impossible_constant_is_refused(tmp_path, constant):
    with pytest.raises(LogError, match="--propensity-constant"):
        check_log(csv(tmp_path / "log.csv", rows()), propensity_constant=constant)


def test_a_short_row_is_named_and_the_rows_after_it_keep_their_numbers(tmp_path):
    path = csv(tmp_path / "log.csv", rows(n=5))
    lines = path.read_text().splitlines()
    lines[2] = "d2,u2"
    lines[4] = lines[4].replace("0.5", "0")
    path.write_text("\n".join(lines) + "\n")
    found = check_log(path)
    assert [(fault.row, fault.column) for fault in found.faults] == [
        (2, "(whole row)"), (4, "propensity"),
    ]  # fmt: skip


def test_at_most_twenty_faults_are_listed_and_all_are_counted(tmp_path):
    made = [row | {"propensity": "2", "reward": "7"} for row in rows(n=50)]
    found = check_log(csv(tmp_path / "log.csv", made))
    assert len(found.faults) == 20
    assert found.counts == {"propensity": 50, "reward": 50}
    assert found.faults[0].row == 1
    with pytest.raises(LogError, match="And 99 more"):
        read_log(tmp_path / "log.csv")


def test_unreadable_files_are_refused_by_name(tmp_path):
    with pytest.raises(LogError, match="no such file"):
        check_log(tmp_path / "none.csv")
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    with pytest.raises(LogError, match="empty"):
        check_log(empty)
    junk = tmp_path / "junk.parquet"
    junk.write_bytes(b"not parquet")
    with pytest.raises(LogError, match="not a Parquet file"):
        check_log(junk)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("decision_id,größe\n".encode("latin-1"))
    with pytest.raises(LogError, match="UTF-8"):
        check_log(latin)
    twins = tmp_path / "twins.csv"
    twins.write_text("plan,plan\na,b\n")
    with pytest.raises(LogError, match="stands twice"):
        check_log(twins)


def arrow(**changes):
    columns = {
        "decision_id": ["1", "2"], "unit_id": [1, 2],
        "ts": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("ms", "Europe/Paris")),
        "plan": pa.array(["a", "b"]).dictionary_encode(), "propensity": [0.5, 0.5],
        "reward": [1, None],
    } | changes  # fmt: skip
    return pa.table(columns)


def test_parquet_types_are_brought_to_the_canonical_ones(tmp_path):
    pq.write_table(arrow(x_flag=[True, None], x_tags=[["p"], []]), tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet")
    assert log.table.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert log.column("unit_id").tolist() == ["1", "2"]
    assert log.column("plan").tolist() == ["a", "b"]
    assert log.context()["flag"].tolist() == [True, None]
    assert log.context()["tags"].tolist() == [["p"], []]


def test_naive_times_in_parquet_are_refused():
    naive = pa.array([datetime(2026, 1, 1)] * 2, pa.timestamp("us"))  # noqa: DTZ001
    with pytest.raises(LogError, match="no time zone"):
        read_table(arrow(ts=naive))


def test_nan_in_parquet_is_refused_where_null_is_allowed():
    with pytest.raises(LogError, match="row 2, column reward"):
        read_table(arrow(reward=pa.array([1.0, float("nan")], from_pandas=False)))


@pytest.mark.parametrize("name", ["propensity", "reward", "ts", "drawn", "x_when"])
def test_columns_of_an_impossible_type_are_refused(name):
    with pytest.raises(LogError, match=f"column {name}"):
        read_table(arrow(**{name: [{"a": 1}, {"a": 2}]}))


def test_metadata_that_lies_is_refused():
    table = arrow().replace_schema_metadata({"canopy.kind": "guessed"})
    with pytest.raises(LogError, match="metadata"):
        read_table(table)


def test_plain_plans_metadata_of_other_tools_gives_the_order():
    table = arrow(propensities=[[0.5, 0.5], [0.5, 0.5]])
    log = read_table(table.replace_schema_metadata({"plans": '["a", "b"]'}))
    assert log.plans == ("a", "b")
    with pytest.raises(LogError, match="another order"):
        read_table(table.replace_schema_metadata({"plans": '["a", "b"]'}), plans=["b", "a"])
