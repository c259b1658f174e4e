"""What is logged is what was drawn from: every distribution sums to 1 over the feasible plans."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from policy.catalog import parse_catalog
from policy.selector import Choice, select_many

CATALOG = """
discipline: guard
version: "1"
factors:
  tone:
    levels:
      plain: {doctrine: Say it once., weight: 2}
      warm: {doctrine: Greet first., weight: 1}
  size:
    levels:
      short: {doctrine: Spare time., weight: 3}
      long: {doctrine: Explain., weight: 1}
feasibility:
  - mask: {size: long}
    when: {lt: {budget: 3}}
    because: long texts need a budget of 3
default: tone=plain,size=short
"""

pytestmark = pytest.mark.guard


def violations(decisions):
    """What is wrong with the propensities of decisions, in words."""
    found = []
    for d in decisions:
        mask = np.asarray(d.mask)
        if d.distribution is None:
            if d.propensity is not None or d.served:
                found.append("a propensity without a distribution")
            continue
        p = np.asarray(d.distribution)
        if abs(p[mask].sum() - 1) > 1e-12:
            found.append(f"sums to {p[mask].sum()} over the feasible plans")
        if p[~mask].any():
            found.append("a masked plan has probability")
        if d.served and d.propensity != p[d.action]:
            found.append("the propensity is not that of the plan drawn")
        if not d.served and d.propensity is not None:
            found.append("a propensity of what was not drawn")
    return found


@pytest.fixture(scope="module")
def decisions():
    catalog = parse_catalog(CATALOG, "guard")
    rng = np.random.default_rng(0)
    made = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
    choices = [
        Choice(
            catalog=catalog,
            context={"budget": float(rng.integers(0, 6))},
            key=f"{made}-{n}",
            killed=n % 17 == 0,
            override="tone=warm,size=short" if n % 11 == 0 else None,
        )
        for n in range(400)
    ]
    return select_many(choices)


def test_every_decision_keeps_the_rule(decisions):
    assert violations(decisions) == []
    assert {d.served for d in decisions} == {True, False}
    assert any(not np.asarray(d.mask).all() for d in decisions)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"propensity": 0.9999}, "not that of the plan drawn"),
        ({"distribution": None}, "without a distribution"),
        ({"distribution": np.array([0.5, 0.2, 0.2, 0.2])}, "sums to"),
        ({"served": False}, "of what was not drawn"),
    ],
)
def test_the_guard_fires(decisions, change, words):
    drawn = next(d for d in decisions if d.served)
    assert any(words in said for said in violations([replace(drawn, **change)]))
