"""A policy artifact as the target: its served distribution on the logged mask."""

import numpy as np
import pandas as pd
import pytest

from canopy.logs.tabular import write_log
from eval.report import evaluate
from policy.artifact import load_artifact, save_artifact
from policy.catalog import parse_catalog
from policy.features import fit_schema
from policy.selector import probabilities

CATALOG = """
discipline: test
version: "1"
factors:
  tone: {levels: [plain, warm, bold]}
default: tone=plain
"""
FACTS = {
    "training_run_id": None, "data_hash": None, "objective": "bc", "reward_spec": None,
    "lineage": {}, "n_rows": 10, "synthetic": True,
}  # fmt: skip


@pytest.fixture
def log():
    rng = np.random.default_rng(0)
    n = 400
    feasible = rng.random((n, 3)) < 0.8
    feasible[:, 0] = True
    logging = feasible / feasible.sum(axis=1, keepdims=True)
    action = (rng.random(n)[:, None] > logging.cumsum(axis=1)).sum(axis=1)
    plans = ["tone=plain", "tone=warm", "tone=bold"]
    return pd.DataFrame({
        "decision_id": [f"d{i}" for i in range(n)],
        "unit_id": [f"u{i}" for i in range(n)],
        "ts": pd.date_range("2026-01-01", periods=n, freq="min", tz="UTC"),
        "plan": [plans[a] for a in action],
        "propensity": logging[np.arange(n), action],
        "propensities": logging.tolist(),
        "feasible": feasible.tolist(),
        "reward": (rng.random(n) < np.array([0.2, 0.5, 0.8])[action]).astype(float),
        "x_age": rng.normal(40, 10, n),
    })


@pytest.fixture
def artifact(log, tmp_path):
    catalog = parse_catalog(CATALOG)
    schema = fit_schema({"age": log["x_age"].tolist()})
    rng = np.random.default_rng(1)
    weights = {"factor.0": rng.normal(size=(3, schema.width + 1))}
    return save_artifact(
        tmp_path / "policy", catalog=catalog, schema=schema, weights=weights,
        temperature=1.0, floor=0.1, facts=FACTS,
    )  # fmt: skip


def test_the_target_is_what_the_policy_would_serve_on_the_logged_mask(log, artifact):
    plans = list(artifact.catalog.plan_ids)
    mask = np.array(log["feasible"].tolist())
    served = probabilities(artifact, {"age": log["x_age"].to_numpy()}, mask=mask)
    by_folder = evaluate(log, plans=plans, policy=artifact.folder)
    by_hand = evaluate(log, served, plans=plans)
    assert by_folder.weight == pytest.approx(by_hand.weight)
    assert [v.value for v in by_folder.verdicts] == pytest.approx([
        v.value for v in by_hand.verdicts
    ])
    assert by_folder.verdict("ips").unsupported_mass == pytest.approx(0)
    assert by_folder.target == artifact.policy_id[:12]
    assert evaluate(log, load_artifact(artifact.folder), plans=plans).target == by_folder.target


def test_plans_in_another_order_change_nothing(log, artifact):
    plans = list(artifact.catalog.plan_ids)
    order = [2, 0, 1]
    turned = log.assign(
        propensities=[[row[i] for i in order] for row in log["propensities"]],
        feasible=[[row[i] for i in order] for row in log["feasible"]],
    )
    one = evaluate(log, artifact, plans=plans, estimators=["ips", "dr"])
    other = evaluate(turned, artifact, plans=[plans[i] for i in order], estimators=["ips", "dr"])
    assert other.weight == pytest.approx(one.weight)
    assert other.verdict("ips").value == pytest.approx(one.verdict("ips").value)


def test_a_plan_the_policy_does_not_know_is_never_taken_by_it(log, artifact):
    plans = list(artifact.catalog.plan_ids)
    renamed = log.assign(plan=log["plan"].replace("tone=bold", "tone=loud"))
    found = evaluate(renamed, artifact, plans=[*plans[:2], "tone=loud"], estimators=["ips"])
    loud = (renamed["plan"] == "tone=loud").to_numpy()
    assert (found.weight[loud] == 0).all()
    assert (found.weight[~loud] > 0).all()


def test_rows_on_which_the_policy_knows_no_plan_count_as_unsupported(log, artifact):
    strange = log.assign(plan="other", propensities=[[1.0]] * 400, propensity=1.0)
    found = evaluate(
        strange.drop(columns="feasible"), artifact, plans=["other"], estimators=["ips"]
    )
    assert found.verdict("ips").unsupported_mass == 1
    assert found.verdict("ips").status == "refused"


def test_a_log_read_in_passing_gives_the_policy_the_same_contexts(log, artifact, tmp_path):
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text(CATALOG)
    path = tmp_path / "log.parquet"
    columns = {name: log[name].tolist() for name in log}
    write_log(path, columns, plans=artifact.catalog.plan_ids)
    names = ["ips", "snips", "mips=tone"]
    for more in ({}, {"against": str(artifact.folder)}):
        kept, passing = (
            evaluate(
                path, "uniform" if more else None, policy=None if more else artifact.folder,
                catalog=catalog, estimators=names, stream=stream, **more,
            )
            for stream in (False, True)
        )  # fmt: skip
        assert passing.target == kept.target
        for ours, theirs in zip(passing.verdicts, kept.verdicts, strict=True):
            assert ours.value == pytest.approx(theirs.value, rel=1e-12)
            assert ours.interval == pytest.approx(theirs.interval, rel=1e-9)
        for ours, theirs in zip(passing.differences, kept.differences, strict=True):
            assert (ours.against, ours.value) == (theirs.against, pytest.approx(theirs.value))
