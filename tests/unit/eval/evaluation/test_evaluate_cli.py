"""`canopy evaluate`: tables for people, one document for scripts, 3 for a refusal."""

import json

import pytest
from click.testing import CliRunner

from canopy.domain.errors import EXIT_DONE, EXIT_REFUSED, CanopyError, LogError
from eval.estimator_names import ESTIMATORS
from eval.evaluate_cli import evaluate


@pytest.fixture
def csv(world, tmp_path):
    def write(**changes):
        log = world(n=300).assign(**changes)
        for name in ("propensities", "target_propensities"):
            log[name] = log[name].map(json.dumps)
        path = tmp_path / "log.csv"
        log.to_csv(path, index=False, date_format="%Y-%m-%dT%H:%M:%S%z")
        return path

    return write


def run(*arguments):
    found = CliRunner().invoke(evaluate, [str(argument) for argument in arguments])
    if isinstance(found.exception, CanopyError):
        raise found.exception
    return found


def test_json_is_one_document_with_a_verdict_per_estimator(csv):
    found = run(csv(), "--json")
    assert found.exit_code == EXIT_DONE
    document = json.loads(found.stdout)
    assert [v["estimator"] for v in document["verdicts"]] == list(ESTIMATORS)
    assert document["target"] == "columns"
    assert document["reward_model"]["calibration"]["n"] == 300


def test_people_get_a_table_with_reasons(csv):
    found = run(csv(), "--estimators", "ips,dm", "--against", "logging", "--by", "x_segment")
    assert found.exit_code == EXIT_DONE
    assert "95% interval" in found.stdout
    assert "model-based" in found.stdout
    assert "Difference to logging" in found.stdout
    assert "x_segment: new" in found.stdout
    assert "Logging policy's own value" in found.stdout


def test_a_log_that_says_nothing_exits_with_three(csv):
    nothing = csv(reward=None)
    found = run(nothing, "--json")
    assert found.exit_code == EXIT_REFUSED
    assert {v["status"] for v in json.loads(found.stdout)["verdicts"]} == {"refused"}
    found = run(nothing, "--estimators", "ips", "--against", "logging")
    assert found.exit_code == EXIT_REFUSED
    assert "refused" in found.stdout


def test_one_usable_estimator_is_enough_for_success(csv):
    found = run(csv(propensity=1.0, propensities=[{"a": 1.0}] * 300, plan="a"), "--json")
    statuses = {v["estimator"]: v["status"] for v in json.loads(found.stdout)["verdicts"]}
    assert statuses["ips"] == "refused"
    assert statuses["dm"] == "ok"
    assert found.exit_code == EXIT_DONE


def test_options_reach_the_evaluation(csv, tmp_path):
    listed = tmp_path / "plans.txt"
    listed.write_text("a\nb\nc\n")
    found = run(
        csv(), "--json", "--target", "uniform", "--plans", listed, "--level", "0.9",
        "--interval", "bootstrap", "--seed", "7", "--split", "train", "--range", "0", "2",
        "--reward-by", "x_segment", "--units", "decision_id",
    )  # fmt: skip
    document = json.loads(found.stdout)
    assert document["target"] == "uniform"
    assert (document["level"], document["seed"]) == (0.9, 7)
    assert document["log"]["split"] == "train"
    assert document["log"]["reward_range"] == [0, 2]
    assert document["log"]["n_units"] == document["log"]["n_used"]
    assert "one per value of x_segment" in document["reward_model"]["source"]
    assert document["verdicts"][0]["interval"] == document["intervals"][0]["bootstrap"]
    as_json = tmp_path / "plans.json"
    as_json.write_text('["a", "b", "c"]')
    assert run(csv(), "--plans", as_json, "--estimators", "ips").exit_code == EXIT_DONE


def test_a_report_stands_alone(csv, tmp_path):
    out = tmp_path / "reports" / "report.html"
    found = run(csv(), "--html", out, "--against", "logging", "--by", "x_segment", "--json")
    assert found.exit_code == EXIT_DONE
    text = out.read_text(encoding="utf-8")
    assert text.count("<svg") == 4
    assert "Difference to logging" in text
    assert "Overlap by factor level" in text
    assert "<td>sndr</td>" in text
    assert 'src="http' not in text
    assert 'href="http' not in text
    run(csv(), "--html", tmp_path / "again.html", "--against", "logging", "--by", "x_segment")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == text


def test_a_report_of_a_refusal_shows_no_number(csv, tmp_path):
    run(csv(reward=None), "--html", tmp_path / "report.html", "--json")
    assert "refused" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "message"),
    [('["a", ', "One id a line"), (None, "Name a text file")],
)
def test_an_unreadable_list_of_plans_says_what_to_do(csv, tmp_path, content, message):
    listed = tmp_path / "plans.json"
    if content is not None:
        listed.write_text(content)
    with pytest.raises(LogError, match=message):
        run(csv(), "--plans", listed)
