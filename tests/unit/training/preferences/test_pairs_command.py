"""`canopy judge pairs`, as its user types it."""

import json

import pytest
from click.testing import CliRunner

from canopy.domain.errors import InputError
from training.preferences.pairs_cli import judge_pairs

HEADER = "item_a,item_b,judge,verdict_ab,verdict_ba,cluster\n"
ROWS = (
    "x,y,m1,a,a,p1\n"
    "x,z,m1,a,b,p1\n"
    "y,z,m1,b,a,p2\n"
    "x,y,m2,tie,tie,p1\n"
    "x,z,m2,,b,p2\n"
    "y,z,m2,a,none,p3\n"
)


def run(tmp_path, text, *words):
    path = tmp_path / "pairs.csv"
    path.write_text(text, encoding="utf-8")
    return CliRunner().invoke(judge_pairs, [str(path), *words])


def test_every_judge_is_counted_apart_and_all_together(tmp_path):
    document = json.loads(run(tmp_path, HEADER + ROWS, "--json").stdout)
    first, second, everybody = document["judges"]
    assert [d["judge"] for d in document["judges"]] == ["m1", "m2", "(all)"]
    assert first["counts"] == {
        "a": 1, "b": 0, "swap_tie": 2, "judge_tie": 0, "unparsed": 0, "incomplete": 0,
    }  # fmt: skip
    assert first["survival"] == pytest.approx(1 / 3)
    assert (first["order_bias"]["first_both"], first["order_bias"]["second_both"]) == (1, 1)
    assert second["counts"]["unparsed"] == second["counts"]["incomplete"] == 1
    assert second["survival"] == 0
    assert second["order_bias"]["p_value"] is None
    assert (everybody["n_pairs"], everybody["n_clusters"]) == (6, 3)


def test_the_table_is_for_people(tmp_path):
    found = run(tmp_path, HEADER + ROWS)
    assert found.exit_code == 0
    assert "order bias" in found.stdout
    assert "Survival is no accuracy" in found.stdout
    assert "m2" in found.stdout


def test_one_judge_is_not_summed_up_again(tmp_path):
    document = json.loads(run(tmp_path, HEADER + "x,y,m1,a,a,p\n", "--json").stdout)
    assert [d["judge"] for d in document["judges"]] == ["m1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "x,x,m,a,a,p\n", "row 1: compares 'x' with itself"),
        (HEADER + "x,y,m,a,a,p\nx,y,m,A,a,p\n", "row 2, column verdict_ab: 'A' is no verdict"),
        (HEADER + "x,y,m,a,a\n", "row 1: has 5 cells, the header 6"),
        (HEADER + "x,y,,a,a,p\n", "row 1, column judge: is blank"),
        (HEADER, "has no rows"),
        ("", "has no rows"),
        ("item_a,item_b,judge,verdict_ab,cluster\nx,y,m,a,p\n", "no column 'verdict_ba'"),
        (
            "pair_id," + HEADER + "1,x,y,m,a,a,p\n1,y,x,m,b,b,p\n",
            "row 2, column pair_id: '1' stands in row 1 too",
        ),
    ],
)
def test_a_faulty_file_is_refused_by_row_and_column(tmp_path, text, message):
    found = run(tmp_path, text)
    assert isinstance(found.exception, InputError)
    assert message in str(found.exception)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    found = CliRunner().invoke(judge_pairs, [str(tmp_path / "nowhere.csv")])
    assert "cannot be read" in str(found.exception)
