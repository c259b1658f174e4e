"""Feature schemas: each kind of field, missing and unknown values, documents, fitting."""

import datetime as dt

import numpy as np
import pytest

from canopy.domain.errors import FeatureError, ShapeMismatchError
from policy.encoding import word_bucket
from policy.features import FeatureSchema, fit_schema
from policy.fields import Category, Members, Number, TextHash

AGE = FeatureSchema((Number("age", 40.0, 10.0),))
SITE = FeatureSchema((Category("site", ("blog", "shop")),))
TAGS = FeatureSchema((Members("tags", ("a", "b")),))
NOTE = FeatureSchema((TextHash("note", 8),))


def test_a_number_is_standardised_and_a_missing_one_says_so():
    assert AGE.encode({"age": 55}).tolist() == [1.5, 0.0]
    for missing in ({}, {"age": None}, {"age": float("nan")}, {"age": np.float32("nan")}):
        assert AGE.encode(missing).tolist() == [0.0, 1.0]


def test_the_mean_is_not_the_same_as_missing():
    assert AGE.encode({"age": 40}).tolist() != AGE.encode({}).tolist()


def test_a_category_has_slots_for_unknown_and_for_missing():
    assert SITE.encode({"site": "shop"}).tolist() == [0, 1, 0, 0]
    assert SITE.encode({"site": "wiki"}).tolist() == [0, 0, 1, 0]
    assert SITE.encode({"site": ""}).tolist() == [0, 0, 1, 0]
    assert SITE.encode({}).tolist() == [0, 0, 0, 1]


def test_booleans_are_categories():
    schema = FeatureSchema((Category("paid", ("false", "true")),))
    assert schema.encode({"paid": True}).tolist() == [0, 1, 0, 0]
    assert schema.encode({"paid": np.bool_(False)}).tolist() == [1, 0, 0, 0]


def test_a_set_marks_members_an_unknown_one_and_absence():
    assert TAGS.encode({"tags": ["b", "a", "b"]}).tolist() == [1, 1, 0, 0]
    assert TAGS.encode({"tags": {"a", "z"}}).tolist() == [1, 0, 1, 0]
    assert TAGS.encode({"tags": ()}).tolist() == [0, 0, 0, 0]
    assert TAGS.encode({"tags": None}).tolist() == [0, 0, 0, 1]


def test_a_text_becomes_shares_of_its_words():
    row = NOTE.encode({"note": "Sale, sale! NEW sale"})
    expected = np.zeros(9)
    expected[word_bucket("sale") % 8] += 3 / 4
    expected[word_bucket("new") % 8] += 1 / 4
    assert row.tolist() == expected.tolist()
    assert NOTE.encode({"note": "..."}).tolist() == [0] * 9
    assert NOTE.encode({}).tolist() == [0] * 8 + [1]


def test_word_buckets_are_fixed_for_ever():
    assert word_bucket("sale") % 1000 == 57


def test_keys_that_the_schema_does_not_name_are_ignored():
    assert AGE.encode({"age": 50, "other": object()}).tolist() == [1.0, 0.0]
    assert AGE.encode_many({"age": [50], "other": [object()]}).tolist() == [[1.0, 0.0]]


WRONG = [
    (AGE, {"age": "55"}, "`age`", "expected a number"),
    (AGE, {"age": True}, "`age`", "expected a number"),
    (AGE, {"age": float("inf")}, "`age`", "infinite"),
    (AGE, {"age": 10**400}, "`age`", "too large"),
    (AGE, {"age": dt.date(2020, 1, 1)}, "`age`", "expected a number"),
    (SITE, {"site": 3}, "`site`", "expected text or a boolean"),
    (SITE, {"site": ["blog"]}, "`site`", "expected text or a boolean"),
    (TAGS, {"tags": "a"}, "`tags`", "expected a list of texts"),
    (TAGS, {"tags": [1]}, "`tags`", "expected a list of texts"),
    (TAGS, {"tags": {"a": 1}}, "`tags`", "expected a list of texts"),
    (TAGS, {"tags": 4}, "`tags`", "expected a list of texts"),
    (NOTE, {"note": 4}, "`note`", "expected text"),
    (NOTE, {"note": b"x"}, "`note`", "expected text"),
]


@pytest.mark.parametrize(("schema", "context", "place", "problem"), WRONG)
def test_a_value_of_a_wrong_type_is_refused_by_key(schema, context, place, problem):
    with pytest.raises(FeatureError, match=problem) as single:
        schema.encode(context)
    assert single.value.place == place
    with pytest.raises(FeatureError, match=problem) as many:
        schema.encode_many({key: [None, value] for key, value in context.items()})
    assert many.value.place == f"{place}, row 2"


def test_a_standardised_number_that_overflows_is_refused():
    schema = FeatureSchema((Number("x", 0.0, 1e-300),))
    with pytest.raises(FeatureError, match="once standardised"):
        schema.encode({"x": 1e300})
    with pytest.raises(FeatureError, match=r"row 1.*once standardised"):
        schema.encode_many({"x": [1e300]})


def test_columns_give_the_bits_of_single_contexts(schema, contexts):
    keys = sorted({key for context in contexts for key in context})
    columns = {key: [context.get(key) for context in contexts] for key in keys}
    rows = schema.encode_many(columns)
    for row, context in zip(rows, contexts, strict=True):
        assert row.tobytes() == schema.encode(context).tobytes()


@pytest.mark.parametrize(
    "column",
    [
        np.array([1, 5], dtype=np.int32),
        np.array([0.1, np.nan], dtype=np.float32),
        np.array([2**63 + 1, 3], dtype=np.uint64),
        np.array([1.5, None], dtype=object),
        (3, None),
    ],
    ids=lambda column: str(getattr(column, "dtype", "tuple")),
)
def test_number_columns_of_any_array_type_mean_the_same(column):
    schema = FeatureSchema((Number("n", 0.3, 1.7),))
    for value, row in zip(column, schema.encode_many({"n": column}), strict=True):
        assert row.tobytes() == schema.encode({"n": value}).tobytes()


def test_a_data_frame_column_is_read():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"site": ["shop", None], "age": [40.0, None]})
    schema = FeatureSchema((*SITE.fields, *AGE.fields))
    columns = {name: frame[name] for name in frame}
    assert schema.encode_many(columns).tolist() == [[0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1]]


def test_a_column_that_is_absent_is_missing_everywhere():
    schema = FeatureSchema((*AGE.fields, *SITE.fields))
    assert schema.encode_many({"age": [40, 50]})[:, 2:].tolist() == [[0, 0, 0, 1]] * 2
    assert schema.encode_many({}, n_rows=1).tolist() == [[0, 1, 0, 0, 0, 1]]
    with pytest.raises(ShapeMismatchError):
        schema.encode_many({"age": [40], "site": ["shop", "blog"]})


def test_columns_of_the_encoding_have_names(schema):
    assert len(schema.names) == schema.width == len(schema.encode({}))
    assert schema.names[:6] == (
        "budget: value",
        "budget: (missing)",
        "channel: chat",
        "channel: mail",
        "channel: (unknown)",
        "channel: (missing)",
    )
    assert schema.names[-2:] == ("note: bucket 3", "note: (missing)")


def test_a_schema_round_trips_through_its_document(schema):
    again = FeatureSchema.from_document(schema.document())
    assert again == schema
    assert hash(again) == hash(schema)
    assert again.content_hash == schema.content_hash


def test_every_number_of_a_schema_is_part_of_its_identity():
    schemas = [
        FeatureSchema(()),
        AGE,
        SITE,
        FeatureSchema((Number("age", 40.0, 11.0),)),
        FeatureSchema((Number("age", 41.0, 10.0),)),
        FeatureSchema((Number("years", 40.0, 10.0),)),
        FeatureSchema((Category("site", ("shop", "blog")),)),
        FeatureSchema((Members("site", ("blog", "shop")),)),
        FeatureSchema((*AGE.fields, *SITE.fields)),
        FeatureSchema((*SITE.fields, *AGE.fields)),
    ]
    assert len({schema.content_hash for schema in schemas}) == len(schemas)


FIELD = {"kind": "number", "name": "n", "mean": 0.0, "scale": 1.0}
DOCUMENTS = [
    (None, "no document of format"),
    ([], "no document of format"),
    ({"format": 2, "fields": []}, "no document of format 1"),
    ({"format": 1}, "lists no fields"),
    ({"format": 1, "fields": {"n": 1}}, "lists no fields"),
    ({"format": 1, "fields": ["n"]}, "field 1: is no field"),
    ({"format": 1, "fields": [FIELD, {**FIELD, "kind": "tensor"}]}, "field 2: is no field"),
    ({"format": 1, "fields": [{**FIELD, "extra": 1}]}, "is no field known here"),
    ({"format": 1, "fields": [{**FIELD, "name": 3}]}, "wrong types"),
    ({"format": 1, "fields": [{**FIELD, "mean": "0"}]}, "wrong types"),
    ({"format": 1, "fields": [{**FIELD, "mean": True}]}, "wrong types"),
    ({"format": 1, "fields": [{"kind": "set", "name": "s", "levels": [1]}]}, "wrong types"),
    ({"format": 1, "fields": [{"kind": "set", "name": "s", "levels": "ab"}]}, "wrong types"),
    ({"format": 1, "fields": [{"kind": "text_hash", "name": "t", "buckets": 1.5}]}, "wrong types"),
    ({"format": 1, "fields": [{"kind": "text_hash", "name": "t", "buckets": 0}]}, "no bucket"),
    ({"format": 1, "fields": [{**FIELD, "scale": 0.0}]}, "positive scale"),
    ({"format": 1, "fields": [{**FIELD, "mean": float("nan")}]}, "finite mean"),
    ({"format": 1, "fields": [FIELD, FIELD]}, "`n`: has two fields"),
    (
        {"format": 1, "fields": [{"kind": "category", "name": "c", "levels": ["a", "a"]}]},
        "lists a level twice",
    ),
]


@pytest.mark.parametrize(("document", "problem"), DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_malformed_document_is_refused(document, problem):
    with pytest.raises(FeatureError, match=problem):
        FeatureSchema.from_document(document)


def test_a_fitted_schema_takes_its_kinds_from_the_columns():
    schema = fit_schema({
        "n": [1.0, None, 3.0],
        "i": np.array([2, 2, 2]),
        "c": ["b", None, "a"],
        "f": [True, None, False],
        "s": [["y"], None, ("x", "y")],
        "nothing": [None, float("nan"), None],
        "nan": np.array([np.nan] * 3),
    })
    assert schema.fields == (
        Number("n", 2.0, 1.0),
        Number("i", 2.0, 1.0),
        Category("c", ("a", "b")),
        Category("f", ("false", "true")),
        Members("s", ("x", "y")),
    )


def test_a_fitted_number_has_mean_zero_and_deviation_one_on_its_rows():
    values = np.random.default_rng(0).normal(7, 3, size=500)
    encoded = fit_schema({"n": values}).encode_many({"n": values})[:, 0]
    assert encoded.mean() == pytest.approx(0, abs=1e-12)
    assert encoded.std() == pytest.approx(1, abs=1e-12)


def test_only_the_most_frequent_levels_are_kept():
    values = ["a"] * 5 + ["c"] * 3 + ["b"] * 3 + ["d"]
    (field,) = fit_schema({"c": values}, max_levels=2).fields
    assert field == Category("c", ("a", "b"))
    (field,) = fit_schema({"s": [[v] for v in values]}, max_levels=2).fields
    assert field == Members("s", ("a", "b"))


def test_free_text_is_hashed_by_word():
    (field,) = fit_schema({"t": [f"text {i}" for i in range(20)]}, max_levels=5).fields
    assert field == TextHash("t", 32)


@pytest.mark.parametrize(
    "column",
    [[1, "a"], ["a", 1], [["a"], 3], [object()]],
    ids=["number and text", "text and number", "list and number", "object"],
)
def test_a_column_of_mixed_types_cannot_be_fitted(column):
    with pytest.raises(FeatureError, match="`mixed`"):
        fit_schema({"mixed": column})


def test_numbers_too_large_to_standardise_cannot_be_fitted():
    with pytest.raises(FeatureError, match="no finite mean and positive scale"):
        fit_schema({"n": [1.7e308, 1.7e308, -1.7e308]})
