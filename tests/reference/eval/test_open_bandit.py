"""The Open Bandit Dataset: published values again, and the estimates that must be refused."""

import pytest
import yaml

from canopy.logs.obd import read_obd
from canopy.logs.tabular import log_of
from eval.report import evaluate
from eval.reward_models import RewardModelSpec
from policy.catalog import parse_catalog

pytestmark = pytest.mark.reference

TRUTH = 0.0042
"""Mean click rate of the Thompson sampling policy's own log of the same campaign."""

RECIPE = RewardModelSpec(
    reward_by="position",
    encode_plans="ordinal",
    plan_factors=("item_feature_1", "item_feature_2", "item_feature_3"),
)


def label_encoded(text):
    """The catalog with levels in alphabetical order: so the published run numbers them."""
    document = yaml.safe_load(text)
    for factor in document["factors"].values():
        factor["levels"] = sorted(factor["levels"])
    return parse_catalog(yaml.safe_dump(document, sort_keys=False))


def obd(reference_data, name, **target):
    folder = reference_data / "decision" / "obd_small"
    if target.pop("thompson", False):
        target["prior"] = folder / "prior_bts.yaml"
    converted = read_obd(folder / name, **target)
    return log_of(converted.columns, converted.facts)


@pytest.fixture(scope="module")
def quickstart(reference_data):
    log = obd(reference_data, "random/all", thompson=True)
    return evaluate(log, catalog=label_encoded(log.catalog_text), reward_model=RECIPE)


@pytest.mark.parametrize(
    ("estimator", "published", "tolerance"),
    [("ips", 0.004553, 1e-6), ("dm", 0.003545, 5e-6), ("dr", 0.004727, 5e-6)],
)
def test_the_quick_starts_values_come_out_again(quickstart, estimator, published, tolerance):
    assert quickstart.verdict(estimator).value == pytest.approx(published, abs=tolerance)


@pytest.mark.parametrize(
    ("estimator", "published", "tolerance"),
    [("ips", 0.084019, 1e-6), ("dm", 0.156041, 1e-3), ("dr", 0.125548, 1e-3)],
)
def test_the_quick_starts_errors_against_the_truth_come_out_again(
    quickstart, estimator, published, tolerance
):
    value = quickstart.verdict(estimator).value
    assert abs(value - TRUTH) / TRUTH == pytest.approx(published, abs=tolerance)


def test_the_quick_starts_bootstrap_interval_comes_out_again(quickstart):
    interval = {d.estimator: d.bootstrap for d in quickstart.intervals}["ips"]
    assert interval == pytest.approx((0.001531, 0.009254), abs=3e-4)


def test_a_random_logger_supports_the_production_policy(quickstart):
    verdict = quickstart.verdict("ips")
    assert verdict.status == "ok"
    assert verdict.ess == pytest.approx(1640, abs=1)
    assert verdict.value / quickstart.logging.value == pytest.approx(1.198126, abs=1e-6)


def test_a_log_worth_two_rows_is_refused_and_gives_no_number(reference_data):
    log = obd(reference_data, "bts/women", target="uniform")
    found = evaluate(log, estimators=["ips", "snips"])
    assert found.is_refused
    for verdict in found.verdicts:
        assert verdict.value is None
        assert verdict.interval is None
        assert verdict.ess == pytest.approx(2.1, abs=0.05)
        assert verdict.max_weight == pytest.approx(21_739, abs=1)
        assert "too little overlap" in verdict.reason
    assert found.contributions == {}


def test_a_log_worth_some_hundred_rows_is_not_refused(reference_data):
    found = evaluate(obd(reference_data, "bts/all"), "uniform", estimators=["ips", "snips"])
    for verdict in found.verdicts:
        assert verdict.status == "ok"
        assert verdict.ess == pytest.approx(340, abs=1)
        assert verdict.interval[0] <= 0.0038 <= verdict.interval[1]
