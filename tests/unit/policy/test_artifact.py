"""Artifacts: what is written, what is proven on loading, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from canopy.domain.errors import ArtifactError, FeatureError, RangeError, ShapeMismatchError
from policy import probe
from policy.archive import FILES
from policy.artifact import load_artifact, save_artifact
from policy.catalog import load_catalog, parse_catalog
from policy.features import FeatureSchema
from policy.fields import Category, Number
from policy.manifest import FACTS, identity, rendered
from policy.selector import probabilities, select
from policy.weights import parameter_shapes

FORMAT_1 = Path(__file__).parent / "fixtures" / "format_1"


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


def test_a_policy_round_trips_to_the_bit(artifact, contexts):
    again = load_artifact(artifact.folder)
    assert again.policy_id == artifact.policy_id
    assert again.parity == "bits"
    assert again.catalog == artifact.catalog
    assert again.schema == artifact.schema
    assert (again.temperature, again.floor) == (0.8, 0.1)
    assert probabilities(again, contexts).tobytes() == probabilities(artifact, contexts).tobytes()


def test_a_folder_holds_four_files_and_no_code(artifact):
    assert sorted(path.name for path in artifact.folder.iterdir()) == sorted(FILES)
    assert load_catalog(artifact.folder / "catalog.yaml") == artifact.catalog
    document = json.loads((artifact.folder / "features.json").read_text())
    assert FeatureSchema.from_document(document) == artifact.schema


def test_a_manifest_says_how_the_policy_was_made(artifact):
    manifest = artifact.manifest
    assert all(name in manifest for name in FACTS)
    assert manifest["format_version"] == 1
    assert manifest["lineage"] == {"judges": ["a", "b"], "verifiers": []}
    assert manifest["synthetic"] is True
    assert manifest["catalog_hash"] == artifact.catalog.content_hash
    assert manifest["feature_hash"] == artifact.schema.content_hash
    assert manifest["n_plans"] == 10
    assert manifest["policy_id"] == artifact.policy_id


def test_more_facts_are_kept(make_artifact):
    artifact = make_artifact(notes={"curve": [1.5, None]})
    assert load_artifact(artifact.folder).manifest["notes"] == {"curve": [1.5, None]}


def test_the_id_depends_on_everything_and_on_nothing_else(make_artifact):
    first = make_artifact()
    again = make_artifact()
    others = [
        make_artifact(seed=1),
        make_artifact(temperature=0.81),
        make_artifact(floor=0.11),
        make_artifact(data_hash="1" * 32),
        make_artifact(synthetic=False),
    ]
    assert first.policy_id == again.policy_id
    assert len({policy.policy_id for policy in [first, *others]}) == 6


def test_the_probe_covers_missing_and_unknown_values(artifact):
    contexts = artifact.manifest["probe"]["contexts"]
    assert all(value is None for value in contexts[-1].values())
    assert set(contexts[-1]) == {
        "budget", "channel", "approved", "topics", "note", "pinned",
    }  # fmt: skip
    assert contexts[-2]["topics"][0] == contexts[-2]["note"] == "(never seen)"
    budgets = {context["budget"] for context in contexts[:-1]}
    assert {value < 3 for value in budgets} == {True, False}
    masks = {row["mask"] for row in artifact.manifest["probe"]["expected"]}
    assert len(masks) > 2


def test_of_many_plans_a_sample_of_probabilities_is_kept(make_artifact):
    factors = "".join(f"  f{i}: {{levels: {list('abcdefgh')}}}\n" for i in range(4))
    text = (
        f"discipline: d\nversion: 1\nfactors:\n{factors}"
        f"default: {','.join(f'f{i}=a' for i in range(4))}\n"
    )
    schema = FeatureSchema((Number("x", 0.0, 1.0),))
    artifact = make_artifact(catalog=parse_catalog(text), schema=schema)
    rows = artifact.manifest["probe"]["expected"]
    assert {len(row["probabilities"]) for row in rows} == {probe.MOST_PLANS}
    assert (artifact.folder / "manifest.json").stat().st_size < 200_000
    assert load_artifact(artifact.folder).parity == "bits"


def test_a_policy_without_features_is_a_policy(make_artifact):
    artifact = make_artifact(schema=FeatureSchema(()))
    assert probabilities(artifact, {}, n_rows=2).shape == (2, 10)


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
    from policy.artifact import _sha256
    from policy.weights import weights_from_bytes, weights_to_bytes

    path = folder / "weights.safetensors"
    weights = weights_from_bytes(path.read_bytes(), "w")
    raw = weights_to_bytes({name: array * 2 for name, array in weights.items()})
    path.write_bytes(raw)
    rewrite(folder, lambda m: m["files"].update({"weights.safetensors": _sha256(raw)}))


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
    from policy.artifact import _sha256

    (folder / name).write_bytes(raw)
    rewrite(folder, lambda m: m["files"].update({name: _sha256(raw)}))


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


def test_weights_of_another_catalog_or_schema_are_refused(make_artifact, catalog, schema):
    sizes = [len(factor.levels) for factor in catalog.factors]

    def zeros(sizes, width):
        return {n: np.zeros(s) for n, s in parameter_shapes(sizes, width, pairs=False).items()}

    with pytest.raises(ArtifactError, match=r"score \(2, 4, 2\) levels, the catalog has"):
        make_artifact(weights=zeros([2, 4, 2], schema.width))
    with pytest.raises(ArtifactError, match="read 3 features, the schema gives"):
        make_artifact(weights=zeros(sizes, 3))
    with pytest.raises(ShapeMismatchError):
        make_artifact(weights=zeros([2, 3], schema.width))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_not_saved(make_artifact, catalog, schema, value, tmp_path):
    sizes = [len(factor.levels) for factor in catalog.factors]
    shapes = parameter_shapes(sizes, schema.width, pairs=True)
    weights = {name: np.zeros(shape) for name, shape in shapes.items()}
    weights["pair.0.2"][0, 0, 0] = value
    with pytest.raises(ArtifactError, match=r"weights, `pair\.0\.2`: hold NaN"):
        make_artifact(weights=weights)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_temperature_that_divides_nothing_is_refused(make_artifact, value):
    with pytest.raises(RangeError, match="positive finite"):
        make_artifact(temperature=value)


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan])
def test_a_floor_that_is_no_share_is_refused(make_artifact, value):
    with pytest.raises(RangeError, match="share from 0 to 1"):
        make_artifact(floor=value)


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_that_is_not_stated_is_asked_for(tmp_path, catalog, schema, facts, name):
    sizes = [len(factor.levels) for factor in catalog.factors]
    shapes = parameter_shapes(sizes, schema.width, pairs=False)
    del facts[name]
    with pytest.raises(ArtifactError, match=f"facts: lack {name}"):
        save_artifact(
            tmp_path / "p", catalog=catalog, schema=schema, temperature=1.0, floor=0.1,
            weights={n: np.zeros(s) for n, s in shapes.items()}, facts=facts,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"lineage": None}, "no mapping of kinds"),
        ({"lineage": {"judges": "one"}}, "no mapping of kinds"),
        ({"lineage": {"judges": [1]}}, "no mapping of kinds"),
        ({"synthetic": None}, "not true or false"),
        ({"synthetic": 1}, "not true or false"),
        ({"n_rows": float("nan")}, "JSON cannot carry"),
        ({"objective": object()}, "JSON cannot carry"),
        ({"policy_id": "x"}, "may not set policy_id"),
        ({"kernel": {}}, "may not set kernel"),
    ],
)
def test_facts_that_are_no_plain_truth_are_refused(make_artifact, facts, problem):
    with pytest.raises(ArtifactError, match=problem):
        make_artifact(**facts)


def test_a_schema_that_contradicts_the_rules_is_refused(make_artifact):
    with pytest.raises(FeatureError, match="`budget`"):
        make_artifact(schema=FeatureSchema((Category("budget", ("low", "high")),)))


def test_the_first_format_stays_loadable():
    artifact = load_artifact(FORMAT_1)
    assert artifact.manifest["format_version"] == 1
    assert artifact.policy_id == (FORMAT_1 / "policy_id.txt").read_text().strip()
    asked = json.loads((FORMAT_1 / "decision.json").read_text())
    decision = select(
        catalog=artifact.catalog, artifact=artifact, context=asked["context"], key=asked["key"]
    )
    assert decision.plan == asked["plan"]
    assert decision.propensity == pytest.approx(asked["propensity"], abs=1e-12)
