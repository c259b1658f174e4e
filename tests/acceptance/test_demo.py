"""The demonstration from outside: two logs in, refusals and a promotion out, a service left."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

BIN = Path(sys.executable).parent
UNREACHABLE = 2

pytestmark = [pytest.mark.acceptance, pytest.mark.integration]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What the demonstration printed; its service answers until the module ends."""
    home = tmp_path_factory.mktemp("demo") / "home"
    env = os.environ | {"CANOPY_HOME": str(home)}
    ran = subprocess.run(
        [BIN / "canopy", "demo", "--json"], env=env, capture_output=True, text=True, check=False
    )
    try:
        if ran.returncode == UNREACHABLE and "obp" in ran.stderr:
            pytest.skip(f"the Open Bandit Dataset cannot be fetched: {ran.stderr.strip()[-300:]}")
        assert ran.returncode == 0, ran.stderr[-3000:]
        yield json.loads(ran.stdout)
    finally:
        down = subprocess.run(
            [BIN / "canopy", "down", "--json"], env=env, capture_output=True, text=True, check=False
        )
    assert down.returncode == 0, down.stderr


def verdict(played, words, estimator):
    """The verdict of the first evaluation whose command has all these words."""
    for evaluation in played["evaluations"]:
        if all(word in evaluation["command"] for word in words):
            return next(v for v in evaluation["verdicts"] if v["estimator"] == estimator)
    raise AssertionError(words)


@pytest.mark.parametrize(
    ("estimator", "published", "tolerance"),
    [("ips", 0.004553, 1e-6), ("dm", 0.003545, 5e-6), ("dr", 0.004727, 5e-6)],
)
def test_the_production_policy_has_its_published_value(played, estimator, published, tolerance):
    found = verdict(played, ["obd-random-all", "--reward-by"], estimator)
    assert found["status"] == "ok"
    assert found["value"] == pytest.approx(published, abs=tolerance)


@pytest.mark.parametrize("estimator", ["ips", "snips"])
def test_a_log_without_overlap_is_refused(played, estimator):
    found = verdict(played, ["obd-bts-women"], estimator)
    assert found["status"] == "refused"
    assert found["value"] is None
    assert found["ess"] == pytest.approx(2.1, abs=0.1)


def test_the_one_gate_passes_the_policy_that_earned_it_and_no_other(played):
    promoted = {v["discipline"]: v["promoted"] for v in played["verdicts"]}
    assert promoted == {"open_bandit": False, "factored-world": True, "factored-world-256": False}
    for each in played["verdicts"]:
        assert bool(each["refused_because"]) != each["promoted"]


def test_the_estimate_of_the_promoted_policy_stands_by_its_truth(played):
    estimate = verdict(played, ["factored-world-episodes", "--split reserve"], "dr")
    truth = verdict(played, ["factored-world-truth", "--policy"], "dm")["value"]
    logging = verdict(played, ["factored-world-truth", "--target logging"], "dm")["value"]
    # Its units were drawn once with a fixed seed; the 95 % interval misses one time in twenty.
    half = (estimate["interval"][1] - estimate["interval"][0]) / 2
    assert abs(estimate["value"] - truth) < 2 * half
    assert truth > logging + 0.2


def test_the_service_answers_the_line_that_was_printed(played):
    body = json.loads(played["curl"].partition("-d '")[2].removesuffix("'"))
    answer = httpx.post(f"{played['address']}/v1/selections", json=body).raise_for_status().json()
    champion = next(v for v in played["verdicts"] if v["promoted"])["policy_id"]
    assert answer["versions"]["policy"] == champion
    assert answer["served"] is True
    assert 0 < answer["propensity"] <= 1
    again = httpx.post(f"{played['address']}/v1/selections", json=body).json()
    assert again == answer
    stored = httpx.get(
        f"{played['address']}/v1/decisions/{answer['decision_id']}",
        params={"tenant": body["tenant"]},
    ).json()
    assert stored["plan"] == answer["plan"]


def test_mlflow_answers(played):
    assert httpx.get(f"{played['mlflow']}/health").is_success
