"""`canopy log` without a server: convert, check, look, write examples."""

import json

import pytest
from click.testing import CliRunner

from canopy.domain.errors import LogError
from canopy.logs import cli, schema
from canopy.logs.tabular import read_log


def run(command, *arguments):
    """What a command printed and its exit code; Canopy's own errors come through."""
    found = CliRunner().invoke(command, [str(a) for a in arguments])
    if isinstance(found.exception, LogError):
        raise found.exception
    return found


def answered(command, *arguments):
    return json.loads(run(command, *arguments, "--json").stdout)


@pytest.fixture
def bad(tmp_path):
    run(cli.template, tmp_path / "good.csv")
    lines = (tmp_path / "good.csv").read_text().splitlines()
    lines[3] = lines[3].replace(",0.25,", ",,", 1)
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_example_is_sound_in_both_formats(tmp_path):
    for name in ("log.csv", "log.parquet"):
        assert run(cli.template, tmp_path / name).exit_code == 0
        assert run(cli.check, tmp_path / name).exit_code == 0
    assert (tmp_path / "log.catalog.yaml").is_file()


def test_check_names_row_and_column_and_exits_1(bad):
    found = run(cli.check, bad)
    assert found.exit_code == 1
    assert "propensity" in found.stdout
    document = json.loads(run(cli.check, bad, "--json").stdout)
    assert (document["faults"][0]["row"], document["faults"][0]["column"]) == (3, "propensity")
    assert document["counts"] == {"propensity": 1}


def test_an_import_that_is_refused_leaves_nothing_behind(bad, tmp_path):
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(LogError, match="row 3, column propensity"):
        run(cli.import_log, bad, "--out", tmp_path / "out" / "log.parquet")
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_csv_becomes_a_canonical_log_with_a_catalog(tmp_path):
    run(cli.template, tmp_path / "log.csv")
    document = answered(cli.import_log, tmp_path / "log.csv", "--out", tmp_path / "log.parquet")
    assert document["n_rows"] == 5
    assert document["n_null_reward"] == 1
    assert document["kind"] == "imported"
    assert any("without a catalog" in note for note in document["notes"])
    log = read_log(tmp_path / "log.parquet")
    assert log.content_hash == document["content_hash"]
    assert "tone" in log.catalog_text


def test_a_catalog_file_gives_the_order_of_lists(tmp_path):
    run(cli.template, tmp_path / "log.csv")
    lists = tmp_path / "lists.csv"
    lists.write_text(
        "decision_id,unit_id,ts,plan,propensity,reward,propensities\n"
        'd,u,2026-01-31T08:00:00Z,"tone=plain,length=short",0.5,1,"[0.5, 0.25, 0.25]"\n'
    )
    assert run(cli.check, lists).exit_code == 1
    assert run(cli.check, lists, "--catalog", tmp_path / "log.catalog.yaml").exit_code == 0
    plans = tmp_path / "plans.txt"
    plans.write_text("tone=plain,length=short\ntone=plain,length=long\ntone=warm,length=short\n")
    assert run(cli.check, lists, "--plans", plans).exit_code == 0
    plans.write_text(json.dumps(plans.read_text().splitlines()))
    assert run(cli.stats, lists, "--plans", plans).exit_code == 0


def test_a_world_is_synthetic_and_may_not_lose_its_mark(tmp_path):
    path = tmp_path / "world.parquet"
    answered(cli.template, path, "--world", "2x2", "--rows", 30, "--seed", 4, "--truth")
    log = read_log(path)
    assert (log.n_rows, len(log.plans), log.kind) == (30, 4, "synthetic")
    assert log.matrix("q_all").shape == (30, 4)
    out = tmp_path / "out.parquet"
    assert answered(cli.import_log, path, "--out", out)["kind"] == "synthetic"
    with pytest.raises(LogError, match="stays so"):
        run(cli.import_log, path, "--out", out, "--kind", "imported")


def test_stats_say_how_much_is_unmeasured(tmp_path):
    run(cli.template, tmp_path / "log.parquet")
    document = answered(cli.stats, tmp_path / "log.parquet")
    assert document["n_null_reward"] == 1
    assert document["reward_mean"] == pytest.approx((1 + 0 + 0.25 + 1) / 4)
    assert document["n_not_drawn"] == 1
    assert document["propensity_min"] == 0.25
    assert sum(document["plan_share"].values()) == pytest.approx(1)
    assert 0 < document["ess_uniform"] <= 4
    assert run(cli.stats, tmp_path / "log.parquet").exit_code == 0


def test_the_schema_is_described_from_one_table():
    names = [column["name"] for column in answered(cli.template, "--describe")]
    assert names == [column.name for column in schema.COLUMNS]
    for column in schema.COLUMNS:
        assert f"`{column.name}`" in schema.describe()
    assert run(cli.template, "--describe").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["log.csv"], "--out"),
        (["log.csv", "--tenant", "t"], "--tenant"),
        (["log.csv", "--out", "x.parquet", "--target", "uniform"], "--target"),
        (["log.csv", "--out", "x.parquet", "--timestamp", "2026-01-01T00:00:00Z"], "--timestamp"),
        (["log.csv", "--out", "x.parquet", "--timestamp", "soon"], "--timestamp"),
        (["log.csv", "--out", "x.parquet", "--catalog", "none.yaml"], "none.yaml"),
        (["none.csv", "--out", "x.parquet"], "none.csv"),
        ([".", "--out", "x.parquet"], "."),
    ],
)
def test_requests_that_make_no_sense_are_refused(tmp_path, monkeypatch, arguments, place):
    monkeypatch.chdir(tmp_path)
    run(cli.template, "log.csv")
    with pytest.raises(LogError) as raised:
        run(cli.import_log, *arguments)
    assert raised.value.place == place
    assert not (tmp_path / "x.parquet").exists()


def test_a_template_needs_a_file_and_a_possible_world(tmp_path):
    with pytest.raises(LogError, match="OUT"):
        run(cli.template)
    with pytest.raises(LogError, match="3x3x3"):
        run(cli.template, tmp_path / "w.parquet", "--world", "3xx")
