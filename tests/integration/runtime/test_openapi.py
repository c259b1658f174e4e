"""The OpenAPI document holds: generated requests meet no surprise, and no server error."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtime.http import schemas
from runtime.http.app import build_app
from runtime.telemetry import Metrics

pytestmark = pytest.mark.integration

SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
N_EXAMPLES = 20
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
STRICT = (*CHECKS, "negative_data_rejection")
# In a batch a wrong item is answered by itself, so that only these refuse all wrong data.
ALONE = ("read_decision", "correct_decision")

# Words that exist, so that generated requests come as far as the record.
WORDS = """\
[dictionaries.tenants]
values = ["acme", "globex"]
[dictionaries.crafts]
values = ["public_copy"]
[dictionaries.decisions]
values = ["{decision_id}"]
[dictionaries.plans]
values = ["tone=warm,length=short", "{plan}"]

[parameters]
"query.tenant" = {{ dictionary = "tenants", probability = 0.7 }}
"path.decision_id" = {{ dictionary = "decisions", probability = 0.7 }}
"body.tenant" = {{ dictionary = "tenants", probability = 0.7 }}
"body.discipline" = {{ dictionary = "crafts", probability = 0.7 }}
"body.decision_id" = {{ dictionary = "decisions", probability = 0.7 }}
"body.plan" = {{ dictionary = "plans", probability = 0.7 }}
"""


def run(served, folder, checks, *options):
    answer = served.select("warm-up").raise_for_status().json()
    words = folder / "schemathesis.toml"
    words.write_text(WORDS.format(decision_id=answer["decision_id"], plan=answer["plan"]))
    ran = subprocess.run(
        [
            SCHEMATHESIS, "--config-file", words, "run", f"{served.address}/openapi.json",
            "--checks", ",".join(checks),
            "--max-examples", str(N_EXAMPLES),
            "--generation-deterministic",
            "--no-color",
            *options,
        ],
        check=False, cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-12000:] + ran.stderr[-2000:]
    return ran.stdout


def test_generated_requests_meet_no_server_error_and_no_undocumented_answer(
    served, tmp_path, database
):
    run(served, tmp_path, CHECKS)
    with database.unit_of_work("acme") as work:
        assert work.decisions.count() > 1


def test_all_data_that_the_document_rules_out_is_refused(served, tmp_path):
    named = [option for name in ALONE for option in ("--include-operation-id", name)]
    run(served, tmp_path, STRICT, "--phases", "examples,coverage,fuzzing", *named)


@pytest.fixture(scope="module")
def written():
    """The document of an application that was never started."""
    return build_app(SimpleNamespace(metrics=Metrics())).openapi()


def test_every_operation_has_a_name_of_its_own_and_words(written):
    operations = [one for methods in written["paths"].values() for one in methods.values()]
    assert {one["operationId"] for one in operations} == {
        "select", "report_outcome", "read_decision", "correct_decision",
        "healthz", "readyz", "metrics",
    }  # fmt: skip
    for one in operations:
        assert one["summary"]
        assert one["description"]
        assert all(answer["description"] for answer in one["responses"].values())


def test_every_schema_is_described_and_its_example_is_one(written):
    for name, schema in written["components"]["schemas"].items():
        assert schema["description"], name
        assert "Attributes:" not in schema["description"], name
        for example in schema["examples"]:
            getattr(schemas, name).model_validate_json(json.dumps(example))


def test_every_field_of_a_body_is_described(written):
    for name in ("Selection", "OutcomeReport", "ServedReport", "Problem", "SelectionAnswer"):
        for field, schema in written["components"]["schemas"][name]["properties"].items():
            assert schema.get("description"), f"{name}.{field}"


def test_no_answer_is_documented_that_is_never_given(written):
    for path, methods in written["paths"].items():
        for one in methods.values():
            for status, answer in one["responses"].items():
                kinds = set(answer["content"])
                if path == "/metrics":
                    assert kinds == {"text/plain"}
                elif status == "200" or path == "/readyz":
                    assert kinds == {"application/json"}
                else:
                    assert kinds == {"application/problem+json"}, (path, status)
