"""Laws of features, heads, selections and artifacts."""

import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from canopy.domain.decision import Reason
from canopy.domain.errors import ArtifactError
from policy.archive import FILES
from policy.artifact import load_artifact, pack_artifact, unpack_artifact
from policy.factors import product_levels
from policy.features import FeatureSchema, fit_schema
from policy.heads import FactoredHead
from policy.selector import Choice, probabilities, select, select_many
from policy.weights import parameter_shapes

LOOSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def transposed(contexts):
    keys = {key for context in contexts for key in context}
    return {key: [context.get(key) for context in contexts] for key in keys}


@given(data=st.data())
@LOOSE
def test_columns_encode_to_the_bits_of_single_contexts(data, schema, any_contexts):
    contexts = data.draw(st.lists(any_contexts, min_size=1, max_size=6))
    rows = schema.encode_many(transposed(contexts), n_rows=len(contexts))
    assert np.isfinite(rows).all()
    for row, context in zip(rows, contexts, strict=True):
        assert row.tobytes() == schema.encode(context).tobytes()


@given(data=st.data())
@LOOSE
def test_a_fitted_schema_encodes_what_it_was_fitted_on(data, any_contexts):
    contexts = data.draw(st.lists(any_contexts, min_size=1, max_size=6))
    columns = transposed(contexts)
    schema = fit_schema(columns)
    assert FeatureSchema.from_document(schema.document()) == schema
    rows = schema.encode_many(columns, n_rows=len(contexts))
    unknown = [i for i, name in enumerate(schema.names) if name.endswith("(unknown)")]
    assert not rows[:, unknown].any()


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 9),
    st.integers(1, 64),
    st.booleans(),
    st.floats(0.02, 1.0),
    st.integers(0, 2**32),
)
@LOOSE
def test_a_head_scores_a_batch_with_the_bits_of_single_rows(
    sizes, n_features, n, pairs, share, seed
):
    rng = np.random.default_rng(seed)
    levels = product_levels(sizes)
    levels = levels[: max(1, int(share * len(levels)))]
    shapes = parameter_shapes(sizes, n_features, pairs)
    head = FactoredHead(levels, {name: rng.normal(size=shape) for name, shape in shapes.items()})
    features = rng.normal(size=(n, n_features))
    batch = head.scores(features)
    for row, one in zip(batch, features, strict=True):
        assert row.tobytes() == head.scores(one[None])[0].tobytes()


@given(
    arrays.arrays(np.float64, (2, 3), elements=st.floats(-1e3, 1e3)),
    arrays.arrays(np.float64, (2, 3), elements=st.floats(-1e3, 1e3)),
    st.floats(-2, 2),
)
@LOOSE
def test_scores_are_linear_in_the_context(left, right, weight):
    rng = np.random.default_rng(0)
    shapes = parameter_shapes([2, 3], 3, pairs=True)
    parameters = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    for parameter in parameters.values():
        parameter[..., -1] = 0.0
    head = FactoredHead(product_levels([2, 3]), parameters)
    together = head.scores(left + weight * right)
    apart = head.scores(left) + weight * head.scores(right)
    assert together == pytest.approx(apart, rel=1e-9, abs=1e-8)


@given(data=st.data())
@LOOSE
def test_what_is_selected_is_feasible_and_its_propensity_is_the_one_logged(
    data, artifact, any_contexts
):
    context, key = data.draw(any_contexts), data.draw(st.text(max_size=8))
    policy = data.draw(st.sampled_from([artifact, None]))
    floor = data.draw(st.one_of(st.none(), st.floats(0, 1)))
    decision = select(
        catalog=artifact.catalog, artifact=policy, context=context, key=key, floor=floor
    )
    row, mask = np.asarray(decision.distribution), np.asarray(decision.mask)
    assert decision.reasons[0] in {Reason.DRAWN, Reason.DOCTRINE}
    assert mask[decision.action]
    assert decision.propensity == row[decision.action] > 0
    assert abs(row.sum() - 1.0) <= 1e-12
    assert (row[~mask] == 0).all()


@given(data=st.data())
@LOOSE
def test_a_batch_of_selections_has_the_bits_of_single_ones(data, artifact, any_contexts):
    contexts = data.draw(st.lists(any_contexts, min_size=1, max_size=8))
    floors = data.draw(
        st.lists(st.sampled_from([None, 0.2]), min_size=len(contexts), max_size=len(contexts))
    )
    many = select_many([
        Choice(artifact.catalog, context, f"k{i}", artifact, floor=floor, candidate=artifact)
        for i, (context, floor) in enumerate(zip(contexts, floors, strict=True))
    ])
    for i, (decision, context, floor) in enumerate(zip(many, contexts, floors, strict=True)):
        one = select(
            catalog=artifact.catalog, artifact=artifact, context=context, key=f"k{i}",
            floor=floor, candidate=artifact,
        )  # fmt: skip
        assert (one.plan, one.propensity, one.u) == (decision.plan, decision.propensity, decision.u)
        assert one.distribution.tobytes() == decision.distribution.tobytes()
        assert one.shadow.tobytes() == decision.shadow.tobytes()
        assert one.shadow_plan == decision.shadow_plan
    if set(floors) == {None}:
        rows = probabilities(artifact, transposed(contexts), n_rows=len(contexts))
        assert rows.tobytes() == b"".join(decision.distribution.tobytes() for decision in many)


@pytest.fixture(scope="module")
def altered(artifact, tmp_path_factory):
    """A copy of the policy whose files a test may break and must mend."""
    folder = tmp_path_factory.mktemp("altered") / "policy"
    shutil.copytree(artifact.folder, folder)
    return folder


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(LOOSE, max_examples=40)
def test_a_policy_with_any_byte_changed_is_refused(altered, name, data):
    path = altered / name
    original = path.read_bytes()
    position = data.draw(st.integers(0, len(original) - 1))
    flip = data.draw(st.integers(1, 255))
    path.write_bytes(
        original[:position] + bytes([original[position] ^ flip]) + original[position + 1 :]
    )
    try:
        with pytest.raises(ArtifactError):
            load_artifact(altered)
    finally:
        path.write_bytes(original)
    load_artifact(altered)


@given(data=st.data())
@settings(LOOSE, max_examples=40)
def test_a_packed_policy_with_any_byte_changed_is_refused(artifact, tmp_path_factory, data):
    blob = pack_artifact(artifact.folder)
    position = data.draw(st.integers(0, len(blob) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = blob[:position] + bytes([blob[position] ^ flip]) + blob[position + 1 :]
    with pytest.raises(ArtifactError):
        unpack_artifact(changed, tmp_path_factory.mktemp("packed") / "policy")
