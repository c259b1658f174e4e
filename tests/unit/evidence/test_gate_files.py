"""Gate files: typed, or refused by file and key."""

from datetime import timedelta

import pytest

from canopy.domain.decision import Mode
from canopy.domain.errors import GateFileError, InputError
from canopy.domain.evidence import Tier
from eval.gates import SHIPPED, load_gate, shipped_gate, shipped_modes

WHOLE = """
mode: on
requires:
  verifiers: {max_age_days: 30, golden: required}
  backtest:
    max_age_days: 30
    hypothesis: non-inferiority
    allowed_loss: 0.02
    level: 0.9
    min_units: 50
    min_unit_ess: 20
    max_unsupported_mass: 0.005
    max_mean_weight_errors: 3
    estimators_agree: false
"""


def written(tmp_path, text):
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    return path


def test_a_gate_file_becomes_typed_requirements(tmp_path):
    gate = load_gate(written(tmp_path, WHOLE))
    verifiers, backtest = gate.requirements
    assert gate.mode is Mode.ON
    assert [bound.fact for bound in verifiers.bounds] == ["failed_checks", "golden_cases"]
    assert (backtest.level, backtest.allowed_loss) == (0.9, 0.02)
    assert backtest.max_age == timedelta(days=30)
    assert [bound.fact for bound in backtest.bounds] == [
        "units", "unit_ess", "unsupported_mass", "mean_weight_errors",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("mode: on", "mode: full", "mode"),
        ("mode: on", "mode: no", "mode"),
        ("mode: on", "mood: on", "mode"),
        ("level: 0.9", "level: 1.0", "backtest.level"),
        ("level: 0.9", "level: 0.4", "backtest.level"),
        ("level: 0.9", "", "backtest.level"),
        ("    level: 0.9", "    level: 0.9\n    lever: 1", "backtest.lever"),
        ("    level: 0.9", "    level: 0.9\n    level: 0.5", "stands twice"),
        ("0.005", "0.5", "max_unsupported_mass"),
        ("max_mean_weight_errors: 3", "max_mean_weight_errors: 9", "max_mean_weight_errors"),
        ("min_units: 50", "min_units: many", "min_units"),
        ("golden: required", "golden: maybe", "verifiers.golden"),
        ("non-inferiority", "superiority", "allowed_loss belongs"),
        ("    allowed_loss: 0.02\n", "", "allowed_loss belongs"),
        ("allowed_loss: 0.02", "allowed_loss: 0", "allowed_loss"),
        ("allowed_loss: 0.02", "allowed_loss: .nan", "allowed_loss"),
        ("  backtest:", "  canary: {}\n  backtest:", "requires.canary"),
        ("mode: on", "mode: [", "not YAML"),
    ],
)
def test_a_malformed_gate_file_is_refused_by_file_and_key(tmp_path, old, new, place):
    assert old in WHOLE
    with pytest.raises(GateFileError) as refused:
        load_gate(written(tmp_path, WHOLE.replace(old, new, 1)))
    assert place in str(refused.value)
    assert "gate.yaml" in refused.value.place


@pytest.mark.parametrize("text", ["", "[]", "mode: on\nrequires: {}"])
def test_a_gate_that_demands_nothing_is_refused(tmp_path, text):
    with pytest.raises(GateFileError):
        load_gate(written(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(GateFileError, match="cannot be read"):
        load_gate(tmp_path / "none.yaml")


def test_every_shipped_gate_is_one_for_its_mode():
    assert sorted(path.stem for path in SHIPPED.glob("*.yaml")) == sorted(shipped_modes())
    for mode in shipped_modes():
        assert shipped_gate(mode).mode is mode


def test_serving_everybody_takes_structure_and_a_shown_gain():
    verifiers, backtest = shipped_gate(Mode.ON).requirements
    assert (verifiers.tier, backtest.tier) == (Tier.VERIFIERS, Tier.BACKTEST)
    assert (backtest.level, backtest.allowed_loss) == (0.95, 0.0)


def test_a_mode_without_a_gate_is_refused_with_those_that_have_one():
    with pytest.raises(InputError, match="gates observation, on only"):
        shipped_gate(Mode.CANARY)
