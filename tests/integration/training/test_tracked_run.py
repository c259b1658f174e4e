"""One run from log to registered model, and the pages that show it: one test, since mlflow is slow.

Everything that needs mlflow stands here, so that it is imported once.
"""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx
import pytest
from click.testing import CliRunner

from canopy.domain.errors import NotFoundError, ServiceUnreachableError, TrainingRefusedError
from canopy.logs.world import FactoredWorld
from canopy.storage.embedded import processes
from canopy.storage.servers import mlflow_url
from canopy.tracking import open_tracker, serve_ui
from policy.artifact import load_artifact
from training.awr.config import AwrConfig
from training.comparison_cli import train_compare
from training.config import DataConfig, OptimConfig, RuntimeConfig, ServingConfig, TrainConfig
from training.run import train

pytestmark = pytest.mark.integration


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "log.parquet"
    FactoredWorld.create((2, 2), n_features=3, seed=0).write_log(path, 1500, 1)
    return TrainConfig(
        seed=1,
        out=str(tmp_path / "out"),
        name="small",
        data=DataConfig(path=str(path)),
        objective={"awr": AwrConfig()},
        optim=OptimConfig(epochs=3),
        runtime=RuntimeConfig(progress=False),
    )


def files_below(address):
    folder = Path(url2pathname(urlsplit(address).path))
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_run_lands_in_mlflow_and_its_pages_show_it(config, settings):
    run = train(config, settings)
    from mlflow import MlflowClient

    address = mlflow_url(settings)
    client = MlflowClient(tracking_uri=address, registry_uri=address)

    recorded = client.get_run(run.run_id)
    assert recorded.info.status == "FINISHED"
    assert recorded.data.params["objective.awr.beta"] == "0.25"
    assert recorded.data.params["seed"] == "1"
    assert recorded.data.tags["data_hash"] == run.prepared.taken.log_hash
    assert recorded.data.tags["policy_id"] == run.artifact.policy_id
    assert run.prepared.taken.log_hash in recorded.data.tags["lineage"]
    assert recorded.data.metrics["served_value"] == run.fitted.chosen.served.value
    history = client.get_metric_history(run.run_id, "loss_validation")
    assert [point.value for point in history] == list(run.fitted.curve.validation)

    pictures = {"loss", "plan_share", "calibration", "temperature"}
    found = files_below(recorded.info.artifact_uri)
    assert {f"plots/{name}.png" for name in pictures} | {"summary.json"} <= found

    version = client.get_model_version_by_alias("small", "candidate")
    assert run.model == f"small/{version.version}" == "small/1"
    assert version.run_id == run.run_id
    assert version.tags["policy_id"] == run.artifact.policy_id
    copy = load_artifact(url2pathname(urlsplit(version.source).path))
    assert copy.policy_id == run.artifact.policy_id
    assert copy.manifest["training_run_id"] == run.run_id
    assert settings.home in Path(urlsplit(version.source).path).parents

    config.serving = ServingConfig(least_ess=1e9)
    with pytest.raises(TrainingRefusedError):
        train(config, settings)
    runs = client.search_runs([recorded.info.experiment_id])
    assert sorted(each.info.status for each in runs) == ["FAILED", "FINISHED"]
    assert len(client.search_model_versions("name='small'")) == 1

    try:
        shown = serve_ui(settings)
        assert serve_ui(settings) == shown
        assert shown.startswith("http://127.0.0.1:")
        answer = httpx.post(f"{shown}/api/2.0/mlflow/experiments/search", json={"max_results": 9})
        assert "small" in {each["name"] for each in answer.json()["experiments"]}
    finally:
        assert processes.stop_all(settings.home) == ("mlflow",)

    remote = settings.model_copy(update={"mlflow_url": "http://127.0.0.1:9"})
    assert serve_ui(remote) == "http://127.0.0.1:9"
    nowhere = settings.model_copy(
        update={"mlflow_url": "postgresql+psycopg://nobody@127.0.0.1:9/x"}
    )
    with pytest.raises(ServiceUnreachableError, match=r"MLflow is unreachable.*tracking=off"):
        open_tracker(nowhere)


def test_two_recorded_runs_are_compared_and_the_page_is_recorded(
    config, settings, tmp_path, monkeypatch
):
    runs = [train(config, settings), train(replace(config, seed=2), settings)]
    monkeypatch.setattr("training.comparison_cli._tracker", lambda: open_tracker(settings))
    page = tmp_path / "page.html"
    words = [runs[0].run_id, runs[1].run_id, "--html", str(page), "--json"]
    document = json.loads(CliRunner().invoke(train_compare, words).stdout)
    assert document["settings"] == {"seed": [1, 2]}
    assert document["recorded_with"] == [run.run_id for run in runs]
    other = runs[1].artifact.policy_id[:12]
    recorded = open_tracker(settings).finished(runs[0].run_id)
    assert recorded.read_bytes(f"comparisons/{other}.html") == page.read_bytes()
    with pytest.raises(NotFoundError, match="nobody"):
        open_tracker(settings).finished("nobody")
    with pytest.raises(NotFoundError, match="cut short"):
        recorded.read_bytes("nothing.json")
