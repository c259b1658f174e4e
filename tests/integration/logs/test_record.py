"""Logs in and out of the record: the same decisions, or none."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from canopy.domain.episode import EpisodeKind, is_reserved
from canopy.domain.errors import LogError
from canopy.logs import cli
from canopy.logs.example import write_example
from canopy.logs.export import export_log
from canopy.logs.schema import LogFacts
from canopy.logs.store import store_log, stored_decision_id
from canopy.logs.tabular import log_of, read_log
from canopy.logs.world import FactoredWorld
from policy.catalog import parse_catalog

pytestmark = pytest.mark.integration

TENANT, CRAFT = "acme", "copy"


@pytest.fixture
def world(tmp_path):
    return FactoredWorld.create((2, 3)).write_log(tmp_path / "world.parquet", 60, 1)


def put(database, log, **options):
    with database.unit_of_work(TENANT) as work:
        return store_log(log, work, discipline=CRAFT, **options)


def taken_out(database, path, **options):
    with database.unit_of_work(TENANT) as work:
        return export_log(work, path, discipline=CRAFT, **options)


def n_decisions(database):
    with database.unit_of_work(TENANT) as work:
        return work.decisions.count(CRAFT)


def in_order(log, ids):
    found = {decision: row for row, decision in enumerate(log.column("decision_id"))}
    return log.take(np.array([found[str(i)] for i in ids]))


def test_a_log_comes_out_of_the_record_as_it_went_in(database, tmp_path, world):
    imported = put(database, world)
    assert (imported.n_rows, imported.kind) == (60, EpisodeKind.SYNTHETIC)
    exported = taken_out(database, tmp_path / "out.parquet")
    ids = [stored_decision_id(TENANT, CRAFT, i) for i in world.column("decision_id")]
    out = in_order(read_log(tmp_path / "out.parquet"), ids)
    assert exported.log.kind is EpisodeKind.SYNTHETIC
    assert out.plans == world.plans
    for name in ("unit_id", "plan", "ts"):
        assert out.column(name).tolist() == world.column(name).tolist()
    for name in ("propensity", "reward"):
        np.testing.assert_array_equal(out.column(name), world.column(name))
    for name in ("propensities", "feasible"):
        np.testing.assert_array_equal(out.matrix(name), world.matrix(name))
    for key, cells in world.context().items():
        np.testing.assert_array_equal(out.context()[key], cells)


def test_the_catalog_is_stored_under_the_craft_and_travels_back(database, tmp_path, world):
    imported = put(database, world)
    with database.unit_of_work(TENANT) as work:
        stored = work.catalogs.latest(CRAFT)
    catalog = parse_catalog(stored.text, "stored")
    assert catalog.discipline == CRAFT
    assert stored.catalog_hash == imported.catalog_hash == catalog.content_hash
    exported = taken_out(database, tmp_path / "out.parquet")
    assert exported.log.catalog_text == stored.text


def test_what_is_unmeasured_or_was_not_drawn_stays_so(database, tmp_path):
    log = write_example(tmp_path / "example.parquet")
    imported = put(database, log)
    assert imported.n_rewards == 4
    out = taken_out(database, tmp_path / "out.parquet").log
    out = in_order(out, [stored_decision_id(TENANT, CRAFT, i) for i in log.column("decision_id")])
    assert out.table.column("reward").to_pylist() == [1.0, 0.0, None, 0.25, 1.0]
    assert out.table.column("propensity").to_pylist()[4] is None
    assert out.column("drawn").tolist() == [True] * 4 + [False]
    assert out.context()["industry"].tolist() == ["retail", "energy", "retail", None, "energy"]


def test_train_and_reserve_share_no_unit_and_miss_none(database, tmp_path, world):
    put(database, world)
    train = taken_out(database, tmp_path / "train.parquet", split="train")
    reserve = taken_out(database, tmp_path / "reserve.parquet", split="reserve")
    assert not any(map(is_reserved, train.log.column("unit_id")))
    assert all(map(is_reserved, reserve.log.column("unit_id")))
    assert train.log.n_rows + reserve.log.n_rows == 60
    assert (train.n_reserved, reserve.n_reserved) == (0, reserve.log.n_rows)


def test_importing_a_log_twice_is_refused_and_changes_nothing(database, world):
    put(database, world)
    with pytest.raises(LogError, match="recorded already"):
        put(database, world)
    assert n_decisions(database) == 60


def test_a_refused_import_keeps_neither_rows_nor_catalog(database):
    columns = {
        "decision_id": ["1", "2"], "unit_id": ["u", "v"], "ts": ["2026-01-01T00:00:00Z"] * 2,
        "plan": ["a", "unheard-of"], "propensity": [0.5, 0.5], "reward": [1.0, 0.0],
    }  # fmt: skip
    catalog = "discipline: x\nversion: 1\nfactors: {f: {levels: [a]}}\ndefault: f=a\n"
    with pytest.raises(LogError, match="row 1, column plan"):
        put(database, log_of(columns, LogFacts(catalog_text=catalog)))
    assert n_decisions(database) == 0
    with database.unit_of_work(TENANT) as work:
        assert work.catalogs.latest(CRAFT) is None


def test_kinds_do_not_mix_in_one_export(database, tmp_path, world):
    put(database, world)
    columns = {name: world.table.column(name) for name in world.table.column_names}
    renamed = [f"other-{i}" for i in range(60)]
    facts = LogFacts(plans=world.plans, catalog_text=world.catalog_text)
    put(database, log_of(columns | {"decision_id": renamed}, facts))
    with pytest.raises(LogError, match="60 synthetic, 60 imported"):
        taken_out(database, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    one = taken_out(database, tmp_path / "out.parquet", kind=EpisodeKind.IMPORTED)
    assert one.log.n_rows == 60
    with pytest.raises(LogError, match="real is what was served here"):
        put(database, world, kind=EpisodeKind.REAL)


def test_episodes_of_several_catalogs_come_out_under_all_their_plans(database, tmp_path):
    def of(plans, prefix):
        n = len(plans)
        columns = {
            "decision_id": [f"{prefix}{i}" for i in range(n)],
            "unit_id": [f"{prefix}{i}" for i in range(n)],
            "ts": [f"2026-01-0{len(prefix)}T00:00:0{i}Z" for i in range(n)],
            "plan": list(plans), "propensity": [1 / n] * n, "reward": [1.0] * n,
            "propensities": np.full((n, n), 1 / n),
        }  # fmt: skip
        return log_of(columns, LogFacts(plans=tuple(plans)))

    put(database, of(["f=a", "f=b"], "x"))
    put(database, of(["f=b", "f=c", "f=d"], "yy"))
    exported = taken_out(database, tmp_path / "out.parquet")
    assert exported.log.plans == ("f=b", "f=c", "f=d", "f=a")
    assert exported.log.matrix("feasible")[0].tolist() == [1, 0, 0, 1]
    assert exported.log.matrix("propensities")[0].tolist() == [0.5, 0, 0, 0.5]
    assert any("2 catalogs" in note for note in exported.notes)


def test_more_plans_than_are_kept_whole_come_out_without_their_distribution(database, tmp_path):
    world = FactoredWorld.create((7, 7, 6)).write_log(tmp_path / "w.parquet", 5, 1)
    assert len(world.plans) == 294
    put(database, world)
    exported = taken_out(database, tmp_path / "out.parquet")
    assert not exported.log.has("propensities")
    assert exported.log.matrix("feasible").shape == (5, 294)
    assert any("goes without" in note for note in exported.notes)


def test_another_tenant_sees_none_of_it(database, tmp_path, world):
    put(database, world)
    with (
        pytest.raises(LogError, match="no such episodes"),
        database.unit_of_work("globex") as work,
    ):
        export_log(work, tmp_path / "out.parquet", discipline=CRAFT)


def test_the_commands_import_and_export(settings, monkeypatch, tmp_path, world):
    monkeypatch.setenv("CANOPY_HOME", str(settings.home))
    monkeypatch.setenv("CANOPY_DATABASE_URL", settings.database_url)
    monkeypatch.setenv("CANOPY_REDIS_URL", settings.redis_url)
    where = ["--tenant", TENANT, "--discipline", CRAFT, "--json"]
    found = CliRunner().invoke(cli.import_log, [str(tmp_path / "world.parquet"), *where])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["n_imported"] == 60
    out = tmp_path / "out.parquet"
    found = CliRunner().invoke(cli.export, [*where, "--out", str(out), "--split", "train"])
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert read_log(out).content_hash == document["content_hash"]
    assert 0 < document["n_rows"] < 60
