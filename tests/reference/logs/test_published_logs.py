"""The published logs: read, or refused where they must be."""

from datetime import UTC, datetime

import numpy as np
import pytest

from canopy.domain.errors import LogError
from canopy.logs.convert import LogFormat, ReadOptions, read_any
from canopy.logs.dsjson import read_dsjson
from policy.catalog import parse_catalog

pytestmark = pytest.mark.reference

DECLARED = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def obd(reference_data):
    return reference_data / "decision" / "obd_small"


@pytest.fixture(scope="module")
def dsjson(reference_data):
    return reference_data / "decision" / "vw_dsjson"


def read(path, **options):
    return read_any(path, LogFormat.AUTO, ReadOptions(**options)).log


def weights(log):
    return log.column("target_propensity") / log.column("propensity")


def test_the_quick_starts_target_policy_gives_its_published_estimate(obd):
    log = read(obd / "random" / "all", target_prior=obd / "prior_bts.yaml")
    weight, reward = weights(log), log.column("reward")
    estimate = (weight * reward).mean()
    assert estimate == pytest.approx(0.004553, abs=1e-6)
    assert estimate / reward.mean() == pytest.approx(1.198126, abs=1e-3)
    assert abs(estimate - 0.0042) / 0.0042 == pytest.approx(0.084019, abs=1e-6)
    assert weight.sum() ** 2 / (weight**2).sum() == pytest.approx(1640, abs=1)


def test_women_bts_towards_uniform_has_no_overlap(obd):
    log = read(obd / "bts" / "women", target="uniform")
    weight = weights(log)
    assert weight.max() == pytest.approx(21_739, abs=1)
    assert weight.sum() ** 2 / (weight**2).sum() == pytest.approx(2.1, abs=0.05)
    assert (weight * log.column("reward")).mean() == pytest.approx(0.007438, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "n_plans", "clicks", "uniform"),
    [("random/all", 80, 38, True), ("bts/all", 80, 42, False),
     ("random/women", 46, 46, True), ("bts/women", 46, 46, False)],
)  # fmt: skip
def test_every_campaign_is_read_with_its_catalog(obd, name, n_plans, clicks, uniform):
    log = read(obd / name)
    assert (log.n_rows, len(log.plans), log.column("reward").sum()) == (10_000, n_plans, clicks)
    assert log.has("propensities") == uniform
    assert parse_catalog(log.catalog_text, name).plan_ids == log.plans
    assert (np.diff(log.column("ts")) >= np.timedelta64(0)).all()


def test_a_plain_decision_service_log_is_read_whole(dsjson):
    log = read(dsjson / "dsjson_cb.json")
    assert log.n_rows == 23
    assert log.plans == ("Cappucino", "Cold brew", "Iced mocha", "Latte")
    assert log.column("plan")[0] == "Latte"
    assert log.matrix("propensities")[0].tolist() == [0.05, 0.05, 0.85, 0.05]
    assert log.column("reward").sum() == 12
    assert set(log.column("policy_version")) == {
        "ff0744c1aa494e1ab39ba0c78d048146/550c12cbd3aa47f09fbed3387fb9c6ec"
    }


def test_a_drop_probability_becomes_a_keep_probability_once_a_time_is_declared(dsjson):
    path = dsjson / "cb_simple_pdrop.json"
    with pytest.raises(LogError, match=r"cb_simple_pdrop\.json:1: Timestamp"):
        read(path)
    log = read(path, timestamp=DECLARED)
    assert log.column("keep_prob").tolist() == [pytest.approx(0.1)]
    assert log.column("plan").tolist() == ["action=2"]


def test_actions_that_count_from_zero_are_refused(dsjson):
    with pytest.raises(LogError, match=r"igl\.dsjson:1: a: expected actions from 1 to 4"):
        read(dsjson / "igl.dsjson", timestamp=DECLARED)


def test_a_log_of_marks_and_stray_outcomes_gives_its_one_decision(dsjson):
    path = dsjson / "b1848_dsjson_parser_regression.txt"
    log = read(path)
    assert log.n_rows == 1
    assert len(log.plans) == 6
    assert log.table.column("reward").null_count == 1  # never shown, hence not measured
    assert any(note.startswith("6 outcomes") for note in read_dsjson(path).notes)
