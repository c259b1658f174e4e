"""`POST /v1/outcomes`: measurements are added, never replaced, and missing stays missing."""

import json
from uuid import UUID, uuid4

import pytest

pytestmark = pytest.mark.integration


def report(served, decision_id, **parts):
    body = {"tenant": "acme", "decision_id": decision_id} | parts
    return served.client.post("/v1/outcomes", json=body)


def outcomes(database, decision_id, tenant="acme"):
    with database.unit_of_work(tenant) as work:
        return work.outcomes.of(UUID(decision_id))


@pytest.fixture
def decision_id(served):
    return served.select().json()["decision_id"]


def test_a_measurement_is_recorded_as_sent(served, database, decision_id):
    answer = report(
        served, decision_id, metric="clicks", value=2, unit="count", window_days=7,
        observed_at="2026-01-02T03:04:05+01:00", final=False,
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    (row,) = outcomes(database, decision_id)
    assert (row.metric, row.value, row.unit, row.window, row.final) == (
        "clicks", 2.0, "count", 7.0, False,
    )  # fmt: skip
    assert row.observed_at.isoformat() == answer.json()["observed_at"].replace("Z", "+00:00") or (
        row.observed_at.timestamp() == 1767319445
    )


def test_a_measurement_that_could_not_be_made_stays_null(served, database, decision_id):
    assert report(served, decision_id, value=None).json()["value"] is None
    (row,) = outcomes(database, decision_id)
    assert row.value is None
    read = served.client.get(f"/v1/decisions/{decision_id}", params={"tenant": "acme"}).json()
    assert read["outcomes"][0]["value"] is None


def test_a_forgotten_value_is_refused(served, decision_id):
    refused = report(served, decision_id)
    assert refused.status_code == 400
    assert refused.json()["place"] == "value"


def test_a_correction_is_a_new_row_and_the_newest_becomes_the_reward(served, database, decision_id):
    report(served, decision_id, value=0, observed_at="2026-01-01T00:00:00Z").raise_for_status()
    report(served, decision_id, value=1, observed_at="2026-01-02T00:00:00Z").raise_for_status()
    assert [row.value for row in outcomes(database, decision_id)] == [0, 1]
    with database.unit_of_work("acme") as work:
        (episode,) = work.decisions.export("public_copy")
    assert episode.reward == 1


def test_a_measurement_that_is_not_final_makes_no_reward(served, database, decision_id):
    report(served, decision_id, value=3, final=False).raise_for_status()
    with database.unit_of_work("acme") as work:
        (episode,) = work.decisions.export("public_copy")
    assert episode.reward is None
    report(served, decision_id, value=4).raise_for_status()
    with database.unit_of_work("acme") as work:
        (episode,) = work.decisions.export("public_copy")
    assert episode.reward == 4


def test_a_late_measurement_of_an_earlier_moment_does_not_displace_a_newer_one(
    served, database, decision_id
):
    report(served, decision_id, value=1, observed_at="2026-01-02T00:00:00Z").raise_for_status()
    report(served, decision_id, value=0, observed_at="2026-01-01T00:00:00Z").raise_for_status()
    with database.unit_of_work("acme") as work:
        (episode,) = work.decisions.export("public_copy")
    assert episode.reward == 1
    assert len(outcomes(database, decision_id)) == 2


def test_a_final_measurement_that_could_not_be_made_is_no_reward_and_not_zero(
    served, database, decision_id
):
    report(served, decision_id, value=None).raise_for_status()
    with database.unit_of_work("acme") as work:
        (episode,) = work.decisions.export("public_copy")
    assert episode.reward is None


def test_the_same_measurement_twice_is_fine(served, database, decision_id):
    for _ in range(2):
        sent = report(served, decision_id, value=1, observed_at="2026-01-01T00:00:00Z")
        assert sent.status_code == 200
    assert len(outcomes(database, decision_id)) == 1


@pytest.mark.parametrize("word", ["NaN", "Infinity", "1e999", '"1"', "true"])
def test_what_is_no_finite_number_is_refused(served, database, decision_id, word):
    body = json.dumps({"tenant": "acme", "decision_id": decision_id, "value": 0})
    refused = served.client.post("/v1/outcomes", content=body.replace(": 0}", f": {word}}}"))
    assert refused.status_code == 400, refused.text
    assert refused.json()["place"] == "value"
    assert outcomes(database, decision_id) == []


@pytest.mark.parametrize(
    ("parts", "place"),
    [
        ({"observed_at": "2026-01-01T00:00:00"}, "observed_at"),
        ({"observed_at": "0001-01-01T00:00:00+14:00"}, "observed_at"),
        ({"observed_at": "9999-12-31T23:59:59-14:00"}, "observed_at"),
        ({"window_days": -1}, "window_days"),
        ({"metric": ""}, "metric"),
        ({"decision_id": "nope"}, "decision_id"),
        ({"reward": 1}, "reward"),
    ],
)
def test_a_wrong_part_is_refused_by_name(served, decision_id, parts, place):
    refused = (
        report(served, decision_id, value=1, **parts)
        if "decision_id" not in parts
        else (report(served, parts["decision_id"], value=1))
    )
    assert refused.status_code == 400
    assert refused.json()["place"] == place


def test_an_unknown_decision_and_another_tenants_are_not_found(served, decision_id):
    assert report(served, str(uuid4()), value=1).status_code == 404
    theirs = report(served, decision_id, value=1, tenant="globex")
    assert theirs.status_code == 404
    assert theirs.json()["place"] == "decision"


def test_the_items_of_a_batch_succeed_or_fail_each_by_itself(served, database, decision_id):
    second = served.select("r-2", tenant="globex").json()["decision_id"]
    items = [
        {"tenant": "acme", "decision_id": decision_id, "value": 1},
        {"tenant": "acme", "decision_id": str(uuid4()), "value": 1},
        {"tenant": "globex", "decision_id": second, "value": None},
        {"tenant": "acme", "decision_id": decision_id},
        {"tenant": "acme", "decision_id": decision_id, "value": 5, "metric": "clicks"},
    ]
    found = served.client.post("/v1/outcomes", json={"items": items}).json()["items"]
    assert [item.get("error") for item in found] == [
        None, "not_found", None, "bad_request", None,
    ]  # fmt: skip
    assert [row.metric for row in outcomes(database, decision_id)] == ["reward", "clicks"]
    assert len(outcomes(database, second, "globex")) == 1
