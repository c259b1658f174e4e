"""Keys and limits at the door of every route."""

import json

import pytest

from canopy.domain.access import Scope

pytestmark = pytest.mark.integration


@pytest.fixture
def guarded(settings, catalog, running):
    """A process that asks everybody for a key."""
    with running(settings.model_copy(update={"require_keys": True})) as served:
        yield served


@pytest.fixture
def issue(database):
    def make(tenant="acme", scopes=tuple(Scope), **parts):
        with database.unit_of_work(tenant) as work:
            return work.keys.create("a test", scopes, actor="test", **parts)

    return make


def bearer(key):
    return {"Authorization": f"Bearer {key.token}"}


def test_without_a_key_nothing_is_answered_but_health_and_documents(guarded, asking):
    refused = guarded.client.post("/v1/selections", json=asking())
    assert (refused.status_code, refused.json()["error"]) == (401, "unauthorized")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert guarded.client.get("/v1/decisions/x", params={"tenant": "acme"}).status_code in {
        400,
        401,
    }
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
        assert guarded.client.get(path).status_code == 200


def test_a_key_opens_what_its_scopes_name(guarded, asking, issue):
    key = issue(scopes=[Scope.SELECT])
    answer = guarded.client.post("/v1/selections", json=asking(), headers=bearer(key))
    assert answer.status_code == 200
    decision_id = answer.json()["decision_id"]
    refusals = [
        guarded.client.get(
            f"/v1/decisions/{decision_id}", params={"tenant": "acme"}, headers=bearer(key)
        ),
        guarded.client.post(
            "/v1/outcomes",
            json={"tenant": "acme", "decision_id": decision_id, "value": 1.0},
            headers=bearer(key),
        ),
        guarded.client.post(
            f"/v1/decisions/{decision_id}/served",
            json={"tenant": "acme", "plan": "x"},
            headers=bearer(key),
        ),
    ]
    assert [refused.status_code for refused in refusals] == [403, 403, 403]
    for refused, scope in zip(refusals, ("read", "outcome", "correct"), strict=True):
        assert f"--scope {scope}" in refused.json()["message"]


def test_a_key_acts_for_its_own_tenant_alone_and_the_fleets_for_any(guarded, asking, issue):
    own, fleet = issue(), issue("fleet")
    other = asking(tenant="globex")
    assert guarded.client.post("/v1/selections", json=other, headers=bearer(own)).status_code == 403
    assert guarded.client.post("/v1/selections", json=other, headers=bearer(fleet)).is_success


def test_in_a_batch_items_of_another_tenant_fail_alone(guarded, asking, issue):
    items = [asking("a"), asking("b", tenant="globex")]
    answer = guarded.client.post(
        "/v1/selections", json={"items": items}, headers=bearer(issue())
    ).json()["items"]
    assert "plan" in answer[0]
    assert (answer[1]["error"], answer[1]["place"]) == ("forbidden", "items.1.tenant")


def test_a_revoked_key_is_refused_at_once_after_the_notice(guarded, asking, issue, database):
    key = issue()
    assert guarded.client.post("/v1/selections", json=asking(), headers=bearer(key)).is_success
    with database.unit_of_work("acme") as work:
        work.keys.revoke(key.row.key_id, actor="test", reason="it leaked")
    guarded.runtime.keys.forget(["acme"])
    refused = guarded.client.post("/v1/selections", json=asking("r-2"), headers=bearer(key))
    assert refused.status_code == 401


def test_a_key_over_its_rate_is_told_when_to_come_back(guarded, asking, issue):
    key = issue(rate_per_s=0.01)
    assert guarded.client.post("/v1/selections", json=asking(), headers=bearer(key)).is_success
    refused = guarded.client.post("/v1/selections", json=asking("r-2"), headers=bearer(key))
    assert (refused.status_code, refused.json()["error"]) == (429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 100


def test_a_wrong_key_is_refused_even_where_none_is_required(served, asking):
    wrong = {"Authorization": "Bearer canopy_wrong"}
    assert served.client.post("/v1/selections", json=asking(), headers=wrong).status_code == 401


def test_the_log_names_who_asked_and_never_the_token(guarded, asking, issue, capfd):
    key = issue()
    guarded.client.post("/v1/selections", json=asking(), headers=bearer(key)).raise_for_status()
    guarded.client.post("/v1/selections", content=b"{", headers=bearer(key))
    out, err = capfd.readouterr()
    assert key.row.key_id in out + err
    assert "r-1" in out + err
    assert key.token not in out + err
    assert "mail" not in out + err


def test_a_wrong_token_is_repeated_nowhere(guarded, asking, capfd):
    wrong = "canopy_this-was-somebodys-secret"
    refused = guarded.client.post(
        "/v1/selections", json=asking(), headers={"Authorization": f"Bearer {wrong}"}
    )
    out, err = capfd.readouterr()
    assert refused.status_code == 401
    assert wrong not in refused.text + out + err


def test_a_batch_over_the_rate_fails_item_by_item_and_the_next_call_waits(guarded, asking, issue):
    key = issue(rate_per_s=0.01)
    items = [asking("a"), asking("b")]
    sent = {"json": {"items": items}, "headers": bearer(key)}
    first = guarded.client.post("/v1/selections", **sent).json()["items"]
    assert all("plan" in item for item in first)
    second = guarded.client.post("/v1/selections", **sent).json()["items"]
    assert [(item["error"], item["place"]) for item in second] == [
        ("rate_limited", "items.0"), ("rate_limited", "items.1"),
    ]  # fmt: skip


def test_a_tenant_over_its_rate_is_refused_whoever_asks(settings, catalog, running, asking):
    with running(settings.model_copy(update={"tenant_rate_per_s": 0.01})) as limited:
        assert limited.select().is_success
        refused = limited.select("r-2")
        assert (refused.status_code, refused.json()["error"]) == (429, "rate_limited")
        assert limited.select("r-2", tenant="globex").is_success


def test_the_document_names_the_scheme_and_every_refusal(served):
    document = served.client.get("/openapi.json").json()
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for path, methods in document["paths"].items():
        for operation in methods.values():
            is_guarded = path.startswith("/v1/")
            assert ("security" in operation) == is_guarded, path
            assert {"401", "403", "429"} <= set(operation["responses"]) or not is_guarded
    assert json.dumps(document)
