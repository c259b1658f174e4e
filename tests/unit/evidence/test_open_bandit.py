"""A real log with some forty clicks promotes nobody, and says why."""

from datetime import UTC, datetime

import numpy as np
import pytest

from canopy.domain.decision import Mode
from canopy.domain.evidence import Lineage, judge_gate, train_corpus
from canopy.logs.obd import read_obd
from canopy.logs.tabular import log_of
from eval.gates import gate_for, shipped_gate
from eval.tiers.backtest import backtest
from eval.tiers.verifiers import verify
from policy.artifact import save_artifact
from policy.catalog import parse_catalog
from policy.features import FeatureSchema
from policy.weights import parameter_shapes

AT = datetime(2026, 3, 1, tzinfo=UTC)
TRAINED = Lineage(corpora=frozenset({train_corpus("elsewhere")}))

pytestmark = pytest.mark.reference


@pytest.mark.parametrize("strength", [0.0, 0.5, 3.0])
def test_forty_clicks_promote_nobody(reference_data, tmp_path, strength):
    converted = read_obd(reference_data / "decision" / "obd_small" / "random" / "all")
    log = log_of(converted.columns, converted.facts)
    catalog = parse_catalog(log.catalog_text, "open bandit")
    shapes = parameter_shapes([len(f.levels) for f in catalog.factors], 0, pairs=False)
    rng = np.random.default_rng(1)
    policy = save_artifact(
        tmp_path / "policy", catalog=catalog, schema=FeatureSchema(()),
        weights={name: strength * rng.standard_normal(shape) for name, shape in shapes.items()},
        temperature=1.0, floor=0.05,
        facts={
            "training_run_id": None, "data_hash": None, "objective": "chance",
            "reward_spec": None, "lineage": TRAINED.document(), "n_rows": None,
            "synthetic": False,
        },
    )  # fmt: skip
    evidence = [verify(policy, None, at=AT), backtest(log, policy, at=AT)]
    gate = gate_for(shipped_gate(Mode.ON), catalog.discipline)
    report = judge_gate(gate, evidence, TRAINED, policy.policy_id, AT)
    refusals = [row for row in report.rows if not row.passed]
    assert not report.passed
    assert all(row.reason for row in refusals)
