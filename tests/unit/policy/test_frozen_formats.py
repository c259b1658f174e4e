"""Every format ever written stays loadable, and selects what it selected then."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from policy.artifact import load_artifact
from policy.catalog import load_catalog
from policy.kernel import kernel_fingerprint
from policy.manifest import FORMAT_VERSION
from policy.selector import select

FIXTURES = Path(__file__).parents[2] / "fixtures" / "artifacts"
FROZEN = sorted(path.name for path in FIXTURES.iterdir() if (path / "policy").is_dir())


def recorded(name):
    return json.loads((FIXTURES / name / "selections.json").read_text())


@pytest.mark.parametrize("version", range(1, FORMAT_VERSION + 1))
def test_every_format_version_has_a_frozen_policy(version):
    artifact = load_artifact(FIXTURES / f"v{version}" / "policy")
    assert artifact.manifest["format_version"] == version
    assert len(recorded(f"v{version}")["selections"]) == 3


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_policy_verifies_and_says_how(name):
    artifact = load_artifact(FIXTURES / name / "policy")
    is_same = artifact.manifest["kernel"]["fingerprint"] == kernel_fingerprint()
    assert artifact.parity == ("bits" if is_same else "tolerance")
    assert artifact.policy_id == recorded(name)["policy_id"]


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_policy_selects_the_plans_it_selected_then(name):
    artifact = load_artifact(FIXTURES / name / "policy")
    for asked in recorded(name)["selections"]:
        decision = select(
            catalog=artifact.catalog, artifact=artifact, context=asked["context"], key=asked["key"]
        )
        assert decision.plan == asked["plan"]
        assert decision.propensity == pytest.approx(asked["propensity"], abs=1e-12)


def test_a_policy_of_the_arithmetic_before_is_held_to_the_tolerance():
    assert load_artifact(FIXTURES / "v1-arithmetic-1" / "policy").parity == "tolerance"


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_policy_is_small(name):
    files = [path for path in (FIXTURES / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20_000


def written(tmp_path, name="v1"):
    spec = importlib.util.spec_from_file_location("write_fixture", FIXTURES / "write.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write(tmp_path / name)
    return tmp_path / name


def test_the_writer_makes_the_policy_that_is_frozen(tmp_path):
    folder, frozen = written(tmp_path), FIXTURES / f"v{FORMAT_VERSION}"
    assert load_catalog(folder / "policy" / "catalog.yaml") == load_catalog(
        frozen / "policy" / "catalog.yaml"
    )
    weights = [(at / "policy" / "weights.safetensors").read_bytes() for at in (folder, frozen)]
    assert weights[0] == weights[1]
    now = json.loads((folder / "selections.json").read_text())["selections"]
    then = recorded(f"v{FORMAT_VERSION}")["selections"]
    assert [asked["plan"] for asked in now] == [asked["plan"] for asked in then]
    assert np.allclose([a["propensity"] for a in now], [a["propensity"] for a in then], atol=1e-12)


def test_a_frozen_policy_is_never_written_over(tmp_path):
    written(tmp_path)
    with pytest.raises(FileExistsError):
        written(tmp_path)
