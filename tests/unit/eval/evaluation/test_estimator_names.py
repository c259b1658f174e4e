"""Estimators by their short names, and those that take a parameter or factors."""

import numpy as np
import pandas as pd
import pytest

from canopy.domain.errors import ConfigError
from eval.estimator_names import DEFAULTS, ESTIMATORS, KINDS, parse_estimators
from eval.report import evaluate
from policy.catalog import parse_catalog

CATALOG = parse_catalog(
    "discipline: d\nversion: 1\nfactors:\n  tone: {levels: [warm, dry]}\n"
    "  length: {levels: [short, long, vast]}\ndefault: tone=warm,length=short\n",
    "catalog.yaml",
)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n, plans = 3_000, CATALOG.plan_ids
    logging = rng.dirichlet(np.full(6, 2.0), n)
    target = rng.dirichlet(np.full(6, 2.0), n)
    action = (logging.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=5)
    rate = np.array([0.2, 0.2, 0.2, 0.6, 0.6, 0.6])
    return pd.DataFrame({
        "decision_id": [f"d{i}" for i in range(n)],
        "unit_id": [f"u{i // 2}" for i in range(n)],
        "ts": pd.Timestamp("2026-01-01", tz="UTC"),
        "plan": [plans[a] for a in action],
        "propensity": logging[np.arange(n), action],
        "reward": (rng.random(n) < rate[action]).astype(float),
        "propensities": logging.tolist(),
        "target_propensities": target.tolist(),
        "q_all": np.tile(rate, (n, 1)).tolist(),
    })


def found(frame, *names, **more):
    return evaluate(frame, catalog=CATALOG, estimators=names, **more)


def test_every_kind_can_be_asked_for(frame):
    names = [f"{kind}=tone" if kind in {"mips", "marginal-dr"} else kind for kind in KINDS]
    verdicts = found(frame, *names).verdicts
    assert [v.estimator for v in verdicts] == names
    assert {v.status for v in verdicts} == {"ok"}
    assert all(abs(v.value - 0.4) < 0.06 for v in verdicts if v.estimator != "clipped")


def test_all_factors_give_ips_and_the_right_one_gives_less_variance(frame):
    evaluation = found(frame, "ips", "mips=tone+length", "mips=tone", "mips=length")
    ips, all_factors, tone, length = evaluation.verdicts
    assert all_factors.value == pytest.approx(ips.value)
    assert all_factors.ess == pytest.approx(ips.ess)
    assert tone.ess > 1.5 * ips.ess
    assert abs(tone.value - 0.4) < 0.05
    # Rewards depend on tone: weighing by length alone is biased towards the logged mean.
    assert length.ess > ips.ess
    widths = {i.estimator: i.unit_t[1] - i.unit_t[0] for i in evaluation.intervals}
    assert widths["mips=tone"] < widths["ips"]


def test_a_parameter_at_its_limit_gives_the_plain_estimator(frame):
    verdicts = found(
        frame, "dm", "dr", "ips", "switch-dr=inf", "switch-dr=0", "dros=inf", "clipped=inf",
        "sub-gaussian=0",
    )  # fmt: skip
    value = {v.estimator: v.value for v in verdicts.verdicts}
    assert value["switch-dr=inf"] == value["dros=inf"] == pytest.approx(value["dr"])
    assert value["switch-dr=0"] == pytest.approx(value["dm"])
    assert value["clipped=inf"] == value["sub-gaussian=0"] == pytest.approx(value["ips"])


def test_one_kind_may_be_asked_for_with_several_parameters(frame):
    verdicts = found(frame, "clipped=1", "clipped=5").verdicts
    assert verdicts[0].value < verdicts[1].value


def test_a_difference_by_factors_is_paired(frame):
    evaluation = found(frame, "mips=tone", "ips", against="logging")
    by_tone, by_plan = evaluation.differences
    assert abs(by_tone.value) < 0.06
    assert by_tone.interval[1] - by_tone.interval[0] < by_plan.interval[1] - by_plan.interval[0]


def test_without_a_catalog_or_distributions_the_verdict_says_what_is_missing(frame):
    plain = frame.drop(columns=["propensities"])
    verdict = found(plain, "mips=tone").verdict("mips=tone")
    assert verdict.status == "refused"
    assert "log propensities" in verdict.reason
    without = evaluate(frame, plans=list(CATALOG.plan_ids), estimators=["mips=tone"])
    assert "--catalog" in without.verdict("mips=tone").reason


def test_names_without_a_value_take_the_stated_default():
    named = {one.name: one.parameter for one in parse_estimators(DEFAULTS)}
    assert named == DEFAULTS
    assert [one.kind for one in parse_estimators(ESTIMATORS)] == list(ESTIMATORS)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "each name once"),
        (("ips", "ips"), "each name once"),
        (("isp",), "knows no 'isp'"),
        (("ips=3",), "ips has no parameter"),
        (("clipped=-1",), "expected a number of at least 0"),
        (("clipped=many",), "expected a number of at least 0"),
        (("switch-dr=nan",), "expected a number"),
        (("sub-gaussian=2",), "from 0 to 1"),
        (("mips",), "none is named"),
        (("mips=",), "none is named"),
    ],
)
def test_what_is_no_estimator_is_refused_with_what_there_is(names, message):
    with pytest.raises(ConfigError, match=message):
        parse_estimators(names)


def test_a_factor_that_the_catalog_lacks_is_refused(frame):
    with pytest.raises(ConfigError, match="no factor 'colour'"):
        found(frame, "mips=colour")
