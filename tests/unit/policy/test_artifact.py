"""Artifacts: what is written, and what is refused on saving."""

import json

import numpy as np
import pytest

from canopy.domain.errors import ArtifactError, FeatureError, RangeError, ShapeMismatchError
from policy import probe
from policy.archive import FILES
from policy.artifact import load_artifact, save_artifact
from policy.catalog import load_catalog, parse_catalog
from policy.features import FeatureSchema
from policy.fields import Category, Number
from policy.manifest import FACTS
from policy.selector import probabilities
from policy.weights import parameter_shapes


@pytest.fixture
def artifact(make_artifact):
    return make_artifact()


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
