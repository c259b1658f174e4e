"""Bodies, hashes and problems of the HTTP surface, without a server."""

import json
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from canopy.domain import errors
from canopy.domain.decision import Arm, Mode
from canopy.domain.errors import BodyTooLargeError, InputError
from canopy.storage.rows import DecisionRow
from runtime.http.bodies import Shape
from runtime.http.problems import Failure, failure_of
from runtime.http.schemas import Selection, SelectionAnswer
from runtime.http.selections import answer_of, ask_of

BODY = {
    "request_id": "r-1", "tenant": "acme", "discipline": "public_copy", "unit_id": "u",
    "context": {"a": 1, "b": {"x": 1, "y": [1, 2]}},
}  # fmt: skip


def selection(**parts):
    return Selection.model_validate_json(json.dumps(BODY | parts))


def hash_of(**parts):
    return ask_of(selection(**parts)).body_hash


def test_the_order_of_keys_makes_no_other_body():
    assert hash_of() == hash_of(context={"b": {"y": [1, 2], "x": 1}, "a": 1})


@pytest.mark.parametrize(
    "parts",
    [
        {"context": {"a": 1, "b": {"x": 1, "y": [2, 1]}}},
        {"context": {"a": 2, "b": {"x": 1, "y": [1, 2]}}},
        {"unit_id": "v"},
        {"discipline": "other"},
        {"allowed": []},
        {"override": "x"},
        {"kind": "synthetic"},
    ],
)
def test_whatever_could_change_the_decision_makes_another_body(parts):
    assert hash_of() != hash_of(**parts)


def test_tenant_and_request_id_are_the_key_and_not_the_body():
    assert hash_of() == hash_of(tenant="globex", request_id="r-2")


def test_a_context_of_64_kib_is_taken_and_one_byte_more_is_not():
    room = 64 * 1024 - len('{"a":""}')
    ask_of(selection(context={"a": "x" * room}))
    with pytest.raises(BodyTooLargeError, match="65537 bytes"):
        ask_of(selection(context={"a": "x" * (room + 1)}))


def test_numbers_that_json_has_not_are_refused_by_place():
    bad = Selection.model_validate_json(json.dumps(BODY).replace('"a": 1', '"a": NaN'))
    with pytest.raises(InputError, match=r"context\.a"):
        ask_of(bad)


def test_one_object_and_many_are_told_apart():
    shape = Shape(TypeAdapter(Selection))
    assert shape.read(json.dumps(BODY).encode()) == selection()
    many = shape.read(json.dumps({"items": [BODY, {}]}).encode())
    assert many[0] == selection()
    assert isinstance(many[1], Failure)
    with_items = BODY | {"context": {"items": [1]}}
    assert shape.read(json.dumps(with_items).encode()).context == {"items": [1]}
    with pytest.raises(ValidationError):
        shape.read(json.dumps({"items": [BODY], "more": 1}).encode())


TWICE = {
    "at the top": ('"unit_id": "u"', '"unit_id": "u", "unit_id": "v"', "unit_id"),
    "in the context": ('"a": 1', '"a": 1, "a": 1', "a"),
    "deep in it": ('"x": 1', '"x": 1 ,"x" : 2', "x"),
    "behind an escaped colon": ('"a": 1', '"a": "\\u003a", "q": 1, "q": 2', "q"),
    "as escapes": ('"a": 1', '"a": 1, "\\u0061": 2', "a"),
}


@pytest.mark.parametrize("where", TWICE)
def test_a_key_that_comes_twice_is_refused_by_name(where):
    old, new, key = TWICE[where]
    body = json.dumps(BODY).replace(old, new, 1).encode()
    shape = Shape(TypeAdapter(Selection))
    for sent in (body, b'{"items": [' + body + b"]}"):
        with pytest.raises(InputError, match="comes twice") as refused:
            shape.read(sent)
        assert refused.value.place == key


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(10**30), 10**30) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values, max_size=6),
    st.booleans(),
)
def test_no_body_without_a_repeated_key_is_refused_as_one(context, is_ascii):
    body = json.dumps(BODY | {"context": context}, ensure_ascii=is_ascii).encode()
    shape = Shape(TypeAdapter(Selection))
    found = shape.read(body)
    assert found.context == context
    assert shape.read(b'{"items": [' + body + b"]}") == [found]


def test_the_answer_written_directly_is_the_documented_one():
    missing = dict.fromkeys(DecisionRow.__dataclass_fields__)
    row = DecisionRow(
        **missing
        | {
            "decision_id": UUID(int=7), "plan": "tone=warm", "propensity": 1 / 3, "served": True,
            "mode": Mode.CANARY, "arm": Arm.CONTROL, "reasons": ("drawn",), "catalog_hash": "c",
        }
    )  # fmt: skip
    written = to_json(answer_of(row))
    assert SelectionAnswer.model_validate_json(written).model_dump_json().encode() == written


@pytest.mark.parametrize(
    ("error", "status", "code", "place"),
    [
        (errors.NotFoundError("decision", "x", "Look."), 404, "not_found", "decision"),
        (errors.RequestInFlightError("r"), 409, "in_flight", "request_id"),
        (errors.RequestConflictError("r"), 422, "request_conflict", "request_id"),
        (errors.FeatureError("budget", "is text.", "Send one."), 400, "bad_request", "budget"),
        (errors.ServiceUnreachableError("Postgres", "gone.", "Wait."), 503, "unreachable", None),
        (errors.RangeError("floor", None, 2, "a share"), 400, "bad_request", None),
        (BodyTooLargeError("context", "big.", "Less."), 413, "too_large", "context"),
        (RuntimeError("a secret detail"), 500, "internal", None),
    ],
)
def test_every_error_has_a_status_a_code_and_a_place(error, status, code, place):
    found = failure_of(error)
    assert (found.status, found.problem.error, found.problem.place) == (status, code, place)
    assert ("retry-after" in found.response().headers) is (status in {409, 503})
    assert "secret" not in found.problem.message


def test_a_place_in_an_item_names_the_item_too():
    for error in (BodyTooLargeError("context", "big.", "Less."), InputError("context", "x", "y")):
        assert failure_of(error, place="items.3").problem.place == "items.3.context"
    assert failure_of(errors.RateLimitedError("a", 1.2), place="items.3").problem.place == "items.3"


def test_whoever_is_over_a_rate_is_told_whole_seconds_rounded_up():
    found = failure_of(errors.RateLimitedError("tenant acme", 1.2))
    assert found.response().headers["retry-after"] == "2"
