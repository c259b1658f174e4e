"""Artifacts that were altered or forged: nothing of them is loaded, and the place is named."""

import json
from hashlib import sha256

import pytest

from canopy.domain.errors import ArtifactError
from policy.archive import FILES
from policy.artifact import load_artifact
from policy.catalog import parse_catalog
from policy.manifest import FACTS, RESERVED, identity, rendered
from policy.weights import weights_from_bytes, weights_to_bytes


@pytest.fixture
def artifact(make_artifact):
    return make_artifact()


def rewrite(folder, change):
    """Alter a manifest and give it a right name and rendering again, as a forger would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    change(manifest)
    manifest["policy_id"] = identity(manifest)
    path.write_bytes(rendered(manifest))


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(artifact, name):
    (artifact.folder / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name}: cannot be read"):
        load_artifact(artifact.folder)


@pytest.mark.parametrize("name", FILES)
def test_an_altered_file_is_named(artifact, name):
    path = artifact.folder / name
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(ArtifactError) as refusal:
        load_artifact(str(artifact.folder))
    assert refusal.value.place == str(path)
    assert "Export the policy again" in refusal.value.remedy


def test_the_files_of_another_policy_are_refused(artifact, make_artifact):
    other = make_artifact(seed=1)
    weights = (other.folder / "weights.safetensors").read_bytes()
    (artifact.folder / "weights.safetensors").write_bytes(weights)
    with pytest.raises(ArtifactError, match=r"weights\.safetensors: is not the file"):
        load_artifact(artifact.folder)


def double_the_weights(folder):
    """Swap in other weights and name them in the manifest."""
    path = folder / "weights.safetensors"
    weights = weights_from_bytes(path.read_bytes(), "w")
    raw = weights_to_bytes({name: array * 2 for name, array in weights.items()})
    path.write_bytes(raw)
    rewrite(folder, lambda m: m["files"].update({"weights.safetensors": sha256(raw).hexdigest()}))


def test_weights_that_do_not_answer_the_probe_are_refused(artifact):
    double_the_weights(artifact.folder)
    with pytest.raises(ArtifactError, match="fails its probe: context 1 has other bits"):
        load_artifact(artifact.folder)


def another_kernel(folder, change=lambda manifest: None):
    def alter(manifest):
        manifest["kernel"]["fingerprint"] = "made elsewhere"
        change(manifest)

    rewrite(folder, alter)


def nudge(size):
    def change(manifest):
        for row in manifest["probe"]["expected"]:
            row["bits"] = "other"
            row["probabilities"][0] += size

    return change


def test_another_kernel_is_held_to_a_tolerance(artifact):
    another_kernel(artifact.folder, nudge(1e-13))
    assert load_artifact(artifact.folder).parity == "tolerance"


def expected_row(key, value):
    return lambda manifest: manifest["probe"]["expected"][2].update({key: value})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (nudge(1e-11), "context 1 has probabilities that differ by more than 1e-12"),
        (nudge(float(1)), "differ by more than"),
        (expected_row("argmax", 9), "context 3 has another best plan"),
        (expected_row("mask", "0"), "context 3 has another mask"),
        (expected_row("probabilities", [1.0]), "context 3 has probabilities that differ"),
        (expected_row("probabilities", None), "context 3 has probabilities that differ"),
        (lambda m: m["probe"].update(expected=[]), "holds no complete probe batch"),
        (lambda m: m["probe"].update(expected=3), "holds no complete probe batch"),
    ],
    ids=range(8),
)
def test_another_kernel_that_computes_something_else_is_refused(artifact, change, problem):
    another_kernel(artifact.folder, change)
    with pytest.raises(ArtifactError, match=problem):
        load_artifact(artifact.folder)


def test_other_weights_are_refused_on_another_kernel_too(artifact):
    another_kernel(artifact.folder)
    double_the_weights(artifact.folder)
    with pytest.raises(ArtifactError, match="fails its probe"):
        load_artifact(artifact.folder)


FORGED = [
    (lambda m: m.update(format_version=2), "has format version 2, this code reads 1"),
    (lambda m: m.pop("format_version"), "has format version None"),
    (lambda m: m.pop("probe"), "lacks probe"),
    (lambda m: m.pop("lineage"), "lacks lineage"),
    (lambda m: m.update(catalog_hash="0"), r"catalog\.yaml: reads as"),
    (lambda m: m.update(feature_hash="0"), r"features\.json: reads as"),
    (lambda m: m.update(n_plans=11), r"reads as 10, the manifest says 11"),
    (lambda m: m["files"].pop("catalog.yaml"), r"catalog\.yaml: is not the file"),
    (lambda m: m["parameters"].pop("factor.0"), "lack or add the parameters"),
    (lambda m: m["parameters"].update({"factor.0": [2, 1]}), "has shape"),
    (lambda m: m.update(temperature=0), "a positive finite number"),
    (lambda m: m.update(temperature="hot"), "wrong types in temperature"),
    (lambda m: m.update(floor=2), "a share from 0 to 1"),
    (lambda m: m.update(floor=None), "wrong types in floor"),
    (lambda m: m.update(files=[]), "wrong types in files"),
    (lambda m: m.update(parameters=3), "wrong types in parameters"),
    (lambda m: m.update(kernel=None), "wrong types in kernel"),
    (lambda m: m.update(probe=None), "wrong types in probe"),
    (lambda m: m["probe"].update(contexts=[3]), "wrong types in probe"),
    (lambda m: m["probe"]["contexts"][0].update(budget="3"), "does not fit together.*`budget`"),
]


@pytest.mark.parametrize(("change", "problem"), FORGED, ids=range(len(FORGED)))
def test_a_manifest_that_contradicts_its_files_is_refused(artifact, change, problem):
    rewrite(artifact.folder, change)
    with pytest.raises(ArtifactError, match=problem):
        load_artifact(artifact.folder)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"format_version": 1}', b"3"],
    ids=range(7),
)  # fmt: skip
def test_what_is_no_manifest_is_refused(artifact, raw):
    (artifact.folder / "manifest.json").write_bytes(raw)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        load_artifact(artifact.folder)


def test_a_manifest_without_its_name_is_incomplete(artifact):
    manifest = json.loads((artifact.folder / "manifest.json").read_text())
    del manifest["policy_id"]
    (artifact.folder / "manifest.json").write_bytes(rendered(manifest))
    with pytest.raises(ArtifactError, match="is no complete manifest"):
        load_artifact(artifact.folder)


def test_a_manifest_in_another_rendering_was_altered(artifact):
    path = artifact.folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    with pytest.raises(ArtifactError, match="was altered after it was written"):
        load_artifact(artifact.folder)


def forge(folder, name, raw):
    (folder / name).write_bytes(raw)
    rewrite(folder, lambda m: m["files"].update({name: sha256(raw).hexdigest()}))


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("catalog.yaml", b"discipline: d\n"),
        ("catalog.yaml", b"\xff"),
        ("features.json", b"{"),
        ("features.json", b"{}"),
        ("weights.safetensors", b"cos\nsystem\n(S'true'\ntR."),
    ],
    ids=range(5),
)
def test_files_that_do_not_parse_are_refused_whatever_the_manifest_says(artifact, name, raw):
    forge(artifact.folder, name, raw)
    with pytest.raises(ArtifactError, match=r"does not parse|no readable safetensors"):
        load_artifact(artifact.folder)


def test_a_file_that_no_hash_proves_is_refused(artifact):
    (artifact.folder / "notes.txt").write_text("trust me")
    with pytest.raises(ArtifactError, match=r"notes\.txt: is no file of a policy"):
        load_artifact(artifact.folder)


def test_the_catalog_of_another_policy_is_refused(artifact, make_artifact, catalog_text):
    other = make_artifact(catalog=parse_catalog(catalog_text.replace("too dear", "dear")))
    raw = (other.folder / "catalog.yaml").read_bytes()
    (artifact.folder / "catalog.yaml").write_bytes(raw)
    with pytest.raises(ArtifactError, match=r"catalog\.yaml: is not the file"):
        load_artifact(artifact.folder)
    forge(artifact.folder, "catalog.yaml", raw)
    with pytest.raises(ArtifactError, match=r"catalog\.yaml: reads as"):
        load_artifact(artifact.folder)


def altered(value):
    """Another value of the same type."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return [*value, 1] if isinstance(value, list) else {**value, "x": 1}


@pytest.mark.parametrize("name", sorted(RESERVED | set(FACTS)))
def test_any_field_of_a_manifest_altered_is_refused(artifact, name):
    path = artifact.folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest[name] = altered(manifest[name])
    path.write_bytes(rendered(manifest))
    with pytest.raises(ArtifactError, match=r"altered after it was written|format version 2"):
        load_artifact(artifact.folder)


# What a forger may restate without contradiction: nothing of it takes part in a selection.
UNPROVEN = {"discipline", "catalog_version", "policy_id", "parameters", "files", *FACTS}


@pytest.mark.parametrize("name", sorted(RESERVED - UNPROVEN))
def test_a_forged_field_contradicts_the_files_or_the_probe(artifact, name):
    def forge_field(manifest):
        manifest[name] = altered(manifest[name])
        if name in {"kernel", "probe"}:
            manifest["probe"]["expected"][0]["argmax"] += 1

    rewrite(artifact.folder, forge_field)
    with pytest.raises(ArtifactError):
        load_artifact(artifact.folder)
