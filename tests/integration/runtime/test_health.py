"""Health, figures and the OpenAPI document."""

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.integration


def test_a_started_process_is_alive_and_ready(served):
    assert served.client.get("/healthz").json() == {"status": "ok", "because": None}
    assert served.client.get("/readyz").status_code == 200


def test_a_schema_that_fell_behind_makes_it_unready(served, fresh_database):
    with psycopg.connect(fresh_database.admin) as admin:
        admin.execute("update alembic_version set version_num = '0001'")
    found = served.client.get("/readyz")
    assert found.status_code == 503
    assert "0001" in found.json()["because"]
    assert served.client.get("/healthz").status_code == 200


def figures(served):
    text = served.client.get("/metrics").text
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_figures_count_what_happened(served):
    for number in range(3):
        served.select(f"r-{number}").raise_for_status()
    served.select("r-9", override="tone=warm,length=short").raise_for_status()
    served.select("r-10", discipline="nothing")
    found = figures(served)
    assert found["canopy_selections_total", "doctrine", "on", "public_copy"] == 3
    assert found["canopy_selections_total", "on", "overridden", "public_copy"] == 1
    assert found["canopy_http_responses_total", "/v1/selections", "200"] == 4
    assert found["canopy_http_responses_total", "/v1/selections", "404"] == 1
    assert found["canopy_selection_seconds_count",] == 4
    assert found["canopy_writer_batch_rows_sum",] == 4
    assert found["canopy_selection_tick_size_sum",] == 4
    assert found["canopy_selections_in_flight",] == 0


def test_every_body_and_answer_is_documented_with_types_and_examples(served):
    document = served.client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    for name in ("Selection", "SelectionAnswer", "OutcomeReport", "ServedReport", "Problem"):
        assert schemas[name]["properties"]
        assert schemas[name]["examples"]
    for path, method in (
        ("/v1/selections", "post"), ("/v1/outcomes", "post"),
        ("/v1/decisions/{decision_id}", "get"), ("/v1/decisions/{decision_id}/served", "post"),
        ("/healthz", "get"), ("/readyz", "get"), ("/metrics", "get"),
    ):  # fmt: skip
        assert document["paths"][path][method]["summary"]
    unresolved = {
        reference
        for reference in references(document)
        if reference.removeprefix("#/components/schemas/") not in schemas
    }
    assert unresolved == set()


def references(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def test_the_examples_are_accepted(served):
    schemas = served.client.get("/openapi.json").json()["components"]["schemas"]
    example = schemas["Selection"]["examples"][0] | {"context": {"budget": 3}}
    assert served.client.post("/v1/selections", json=example).status_code == 200
