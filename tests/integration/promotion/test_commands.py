"""`canopy policy evidence` and `canopy policy promote`, as a person types them."""

import json

import pytest
from click.testing import CliRunner

from canopy.cli import canopy
from policy.artifact import load_artifact

pytestmark = pytest.mark.integration


@pytest.fixture
def run(settings, monkeypatch):
    monkeypatch.setenv("CANOPY_HOME", str(settings.home))
    monkeypatch.setenv("CANOPY_DATABASE_URL", settings.database_url)
    monkeypatch.setenv("CANOPY_REDIS_URL", settings.redis_url)

    def call(*words):
        return CliRunner().invoke(canopy, ["policy", *map(str, words)])

    return call


def test_evidence_then_promotion_as_json(run, good, log_path):
    found = run("evidence", good, "--log", log_path, "--json")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert [e["tier"] for e in document["evidence"]] == ["verifiers", "backtest"]
    assert all(e["is_new"] and e["status"] == "ok" for e in document["evidence"])

    promoted = run("promote", good, "--to", "on", "--reason", "it gains", "--json")
    assert promoted.exit_code == 0, promoted.output
    document = json.loads(promoted.stdout)
    assert document["passed"] is True
    assert document["state"]["champion"] == load_artifact(good).policy_id
    assert {"tier", "requirement", "found", "passed", "reason"} == set(document["rows"][0])


def test_a_refused_promotion_ends_with_3_and_a_table_of_what_is_missing(run, good):
    refused = run("promote", good, "--to", "on")
    assert refused.exit_code == 3
    assert "refused, nothing changed" in refused.stdout
    assert "none is stored" in refused.stdout


def test_without_a_log_what_is_stored_is_listed(run, good):
    before = json.loads(run("evidence", good, "--json").stdout)
    run("evidence", good, "--tier", "verifiers")
    after = json.loads(run("evidence", load_artifact(good).policy_id[:10], "--json").stdout)
    assert before["evidence"] == []
    assert [e["is_new"] for e in after["evidence"]] == [False]


def test_tables_are_for_people(run, good):
    shown = run("evidence", good, "--tier", "verifiers")
    assert shown.exit_code == 0
    assert "select_p99_us" in shown.stdout


def test_a_gate_file_of_ones_own_is_named_in_the_record(run, good, tmp_path, database):
    gate = tmp_path / "mine.yaml"
    gate.write_text("mode: on\nrequires:\n  verifiers: {max_age_days: 1, golden: required}\n")
    run("evidence", good, "--tier", "verifiers")
    promoted = run("promote", good, "--to", "on", "--gate", gate, "--json")
    assert promoted.exit_code == 0, promoted.output
    with database.unit_of_work("fleet") as work:
        (written,) = work.states.transitions("factored-world")
    assert "[gate mine.yaml " in written.reason


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("promote", "nobody", "--to", "on"), "no policy named"),
        (("promote", "GOOD", "--to", "canary"), "gates observation, on only"),
        (("evidence", "GOOD", "--tier", "backtest"), "needs --log"),
        (("evidence", "GOOD", "--log", "none.parquet"), "none.parquet"),
        (("promote", "GOOD", "--to", "on", "--gate", "none.yaml"), "cannot be read"),
    ],
)
def test_wrong_input_is_an_error_in_words(run, good, words, says):
    found = run(*[good if word == "GOOD" else word for word in words])
    assert found.exit_code == 1
    assert says in str(found.exception)
