import json
from datetime import datetime
from uuid import uuid4

import numpy as np
import pytest

from canopy.domain.decision import Mode
from canopy.domain.errors import InputError
from canopy.storage.insertion import (
    COLUMNS,
    context_json,
    distinct,
    encode,
    parameters,
    results,
    unanswered,
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tenant_id": ""}, "Name the tenant"),
        ({"decided_at": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001 - the fault
        ({"body_hash": None}, "come together"),
        ({"request_id": None}, "come together"),
        ({"propensity": 0.0}, "had a chance"),
        ({"propensity": 1.5}, "had a chance"),
        ({"propensity": float("nan")}, "had a chance"),
        ({"keep_prob": 0.0}, "had a chance"),
        ({"action": 2**31}, "expected 0 to"),
        ({"action": -1}, "expected 0 to"),
        ({"n_plans": 2**40}, "expected 0 to"),
        ({"context": {"x": float("nan")}}, "cannot be encoded"),
        ({"context": {"x": {1, 2}}}, "cannot be encoded"),
        ({"context": {"x": "\ud800"}}, "surrogate"),
        ({"unit_id": "\ud800"}, "surrogate"),
        ({"tenant_id": "a\x1fb"}, "control character"),
        ({"context": {"x": "a\x00b"}}, "NUL"),
        ({"context": {"x": "\\\x00"}}, "NUL"),
        ({"unit_id": "a\x00"}, "NUL"),
        ({"shadow_plan": "\x00"}, "NUL"),
        ({"reasons": ["a\x1fb"]}, "control character"),
    ],
)
def test_a_row_the_table_could_not_hold_is_refused(make_row, fields, message):
    with pytest.raises(InputError, match=message):
        encode(make_row(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"propensity": 1.0},
        {"context": {"x": "\\u0000 spelt out", "y": None, "z": -0.0, "ü": "☃"}},
        {"action": 0, "n_plans": 2**31 - 1},
    ],
)
def test_an_unusual_row_passes(make_row, fields):
    encode(make_row(**fields))


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"x": 0.1, "y": -3, "z": True, "none": None, "ü": '☃ \\ " \n'},
        {"word": "NaN", "other": "-Infinity"},
        {"big": 2**80, "small": 5e-324, "large": 1.7976931348623157e308},
        {"nested": {"list": [1, {"x": None}]}},
    ],
)
def test_a_context_reads_back_as_it_was(context):
    assert json.loads(context_json(context)) == context


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, b"x", [float("nan")]])
def test_what_json_cannot_carry_is_no_context(value):
    with pytest.raises((TypeError, ValueError)):
        context_json({"x": value})


def test_every_value_travels_as_the_plain_type_of_its_column(make_row):
    rows = [
        make_row(
            mode=Mode.ON, propensity=np.float64(0.5), action=np.int64(3), mask=bytearray(b"x")
        ),
        make_row(mode=None, propensity=1, action=None, served=np.bool_(0)),
    ]
    columns = dict(zip(COLUMNS, parameters([encode(row) for row in rows]), strict=True))
    assert columns["propensity"] == [0.5, 1.0]
    kinds = {name: {type(value) for value in values} for name, values in columns.items()}
    assert kinds["mode"] == {str, type(None)}
    assert kinds["kind"] == {str}
    assert kinds["propensity"] == {float}
    assert kinds["action"] == {int, type(None)}
    assert kinds["served"] == {bool}
    assert kinds["mask"] == {bytes, type(None)}


def test_a_request_counts_once_in_a_batch(make_row):
    first, again, other, none = (
        encode(make_row(request_id=name, body_hash=name)) for name in ("r", "r", "s", None)
    )
    assert distinct([first, again, other, none, none]) == [first, other, none, none]
    r, s = ("acme", "r"), ("acme", "s")
    assert unanswered([first, other, none], {r, s}) == []
    assert unanswered([first, other], {s}) == [r]
    assert unanswered([first, again, other], {r, s}) == [r]


def test_a_batch_sent_twice_finds_its_own_rows_new(make_row):
    own, late, earlier = make_row(request_id="r"), make_row(request_id="s"), uuid4()
    standing = {("acme", "r"): (own.decision_id, "b"), ("acme", "s"): (earlier, "x")}
    written = results([encode(own), encode(late)], standing)
    assert [(w.decision_id, w.is_new, w.body_hash) for w in written] == [
        (own.decision_id, True, "b"),
        (earlier, False, "x"),
    ]
