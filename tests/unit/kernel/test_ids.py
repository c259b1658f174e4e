"""Identifiers and stable hashes."""

import math

import pytest

from canopy.domain.episode import RESERVE_SHARE, is_reserved
from canopy.domain.ids import canonical_json, content_hash, new_decision_id, unit_fraction


def test_decision_ids_are_unique_version_seven_and_ordered_by_time():
    first = new_decision_id()
    many = [new_decision_id() for _ in range(1000)]
    assert len({first, *many}) == 1001
    assert {value.version for value in many} == {7}
    assert first.int >> 80 <= many[-1].int >> 80


def test_canonical_json_depends_on_the_value_alone():
    assert canonical_json({"b": 1, "a": [1, None]}) == canonical_json({"a": [1, None], "b": 1})
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": math.nan})


def test_content_hash_tells_contents_apart():
    assert content_hash("a") == content_hash(b"a") != content_hash("b")
    assert len(content_hash("")) == 32


def test_unit_fractions_are_uniform_and_salts_independent():
    units = [f"u{i}" for i in range(20_000)]
    reserve = [unit_fraction(u, "a") for u in units]
    canary = [unit_fraction(u, "b") for u in units]
    assert all(0 <= f < 1 for f in reserve)
    both = sum(a < 0.2 and b < 0.2 for a, b in zip(reserve, canary, strict=True))
    # Standard error of a share of .04 over 20,000 units is .0014.
    assert abs(both / len(units) - 0.04) < 0.006
    assert abs(sum(map(is_reserved, units)) / len(units) - RESERVE_SHARE) < 0.012
