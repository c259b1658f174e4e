"""`POST /v1/selections`: drawn once, durable before it is answered, the same for every retry."""

import json
import threading
import time

import psycopg
import pytest

from canopy.domain.decision import Mode
from canopy.domain.episode import EpisodeKind, is_reserved
from policy.selector import select
from runtime.episodes import draw_key, stored_mask, stored_vector

pytestmark = pytest.mark.integration


def row_of(database, answer, tenant="acme"):
    with database.unit_of_work(tenant) as work:
        return work.decisions.get(answer["decision_id"])


def test_the_doctrine_policy_serves_where_there_is_no_champion(served, database, catalog):
    answer = served.select().raise_for_status().json()
    assert answer["reasons"] == ["doctrine"]
    assert answer["mode"] == "on"
    assert answer["arm"] is None
    assert answer["served"] is True
    assert answer["versions"]["catalog"] == catalog.content_hash
    assert answer["versions"]["policy"] is None
    expected = float(catalog.weights[catalog.index(answer["plan"])])
    assert answer["propensity"] == pytest.approx(expected)


def test_the_row_holds_what_the_answer_says_and_what_it_was_drawn_from(served, database, catalog):
    answer = served.select(context={"budget": 1}).json()
    row = row_of(database, answer)
    assert (row.plan, row.propensity, row.served) == (
        answer["plan"], answer["propensity"], answer["served"],
    )  # fmt: skip
    logging = stored_vector(row.logging)
    mask = stored_mask(row)
    assert logging[row.action] == row.propensity
    assert (logging > 0).tolist() == mask.tolist()
    assert mask.tolist() == ["length=long" not in plan for plan in catalog.plan_ids]
    assert logging.sum() == pytest.approx(1, abs=1e-12)
    assert row.context == {"budget": 1}
    assert row.kind is EpisodeKind.REAL
    assert row.reserved is is_reserved("customer-1")


def test_a_champion_serves_what_select_draws_under_the_same_key(served, make_policy, point):
    champion = make_policy(seed=3)
    point(champion)
    served.runtime.pointers.sweep()
    asked = {"budget": 5, "channel": "chat"}
    for number in range(8):
        answer = served.select(f"r-{number}", context=asked).json()
        expected = select(
            catalog=champion.catalog, artifact=champion, context=asked,
            key=draw_key("acme", f"r-{number}"),
        )  # fmt: skip
        assert answer["reasons"] == ["drawn"]
        assert answer["plan"] == expected.plan
        assert answer["propensity"] == expected.propensity
        assert answer["versions"]["policy"] == champion.policy_id


def test_a_candidate_in_observation_is_logged_beside_and_never_served(
    served, database, make_policy, point
):
    candidate = make_policy(seed=3)
    point(None, candidate, Mode.OBSERVATION)
    served.runtime.pointers.sweep()
    answer = served.select().json()
    assert answer["mode"] == "observation"
    assert answer["reasons"] == ["doctrine"]
    row = row_of(database, answer)
    assert row.shadow_plan in candidate.catalog.plan_ids
    assert stored_vector(row.shadow).sum() == pytest.approx(1, abs=1e-12)
    assert row.policy_id is None
    assert row.propensity == stored_vector(row.logging)[row.action]


def test_the_same_request_reads_the_same_answer_to_the_byte(served, database):
    first = served.select()
    again = served.select(context={"channel": "mail", "budget": 4})
    assert again.content == first.content
    with database.unit_of_work("acme") as work:
        assert work.decisions.count() == 1


def test_a_retry_reads_its_answer_although_the_champion_changed(served, make_policy, point):
    first = served.select()
    point(make_policy(seed=5))
    served.runtime.pointers.sweep()
    assert served.select().content == first.content


def test_a_retry_reads_its_answer_although_the_plan_it_names_is_gone(
    served, make_policy, point, catalog
):
    first = served.select(allowed=["tone=plain,length=medium"])
    smaller = make_policy(seed=5, text=SMALLER)
    point(smaller)
    served.runtime.pointers.sweep()
    assert served.select(allowed=["tone=plain,length=medium"]).content == first.content
    other = served.select("r-2", allowed=["tone=plain,length=medium"])
    assert other.status_code == 400
    assert other.json()["place"] == "allowed"


SMALLER = """\
discipline: public_copy
version: 2
factors:
  tone: {levels: [warm, plain]}
  length: {levels: [short, long]}
default: tone=warm,length=short
"""


def test_the_same_request_id_with_another_body_is_refused(served):
    served.select().raise_for_status()
    for changed in ({"context": {"budget": 5}}, {"unit_id": "customer-2"}, {"kind": "synthetic"}):
        refused = served.select(**changed)
        assert refused.status_code == 422
        assert refused.json()["error"] == "request_conflict"
        assert refused.json()["place"] == "request_id"
        assert refused.headers["content-type"] == "application/problem+json"


def test_two_tenants_may_use_the_same_request_id(served):
    ours, theirs = served.select(), served.select(tenant="globex")
    assert ours.status_code == theirs.status_code == 200
    assert ours.json()["decision_id"] != theirs.json()["decision_id"]


def test_nothing_is_answered_before_it_is_durable_and_a_repeat_meanwhile_is_told_to_wait(
    served, fresh_database
):
    served.select("warm-up").raise_for_status()
    answers = []
    with psycopg.connect(fresh_database.admin) as blocker:
        blocker.execute("lock table requests in exclusive mode")
        thread = threading.Thread(target=lambda: answers.append(served.select()))
        thread.start()
        deadline = time.monotonic() + 10
        while not served.runtime.selections.n_in_flight() and time.monotonic() < deadline:
            time.sleep(0.005)
        repeat = served.select()
        other = served.select(unit_id="customer-2")
        assert not answers
        blocker.rollback()
        thread.join(10)
    assert repeat.status_code == 409
    assert repeat.json()["error"] == "in_flight"
    assert repeat.headers["retry-after"] == "1"
    assert other.status_code == 422
    assert answers[0].status_code == 200
    assert served.select().content == answers[0].content


def test_an_override_is_served_without_a_propensity(served, database):
    answer = served.select(override="tone=plain,length=medium").json()
    assert answer["plan"] == "tone=plain,length=medium"
    assert answer["propensity"] is None
    assert answer["served"] is False
    assert answer["reasons"] == ["overridden"]


def test_only_allowed_plans_are_drawn(served):
    allowed = ["tone=plain,length=medium", "tone=plain,length=long"]
    plans = {served.select(f"r-{n}", allowed=allowed).json()["plan"] for n in range(20)}
    assert plans <= set(allowed)


def test_no_feasible_plan_serves_the_default_without_a_propensity(served, catalog):
    answer = served.select(allowed=[]).json()
    assert answer["reasons"] == ["no_feasible_plan"]
    assert answer["plan"] == catalog.plan_ids[catalog.default]
    assert answer["propensity"] is None


def test_an_unknown_discipline_is_not_found_and_says_what_to_do(served):
    refused = served.select(discipline="publc_copy")
    assert refused.status_code == 404
    assert refused.json()["place"] == "discipline"
    assert "canopy policy promote" in refused.json()["message"]


def test_synthetic_traffic_stays_told_apart(served, database):
    answer = served.select(kind="synthetic").json()
    assert row_of(database, answer).kind is EpisodeKind.SYNTHETIC


def test_the_items_of_a_batch_succeed_or_fail_each_by_itself(served, asking):
    items = [
        asking("b-0"),
        asking("b-1", discipline="nothing"),
        asking("b-2", override="no such plan"),
        {"request_id": "b-3"},
        asking("b-0"),
        asking("b-4", tenant="globex"),
    ]
    answered = served.client.post("/v1/selections", json={"items": items})
    assert answered.status_code == 200
    found = answered.json()["items"]
    assert [item.get("error") for item in found] == [
        None, "not_found", "bad_request", "bad_request", "in_flight", None,
    ]  # fmt: skip
    assert found[3]["place"] == "items.3.tenant"
    assert found[2]["place"] == "items.2.override"
    again = served.client.post("/v1/selections", json={"items": items[:1]}).json()["items"]
    assert again[0] == found[0]


def test_an_item_of_a_batch_means_what_it_means_alone(served, asking):
    alone = served.select("s-1").json()
    batched = served.client.post(
        "/v1/selections", json={"items": [asking("s-1"), asking("s-2")]}
    ).json()["items"]
    assert batched[0] == alone
    assert served.select("s-2").json() == batched[1]


@pytest.mark.parametrize(
    ("body", "status", "place"),
    [
        (b"not json", 400, "body"),
        (b"[]", 400, "body"),
        (b'{"items": []}', 400, "items"),
        (b'{"items": {}}', 400, "items"),
        (json.dumps({"items": [{}] * 1025}).encode(), 413, "items"),
        (b'{"request_id": ""}', 400, "request_id"),
    ],
)
def test_a_malformed_body_is_refused(served, body, status, place):
    refused = served.client.post("/v1/selections", content=body)
    assert refused.status_code == status
    assert refused.json()["place"] == place


@pytest.mark.parametrize(
    ("parts", "status", "place"),
    [
        ({"request_id": "x" * 201}, 400, "request_id"),
        ({"tenant": "a\0b"}, 400, "tenant"),
        ({"unit_id": 7}, 400, "unit_id"),
        ({"context": []}, 400, "context"),
        ({"unknown": 1}, 400, "unknown"),
        ({"context": {"note": "a\0b"}}, 400, "context.note"),
        ({"context": {"deep": [{"x": float("nan")}]}}, 400, "context.deep.0.x"),
        ({"context": {"x": float("inf")}}, 400, "context.x"),
        ({"context": {"text": "x" * 65_536}}, 413, "context"),
        ({"override": "tone=warm"}, 400, "override"),
        ({"allowed": ["tone=warm,length=short", "?"]}, 400, "allowed"),
        ({"kind": "imported"}, 400, "kind"),
    ],
)
def test_a_wrong_part_is_refused_by_name(served, asking, parts, status, place):
    body = json.dumps(asking("bad") | parts)
    refused = served.client.post("/v1/selections", content=body)
    assert refused.status_code == status, refused.text
    assert refused.json()["place"] == place


def test_a_body_too_large_is_refused_without_being_kept(served):
    refused = served.client.post("/v1/selections", content=b" " * (16 * 2**20 + 1))
    assert refused.status_code == 413
    assert refused.json()["error"] == "too_large"


def test_words_that_look_suspect_inside_texts_are_welcome(served, database):
    context = {"note": "NaN, Infinity and \\u0000", "items": ["items"], "budget": 3}
    answer = served.select(context=context).raise_for_status().json()
    assert row_of(database, answer).context == context


def test_one_context_of_a_wrong_type_does_not_fail_its_neighbours(
    served, asking, make_policy, point
):
    point(make_policy(seed=1))
    served.runtime.pointers.sweep()
    items = [asking(f"n-{n}") for n in range(6)]
    items[3]["context"] = {"budget": "much"}
    found = served.client.post("/v1/selections", json={"items": items}).json()["items"]
    assert [("error" in item) for item in found] == [False, False, False, True, False, False]
    assert found[3]["error"] == "bad_request"
