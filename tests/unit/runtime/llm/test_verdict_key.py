"""A cached verdict is found only under everything that could have changed it."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canopy.domain.errors import InputError
from runtime.llm.verdict_key import VerdictQuestion, verdict_key

QUESTION = VerdictQuestion(
    judge="judge-1", judge_version="2026-01-01", endpoint="http://localhost:1", rubric_id="r",
    rubric_hash="h", template="Which? {first} {second}", system=None, first_text="one",
    second_text="two", order="ab", menu=("A", "B"), decoding={"temperature": 0.0},
)  # fmt: skip

OTHER = {
    "judge": "judge-2", "judge_version": "2026-01-02", "endpoint": "http://localhost:2",
    "rubric_id": "s", "rubric_hash": "i", "template": "Which one? {first} {second}",
    "system": "", "first_text": "One", "second_text": "twos", "order": "ba",
    "menu": ("B", "A"), "decoding": {"temperature": 0.1}, "tools": ("search",), "repetition": 1,
}  # fmt: skip


@pytest.mark.parametrize("field", [field.name for field in fields(VerdictQuestion)])
def test_every_field_is_part_of_the_key(field):
    assert verdict_key(replace(QUESTION, **{field: OTHER[field]})) != verdict_key(QUESTION)


def test_the_key_is_the_question_s_and_nothing_else_s():
    again = replace(QUESTION, decoding=dict(QUESTION.decoding))
    assert verdict_key(again) == verdict_key(QUESTION)
    assert len(verdict_key(QUESTION)) == 64


@given(st.text(), st.text(), st.text(), st.text())
def test_texts_that_differ_have_keys_that_differ(first, second, other_first, other_second):
    one = replace(QUESTION, first_text=first, second_text=second)
    two = replace(QUESTION, first_text=other_first, second_text=other_second)
    is_same = (first, second) == (other_first, other_second)
    assert (verdict_key(one) == verdict_key(two)) == is_same


def test_the_order_of_decoding_parameters_is_none():
    one = replace(QUESTION, decoding={"a": 1, "b": 2})
    assert verdict_key(one) == verdict_key(replace(QUESTION, decoding={"b": 2, "a": 1}))


@pytest.mark.parametrize("version", ["", " ", "latest", "Latest", "*", "stable", "default"])
def test_an_alias_is_no_version(version):
    with pytest.raises(InputError, match="no pinned version"):
        replace(QUESTION, judge_version=version)


@pytest.mark.parametrize("order", [None, "ab"])
def test_an_order_goes_with_two_texts(order):
    second = None if order else "two"
    with pytest.raises(InputError, match="does not go with the texts"):
        replace(QUESTION, second_text=second, order=order)


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}], ids=["nan", "object", "set"])
def test_decoding_that_is_not_plain_is_an_error(value):
    with pytest.raises(InputError, match="decoding"):
        verdict_key(replace(QUESTION, decoding={"temperature": value}))
