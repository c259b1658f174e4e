"""A whole run without a record, and the command around it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from canopy.domain.episode import is_reserved
from canopy.domain.errors import ConfigError
from canopy.logs.tabular import read_log
from canopy.settings import Settings
from policy.artifact import load_artifact
from training import cli
from training.bc.config import BcConfig
from training.data.loader import load_rows
from training.data.splitting import split
from training.objectives import OBJECTIVES
from training.outcome import summary
from training.plots import (
    calibration_picture,
    curve_picture,
    share_picture,
    temperature_picture,
)
from training.run import check, train

PNG = b"\x89PNG"


@pytest.fixture
def run(config, tmp_path):
    return train(config, Settings(home=tmp_path / "home"))


def test_the_artifact_says_how_it_was_made(run, config, log_path):
    manifest = load_artifact(run.artifact.folder).manifest
    log = read_log(log_path)
    assert manifest["data_hash"] == log.content_hash
    assert manifest["lineage"]["corpora"] == [f"train:{log.content_hash}"]
    assert manifest["lineage"]["judges"] == manifest["lineage"]["rubrics"] == []
    assert list(manifest["objective"]) == ["awr"]
    assert manifest["reward_spec"] == "logged"
    assert manifest["reserve"] == {"salt": "canopy.reserve.v1", "share": 0.2}
    assert manifest["synthetic"] is True
    assert manifest["training_run_id"] is None
    assert manifest["floor"] == config.serving.floor


def test_features_are_fitted_on_training_rows_alone(run, config):
    catalog, path = run.prepared.taken.catalog, config.data.path
    inside, _ = split(load_rows(read_log(path), catalog).rows, config.data.validation_share)
    field = run.prepared.taken.schema.fields[0]
    assert field.mean == pytest.approx(inside.context[field.name].mean())


def test_the_summary_is_json_and_accounts_for_every_row(run, config, log_path):
    document = json.loads(json.dumps(summary(run, config), allow_nan=False))
    n = document["n_rows"] + sum(
        document[key] for key in ("n_reserved", "n_not_drawn", "n_null_reward")
    )
    assert n == read_log(log_path).n_rows
    assert document["n_rows"] == document["n_train"] + document["n_validation"]
    assert len(document["curve"]["train"]) == len(document["curve"]["validation"])
    for factor in {share["factor"] for share in document["shares"]}:
        for side in ("logged", "served"):
            total = sum(s[side] for s in document["shares"] if s["factor"] == factor)
            assert total == pytest.approx(1)


def test_reserved_units_change_nothing_but_their_count(config, make_log, tmp_path):
    log = read_log(config.data.path)
    reserved = np.array([is_reserved(unit) for unit in log.column("unit_id")])
    reward = log.column("reward")
    other = make_log(
        reward=np.where(reserved, 1 - reward, reward),
        x_x0=np.where(reserved, 1e6, log.column("x_x0")),
    )
    settings = Settings(home=tmp_path)
    first = train(config, settings)
    second = train(replace(config, data=replace(config.data, path=str(other))), settings)
    assert second.prepared.taken.log_hash != first.prepared.taken.log_hash
    assert second.prepared.taken.schema == first.prepared.taken.schema
    for name, weights in first.artifact.head.weights.items():
        assert weights.tobytes() == second.artifact.head.weights[name].tobytes()


def test_pictures_are_drawn(run):
    assert all(
        picture.startswith(PNG)
        for picture in (
            curve_picture(run.fitted.curve),
            share_picture(run.shares),
            calibration_picture(run.calibration),
            temperature_picture(run.fitted.candidates),
        )
    )


def test_bc_reports_how_well_it_imitates(config, tmp_path):
    config = replace(
        config, objective={"bc": BcConfig()}, optim=replace(config.optim, batch_size=64, epochs=20)
    )
    run = train(config, Settings(home=tmp_path / "home"))
    assert run.calibration.what == "probability that a plan is taken"
    assert run.calibration.error < 0.05
    assert summary(run, config)["ess"] == len(run.prepared.problem.train)


@pytest.mark.parametrize(
    ("part", "change", "key"),
    [
        ("data", {"validation_share": 1.0}, "data.validation_share"),
        ("serving", {"floor": 1.0}, "serving.floor"),
        ("serving", {"temperatures": [0.0]}, "serving.temperatures"),
        ("optim", {"batch_size": 0}, "optim.batch_size"),
        ("optim", {"learning_rate": 0.0}, "optim.learning_rate"),
        ("optim", {"epochs": 0}, "optim.epochs"),
        ("head", {"pair_l2": [-1.0]}, "head.pair_l2"),
        ("runtime", {"threads": 0}, "runtime.threads"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(config, part, change, key):
    with pytest.raises(ConfigError, match=key):
        check(replace(config, **{part: replace(getattr(config, part), **change)}))


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Runs `canopy-train` in this process; gives its exit code, output and errors."""
    monkeypatch.setenv("CANOPY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["canopy-train", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        found = capsys.readouterr()
        return ended.value.code or 0, found.out, found.err

    return run


def quick_words(log_path):
    return (f"data.path={log_path}", "optim.epochs=2", "runtime.tracking=off", "seed=1")


def test_print_json_gives_one_document(command, log_path, tmp_path):
    code, out, err = command(*quick_words(log_path), "out=here", "name=small", "print=json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert load_artifact(document["artifact"]).policy_id == document["policy_id"]
    assert document["artifact"].startswith(str(tmp_path / "here" / "small-"))
    assert document["run_id"] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "home"]
    assert list((tmp_path / "home").iterdir()) == [tmp_path / "home" / "runs"]


def test_people_get_a_summary(command, log_path):
    code, out, _ = command(*quick_words(log_path), "objective=bc")
    assert code == 0
    for word in ("Rows", "Share of decisions by level", "greedy, without floor", "Policy"):
        assert word in out


def test_a_sweep_runs_every_objective(command, log_path):
    code, out, _ = command("--multirun", *quick_words(log_path), "objective=bc,awr", "print=json")
    assert (code, out.count('"policy_id"')) == (0, 2)


def test_a_refused_run_exits_3_and_leaves_no_policy(command, log_path, tmp_path):
    code, out, err = command(*quick_words(log_path), "objective.awr.least_ess_share=0.99")
    assert (code, out) == (3, "")
    assert err.startswith("canopy: awr: the weights are worth")
    assert not (tmp_path / "home" / "policies").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "canopy: data.path: is not set."),
        (("data.path=nowhere.parquet",), "there is no such file"),
        (("data.path=x", "epochs=3"), "Could not override 'epochs'"),
        (("data.path=x", "objective=ppo"), "Could not find 'objective/ppo'"),
        (("data.path=x", "seed=many"), "could not be converted to Integer"),
        (("data.path=x", "print=xml"), "expected one of [table, json]"),
        (("data.path",), "Error parsing override 'data.path'"),
    ],
)
def test_bad_input_is_one_line_and_exit_1(command, words, says):
    code, out, err = command(*words)
    assert (code, out) == (1, "")
    assert says in err
    assert err.count("\n") == 1


def test_an_unknown_option_is_bad_input(command):
    code, out, err = command("--nonsense")
    assert (code, out) == (1, "")
    assert "--nonsense" in err


def test_help_names_the_objectives(command):
    code, out, _ = command("--help")
    assert code == 0
    assert all(f"\n  {name}" in out for name in OBJECTIVES)
