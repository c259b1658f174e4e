"""Reading decisions back, and saying what was served after all."""

from uuid import uuid4

import pytest

from canopy.domain.decision import Mode

pytestmark = pytest.mark.integration


def read(served, decision_id, tenant="acme"):
    return served.client.get(f"/v1/decisions/{decision_id}", params={"tenant": tenant})


def test_a_decision_reads_back_with_its_distribution_and_why_plans_were_masked(served, catalog):
    answer = served.select(context={"budget": 1}, allowed=list(catalog.plan_ids[:4])).json()
    found = read(served, answer["decision_id"]).raise_for_status().json()
    for name in ("plan", "propensity", "served", "mode", "arm", "reasons", "versions"):
        assert found[name] == answer[name]
    assert found["distribution"][found["plan"]] == found["propensity"]
    assert sum(found["distribution"].values()) == pytest.approx(1, abs=1e-12)
    assert found["n_plans"] == 6
    assert found["n_masked"] == 3
    assert found["masked_by"] == {
        "long texts need a budget of 3": 2, "not allowed by the caller": 1,
    }  # fmt: skip
    assert {m["plan"] for m in found["masked"]} == {
        "tone=warm,length=long", "tone=plain,length=long", "tone=plain,length=medium",
    }  # fmt: skip
    assert all(found["distribution"][m["plan"]] == 0 for m in found["masked"])
    assert found["context"] == {"budget": 1}
    assert found["outcomes"] == []
    assert 0 <= found["u"] < 1
    assert found["tenant"] == "acme"


def test_the_candidates_choice_reads_back_apart(served, make_policy, point):
    point(None, make_policy(seed=3), Mode.OBSERVATION)
    served.runtime.pointers.sweep()
    found = read(served, served.select().json()["decision_id"]).json()
    assert found["shadow"][found["shadow_plan"]] > 0
    assert found["shadow"] != found["distribution"]


def test_a_decision_over_many_plans_keeps_its_propensity_and_no_distribution(served, store_catalog):
    levels = ", ".join(f"l{n}" for n in range(300))
    store_catalog(
        f"discipline: wide\nversion: 1\nfactors:\n  f: {{levels: [{levels}]}}\ndefault: f=l0\n"
    )
    answer = served.select(discipline="wide").json()
    found = read(served, answer["decision_id"]).json()
    assert found["distribution"] is None
    assert found["propensity"] == 1.0
    assert found["n_plans"] == 300
    assert found["n_masked"] == 0


def test_another_tenants_decision_is_not_found(served):
    decision_id = served.select().json()["decision_id"]
    assert read(served, decision_id, "globex").status_code == 404
    assert read(served, uuid4()).status_code == 404


def test_a_read_without_a_tenant_or_with_a_wrong_id_is_refused(served):
    missing = served.client.get(f"/v1/decisions/{uuid4()}")
    assert missing.status_code == 400
    assert missing.json()["place"] == "query.tenant"
    assert read(served, "nope").json()["place"] == "path.decision_id"


def test_a_path_that_is_not_served_is_a_problem_too(served):
    assert served.client.get("/v2/nothing").json()["error"] == "not_found"
    assert served.client.get("/v1/selections").status_code == 405


def test_serving_another_plan_takes_the_propensity_back_for_good(served, database, catalog):
    answer = served.select().json()
    place = f"/v1/decisions/{answer['decision_id']}/served"
    same = served.client.post(place, json={"tenant": "acme", "plan": answer["plan"]}).json()
    assert (same["served"], same["propensity"]) == (True, answer["propensity"])
    other = next(plan for plan in catalog.plan_ids if plan != answer["plan"])
    changed = served.client.post(place, json={"tenant": "acme", "plan": other}).json()
    assert (changed["served"], changed["propensity"]) == (False, None)
    assert changed["plan"] == answer["plan"]
    assert changed["distribution"][answer["plan"]] == answer["propensity"]
    back = served.client.post(place, json={"tenant": "acme", "plan": answer["plan"]}).json()
    assert back["propensity"] is None
    with database.unit_of_work("acme") as work:
        (episode,) = work.decisions.export("public_copy")
    assert episode.propensity is None


def test_the_same_plan_imposed_was_not_drawn_and_a_repeat_changes_nothing(served):
    answer = served.select().json()
    place = f"/v1/decisions/{answer['decision_id']}/served"
    imposed = {"tenant": "acme", "plan": answer["plan"], "imposed": True}
    first = served.client.post(place, json=imposed).raise_for_status()
    assert (first.json()["served"], first.json()["propensity"]) == (False, None)
    (kept,) = first.json()["corrections"]
    assert kept["plan"] == answer["plan"]
    assert served.client.post(place, json=imposed).content == first.content


def test_a_plan_that_the_catalog_has_not_was_not_served(served):
    answer = served.select().json()
    place = f"/v1/decisions/{answer['decision_id']}/served"
    refused = served.client.post(place, json={"tenant": "acme", "plan": "tone=loud,length=short"})
    assert (refused.status_code, refused.json()["place"]) == (400, "plan")
    assert "tone=loud" in refused.json()["message"]
    assert read(served, answer["decision_id"]).json()["propensity"] == answer["propensity"]


def test_a_correction_of_another_tenants_decision_is_not_found(served):
    answer = served.select().json()
    place = f"/v1/decisions/{answer['decision_id']}/served"
    refused = served.client.post(place, json={"tenant": "globex", "plan": "x"})
    assert refused.status_code == 404
    wrong = served.client.post(place, json={"tenant": "acme"})
    assert (wrong.status_code, wrong.json()["place"]) == (400, "plan")
