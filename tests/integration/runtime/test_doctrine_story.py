"""From a catalog's first day: what doctrine serves can be evaluated, if it has weights."""

import numpy as np
import pytest

from canopy.logs.export import export_log
from eval.report import evaluate
from policy.catalog import parse_catalog
from policy.selector import doctrine_probabilities, probabilities

pytestmark = pytest.mark.integration

CRAFT = "public_copy"
WEIGHTED = """\
discipline: public_copy
version: 1
factors:
  tone:
    levels:
      warm: {doctrine: Speak like a neighbour., weight: 3}
      plain: {doctrine: Say it once., weight: 1}
  length: {levels: [short, medium, long]}
feasibility:
  - mask: {length: long}
    unless: {ge: {budget: 3}}
    because: long texts need a budget of 3
default: tone=warm,length=short
"""
PLAIN = WEIGHTED.replace(", weight: 3", "").replace(", weight: 1", "")
N_UNITS = 1_200


def context_of(number):
    return {"budget": number % 6, "channel": ("mail", "chat")[number % 2]}


def reward_probability(plan, context):
    """The known world: plain words help in chats, longer texts help with a budget."""
    chance = 0.2
    chance += 0.3 * (("tone=plain" in plan) == (context["channel"] == "chat"))
    return chance + 0.05 * context["budget"] * ("length=long" in plan)


def serve_and_learn(served, asking):
    """Selections of many units, each with the outcome that the world gives it."""
    rng = np.random.default_rng(0)
    for start in range(0, N_UNITS, 200):
        numbers = range(start, start + 200)
        items = [asking(f"r-{n}", unit_id=f"unit-{n}", context=context_of(n)) for n in numbers]
        answers = served.client.post("/v1/selections", json={"items": items}).json()["items"]
        outcomes = [
            {
                "tenant": "acme",
                "decision_id": answer["decision_id"],
                "value": float(rng.random() < reward_probability(answer["plan"], context_of(n))),
            }
            for n, answer in zip(numbers, answers, strict=True)
        ]
        served.client.post("/v1/outcomes", json={"items": outcomes}).raise_for_status()


def logged(database, tmp_path):
    with database.unit_of_work("acme") as work:
        return export_log(work, tmp_path / "log.parquet", discipline=CRAFT).log


@pytest.fixture
def story(served, asking, store_catalog, database, tmp_path):
    """Serves a catalog's doctrine policy, and gives the log of it."""

    def tell(text):
        store_catalog(text)
        served.runtime.pointers.sweep()
        serve_and_learn(served, asking)
        return parse_catalog(text, "copy.yaml"), logged(database, tmp_path)

    return tell


def test_with_weights_the_log_of_the_first_day_evaluates_a_candidate(story, make_policy):
    catalog, log = story(WEIGHTED)
    mask = log.matrix("feasible") > 0
    logging = log.matrix("propensities")
    np.testing.assert_array_equal(logging, doctrine_probabilities(catalog, mask))
    action = [catalog.index(plan) for plan in log.column("plan")]
    np.testing.assert_array_equal(log.column("propensity"), logging[np.arange(N_UNITS), action])

    candidate = make_policy(seed=3, text=WEIGHTED)
    contexts = [context_of(int(unit.removeprefix("unit-"))) for unit in log.column("unit_id")]
    target = probabilities(candidate, contexts, mask)
    rewards = np.array([[reward_probability(p, c) for p in catalog.plan_ids] for c in contexts])
    truth = float((target * rewards).sum(axis=1).mean())
    found = {v.estimator: v for v in evaluate(log, policy=candidate).verdicts}
    for name in ("ips", "snips", "dr", "sndr"):
        verdict = found[name]
        assert verdict.status == "ok", verdict.reason
        lo, hi = verdict.interval
        assert lo <= truth <= hi
        assert hi - lo < 0.4
    assert found["ips"].unsupported_mass == 0.0


def test_without_weights_it_is_a_point_mass_and_the_refusal_names_the_remedy(story, make_policy):
    catalog, log = story(PLAIN)
    assert set(log.column("plan")) == {catalog.plan_ids[catalog.default]}
    assert set(log.column("propensity")) == {1.0}
    candidate = make_policy(seed=3, text=PLAIN)
    for verdict in evaluate(log, policy=candidate).verdicts:
        if verdict.estimator == "dm":
            continue
        assert verdict.status == "refused"
        assert verdict.value is None
        assert "doctrine weights" in verdict.reason
        assert "floor" in verdict.reason
    same = {v.estimator: v for v in evaluate(log, "logging").verdicts}
    assert same["ips"].status == "ok"
