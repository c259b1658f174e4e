"""The OpenAPI document holds: generated requests meet no surprise, and no server error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
N_EXAMPLES = 60
# Not the rejection of all wrong data: in a batch a wrong item is answered by itself.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


def test_generated_requests_meet_no_server_error_and_no_undocumented_answer(served, tmp_path):
    served.select("warm-up").raise_for_status()
    ran = subprocess.run(
        [
            SCHEMATHESIS, "run", f"{served.address}/openapi.json",
            "--checks", ",".join(CHECKS),
            "--max-examples", str(N_EXAMPLES),
            "--generation-deterministic",
            "--no-color",
        ],
        check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-12000:] + ran.stderr[-2000:]


def test_every_operation_is_named_and_every_body_has_an_example(served):
    document = served.client.get("/openapi.json").json()
    named = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    ]
    assert len(named) == len(set(named))
    schemas = document["components"]["schemas"]
    for name in ("Selection", "SelectionAnswer", "OutcomeReport", "ServedReport", "Problem"):
        assert schemas[name]["examples"], name
    assert json.dumps(document)
