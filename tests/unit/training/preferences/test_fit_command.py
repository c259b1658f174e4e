"""`canopy judge fit`, as its user types it."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from canopy.domain.errors import ArtifactError, InputError
from training.preferences.artifact import load_preferences
from training.preferences.fit_cli import judge_fit

HEADER = "item_a,item_b,judge,verdict_ab,verdict_ba,cluster\n"
ROWS = (
    "x,y,m,a,a,p1\nx,y,m,b,b,p2\ny,z,m,a,a,p1\ny,z,m,b,b,p3\nx,z,m,a,a,p2\nx,z,m,b,b,p3\n"
    "x,y,m,a,a,p3\nx,z,m,a,b,p1\n"
)
CATALOG = """
discipline: test
version: 1
factors:
  tone: {levels: [warm, plain]}
  length: {levels: [short, long]}
default: tone=warm,length=short
"""


def run(tmp_path, text, *words, name="pairs.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return CliRunner().invoke(judge_fit, [str(path), "--out", str(tmp_path / "out"), *words])


def test_it_writes_an_artifact_and_prints_a_ranking(tmp_path):
    found = run(tmp_path, HEADER + ROWS, "--family", "m=human", "--rubric", "r1")
    assert found.exit_code == 0
    made = load_preferences(tmp_path / "out")
    assert made.items == ("x", "y", "z")
    assert (made.lineage.judges, made.lineage.rubrics) == ({"human"}, {"r1"})
    assert "All items stand on one scale" in found.stdout
    assert made.artifact_id in found.stdout


def test_json_is_the_artifact_s_document(tmp_path):
    document = json.loads(run(tmp_path, HEADER + ROWS, "--json").stdout)
    assert document["folder"] == str(tmp_path / "out")
    assert document["artifact_id"] == load_preferences(tmp_path / "out").artifact_id
    assert document["lineage"]["judges"] == ["unknown:m"]


def test_a_page_is_written(tmp_path):
    assert run(tmp_path, HEADER + ROWS, "--html", str(tmp_path / "p" / "page.html")).exit_code == 0
    page = (tmp_path / "p" / "page.html").read_text()
    assert page.count("<svg") == 3
    assert "Ranking" in page


def test_groups_and_components_are_named(tmp_path):
    separated = run(tmp_path, HEADER + "x,y,m,a,a,p\ny,z,m,a,a,q\nz,y,m,a,a,r\n")
    assert "From the strongest group: x > y, z" in separated.stderr
    apart = run(tmp_path, HEADER + "x,y,m,a,a,p\nu,v,m,a,a,q\n", "--out", str(tmp_path / "two"))
    assert "Components: x, y | u, v" in apart.stderr
    assert apart.exit_code == 0


def test_too_many_unreadable_verdicts_are_refused_and_nothing_is_written(tmp_path):
    rows = ROWS + "x,y,m,,a,p9\n"
    refused = run(tmp_path, HEADER + rows)
    assert refused.exit_code == 3
    assert "11.1% of the verdicts of 'm' with item a first" in refused.stderr
    assert not (tmp_path / "out").exists()
    document = json.loads(run(tmp_path, HEADER + rows, "--json").stdout)
    assert document["status"] == "refused"
    assert run(tmp_path, HEADER + rows, "--max-unparsed", "0.2").exit_code == 0


def test_single_verdicts_are_a_scale_of_their_own(tmp_path):
    rows = "x,y,m,a,none,p1\nx,y,m,b,none,p2\nx,y,m,tie,none,p3\nx,y,m,none,a,p3\n"
    assert run(tmp_path, HEADER + rows, "--scale", "single").exit_code == 0
    made = load_preferences(tmp_path / "out")
    assert made.scale_kind == "single_verdict"
    assert made.document["n_comparisons"] == 3
    assert made.document["survival"] is None
    assert made.document["order_bias"] is None
    half = run(tmp_path, HEADER + rows, "--scale", "single", "--ties", "half",
               "--out", str(tmp_path / "half"), "--json")  # fmt: skip
    assert json.loads(half.stdout)["n_comparisons"] == 4


def test_plans_are_fitted_by_their_levels_too(tmp_path):
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    plans = [f"tone={t},length={s}" for t in ("warm", "plain") for s in ("short", "long")]
    rows = "".join(
        f'"{a}","{b}",m,{v},{v},p{k}\n'
        for k, (a, b) in enumerate((a, b) for a in plans for b in plans if a < b)
        for v in ("a", "b", "a")
    )
    words = ("--catalog", str(tmp_path / "catalog.yaml"), "--json")
    document = json.loads(run(tmp_path, HEADER + rows, *words).stdout)
    assert document["diagnostics"]["factored"]["n_coefficients"] == 3
    with pytest.raises(InputError, match="item 'x': is no plan of"):
        raise run(tmp_path, HEADER + ROWS, *words).exception


def test_length_can_be_held_equal(tmp_path):
    header = HEADER.strip() + ",length_a,length_b\n"
    rows = "".join(
        f"{line},{100 + 7 * k},{90 + 9 * (k % 3)}\n" for k, line in enumerate(ROWS.splitlines())
    )
    document = json.loads(run(tmp_path, header + rows, "--covariate", "length", "--json").stdout)
    (effect,) = document["diagnostics"]["covariates"]["effects"]
    assert effect["name"] == "length"
    bad = rows.replace(",107,", ",many,")
    with pytest.raises(InputError, match="row 2, column length_a: 'many' is no finite number"):
        raise run(tmp_path, header + bad, "--covariate", "length").exception


def test_one_judge_can_be_fitted_alone(tmp_path):
    rows = ROWS + "x,y,other,b,b,p1\n"
    document = json.loads(run(tmp_path, HEADER + rows, "--judge", "m", "--json").stdout)
    assert [judge["judge"] for judge in document["judges"]] == ["m"]
    with pytest.raises(InputError, match="'nobody' judged nothing"):
        raise run(tmp_path, HEADER + rows, "--judge", "nobody").exception


def test_parquet_is_read_like_csv(tmp_path):
    columns = [line.split(",") for line in ROWS.splitlines()]
    table = pa.table({
        name: list(cells)
        for name, cells in zip(HEADER.strip().split(","), zip(*columns, strict=True), strict=True)
    })
    pq.write_table(table, tmp_path / "pairs.parquet")
    run(tmp_path, HEADER + ROWS)
    words = [str(tmp_path / "pairs.parquet"), "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(judge_fit, words).exit_code == 0
    nulls = table.set_column(4, "verdict_ba", pa.array([None] * len(columns), pa.string()))
    pq.write_table(nulls, tmp_path / "none.parquet")
    words = [str(tmp_path / "none.parquet"), "--out", str(tmp_path / "n"), "--json"]
    assert json.loads(CliRunner().invoke(judge_fit, words).stdout)["counts"]["incomplete"] == 8


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("", (), "has no rows"),
        (HEADER, (), "has no rows"),
        (HEADER + "x,x,m,a,a,p\n", (), "row 1: compares 'x' with itself"),
        (HEADER + "x,y,m,a,c,p\n", (), "row 1, column verdict_ba: 'c' is no verdict"),
        ("pair_id," + HEADER + "1,x,y,m,a,a,p\n1,x,y,m,b,b,p\n", (), "'1' stands in row 1 too"),
        (HEADER + "x,y,m,a,p\n", (), "row 1: has 5 cells, the header 6"),
        (HEADER + ROWS, ("--family", "m"), "names no family"),
        (HEADER + ROWS, ("--family", "m=a", "--family", "m=b"), "has two families"),
        (HEADER + ROWS, ("--scale", "single"), "row 1: was judged in both orders"),
        (HEADER + ROWS, ("--ties", "half"), "never half a win"),
        (HEADER + ROWS, ("--covariate", "length"), "has no column 'length_a'"),
    ],
)  # fmt: skip
def test_bad_input_is_an_error_that_names_the_place(tmp_path, text, words, message):
    found = run(tmp_path, text, *words)
    assert isinstance(found.exception, InputError)
    assert message in str(found.exception)
    assert not (tmp_path / "out").exists()


def test_a_single_item_cannot_be_compared(tmp_path):
    found = run(tmp_path, HEADER + "x,,m,a,a,p\n")
    assert "row 1, column item_b: is blank" in str(found.exception)


def test_another_fit_is_not_written_over(tmp_path):
    run(tmp_path, HEADER + ROWS)
    found = run(tmp_path, HEADER + ROWS + "x,y,m,b,b,p1\n")
    assert isinstance(found.exception, ArtifactError)
    assert "holds something else" in str(found.exception)


def test_one_order_missing_is_incomplete_and_counts_for_nobody(tmp_path):
    document = json.loads(run(tmp_path, HEADER + "x,y,m,a,none,p\n", "--json").stdout)
    assert (document["status"], document["counts"]["incomplete"]) == ("no_data", 1)
