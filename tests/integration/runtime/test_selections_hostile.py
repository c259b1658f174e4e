"""What a careless or hostile caller may send: refused by place, never a failure of ours."""

import json
from uuid import uuid4

import pytest

pytestmark = pytest.mark.integration

CONTEXT = '{"budget": 4, "channel": "mail"}'


def body_with(asking, context, request_id="h-1"):
    """A request whose context is written as it stands."""
    return json.dumps(asking(request_id)).replace(CONTEXT, context).encode("utf-8", "surrogatepass")


REFUSED = {
    "no UTF-8": ('{"x": "@"}', "body"),
    "a raw surrogate": ('{"x": "\ud800"}', "body"),
    "an escaped surrogate": (r'{"x": "\ud800"}', "body"),
    "a surrogate as key": (r'{"\udfff": 1}', "body"),
    "a hundred thousand lists": ('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", "body"),
    "ten thousand objects": ('{"x":' * 10_000 + "1" + "}" * 10_000, "body"),
    "a key twice": ('{"budget": 1, "budget": 2}', "budget"),
    "five thousand digits": ('{"x": 1' + "0" * 5_000 + "}", "body"),
    "no number": ('{"budget": NaN}', "context.budget"),
    "infinity": ('{"budget": -Infinity}', "context.budget"),
    "a number beyond all floats": ('{"budget": 1e400}', "context.budget"),
    "a NUL as key": (r'{"\u0000": 1}', "context"),
}


def test_a_context_that_cannot_be_kept_is_refused_by_place(served, asking):
    for what, (context, place) in REFUSED.items():
        body = body_with(asking, context).replace(b"@", b"\xff")
        refused = served.client.post("/v1/selections", content=body)
        assert refused.status_code == 400, (what, refused.text)
        assert refused.headers["content-type"] == "application/problem+json"
        problem = refused.json()
        assert (problem["error"], problem["place"]) == ("bad_request", place), what
        assert problem["message"].count(". ") >= 1
    served.select("h-1").raise_for_status()


LARGE = {
    "spaces": (b" " * 10_000_000, 400, "body"),
    "brackets": (b"[" * 10_000_000, 400, "body"),
    "digits": (b'{"request_id": ' + b"1" * 10_000_000 + b"}", 400, "body"),
    "one text": (b'{"items": "' + b"x" * 10_000_000 + b'"}', 400, "items"),
    "one key": (b'{"' + b"x" * 10_000_000 + b'": 1}', 400, None),
    "colons": (b'{"items": [' + b'{"a":1},' * 1_200_000 + b"{}]}", 413, "items"),
}


def test_ten_megabytes_of_nothing_are_refused_in_few_words(served):
    for what, (body, status, place) in LARGE.items():
        refused = served.client.post("/v1/selections", content=body)
        assert refused.status_code == status, (what, refused.text[:300])
        assert place is None or refused.json()["place"] == place, what
        assert len(refused.content) < 1000, what
    served.select().raise_for_status()


KEPT = {
    "a hundred and ninety lists": '{"x": ' + "[" * 190 + "]" * 190 + "}",
    "four hundred digits": '{"x": 1' + "0" * 400 + "}",
    "a long fraction": '{"budget": 0.' + "1" * 60_000 + "}",
    "less than any float": '{"budget": 1e-400}',
    "an empty key": '{"": {"": [null, ""]}}',
    "noncharacters": r'{"x": "\uffff\ufffe\ud83d\ude00"}',
    "colons in texts": r'{"::": "a:b", "c": ["\":", "\u003a"]}',
}


def test_a_strange_context_is_kept_and_reads_back_as_it_was(served, asking):
    for what, context in KEPT.items():
        body = body_with(asking, context, what)
        answer = served.client.post("/v1/selections", content=body)
        assert answer.status_code == 200, (what, answer.text)
        assert served.client.post("/v1/selections", content=body).content == answer.content
        decision_id = answer.json()["decision_id"]
        found = served.client.get(f"/v1/decisions/{decision_id}", params={"tenant": "acme"})
        assert found.status_code == 200, (what, found.text)
        assert found.json()["context"] == json.loads(context), what


def test_what_is_not_served_is_a_problem_that_names_what_is(served):
    for method, path, status, allow in (
        ("GET", "/v1/selections", 405, "POST"),
        ("OPTIONS", "/v1/selections", 405, "POST"),
        ("HEAD", "/v1/outcomes", 405, "POST"),
        ("PUT", "/v1/outcomes", 405, "POST"),
        ("DELETE", f"/v1/decisions/{uuid4()}", 405, "GET"),
        ("HEAD", "/healthz", 405, "GET"),
        ("POST", "/metrics", 405, "GET"),
        ("GET", "/nothing", 404, None),
        ("POST", "/v1/selections/", 404, None),
        ("GET", "/docs", 404, None),
        ("GET", "//", 404, None),
    ):
        refused = served.client.request(method, path)
        assert (refused.status_code, refused.headers.get("allow")) == (status, allow), path
        assert refused.headers["content-type"] == "application/problem+json"
        if method != "HEAD":
            assert "/openapi.json" in refused.json()["message"]


def test_a_wrong_parameter_is_refused_by_place(served):
    for path, place in (
        ("/v1/decisions/%ff?tenant=acme", "path.decision_id"),
        ("/v1/decisions/%00?tenant=acme", "path.decision_id"),
        (f"/v1/decisions/{uuid4()}?tenant=%00", "query.tenant"),
        (f"/v1/decisions/{uuid4()}?tenant=", "query.tenant"),
        (f"/v1/decisions/{uuid4()}?tenant=" + "x" * 201, "query.tenant"),
    ):
        refused = served.client.get(path)
        assert (refused.status_code, refused.json()["place"]) == (400, place), path
        assert "See /openapi.json" in refused.json()["message"]


def test_one_request_id_twice_in_a_batch_is_answered_once(served, asking, database):
    items = [
        asking("same"),
        asking("same"),
        asking("same", unit_id="customer-2"),
        asking("same", kind="synthetic"),
        asking("same", tenant="globex"),
    ]
    found = served.client.post("/v1/selections", json={"items": items}).json()["items"]
    assert [item.get("error") for item in found] == [
        None, "in_flight", "request_conflict", "request_conflict", None,
    ]  # fmt: skip
    assert [item.get("place") for item in found[1:4]] == [
        f"items.{n}.request_id" for n in (1, 2, 3)
    ]
    assert found[0]["decision_id"] != found[4]["decision_id"]
    again = served.client.post("/v1/selections", json={"items": items}).json()["items"]
    assert [again[0], again[4]] == [found[0], found[4]]
    with database.unit_of_work("acme") as work:
        assert work.decisions.count() == 1


def test_a_request_that_was_refused_leaves_its_id_free(served):
    assert served.select(override="no such plan").status_code == 400
    assert served.select().status_code == 200


def test_an_item_over_a_limit_names_the_item(served, asking):
    items = [asking("a"), asking("b", context={"x": "y" * 70_000})]
    found = served.client.post("/v1/selections", json={"items": items}).json()["items"]
    assert (found[1]["error"], found[1]["place"]) == ("too_large", "items.1.context")
