"""Margins and lineages: what cannot be said without saying where it came from."""

import operator
import statistics

import pytest

from canopy.domain.errors import RangeError
from canopy.domain.evidence import (
    Interval,
    Lineage,
    Margin,
    Tier,
    average,
    reserve_corpus,
    train_corpus,
)

LINEAGE = Lineage(corpora=frozenset({reserve_corpus("a1")}))


def margin(tier=Tier.BACKTEST, estimate=0.2, interval=(0.1, 0.3), n=50, lineage=LINEAGE):
    return Margin(tier=tier, estimate=estimate, interval=interval, n=n, lineage=lineage)


@pytest.mark.parametrize("missing", ["tier", "estimate", "interval", "n", "lineage"])
def test_a_margin_without_any_of_its_parts_cannot_exist(missing):
    whole = {"tier": Tier.CANARY, "estimate": 0.1, "interval": (0, 1), "n": 9, "lineage": LINEAGE}
    del whole[missing]
    with pytest.raises(TypeError, match=missing):
        Margin(**whole)


def test_a_margin_cannot_be_written_by_position():
    with pytest.raises(TypeError):
        Margin(Tier.BACKTEST, 0.1, (0.0, 0.2), 10, LINEAGE)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"tier": None}, TypeError, "needs its tier"),
        ({"tier": "hearsay"}, ValueError, "hearsay"),
        ({"lineage": None}, TypeError, "needs its lineage"),
        ({"lineage": {"corpora": ["x"]}}, TypeError, "needs its lineage"),
        ({"estimate": float("nan")}, RangeError, "finite"),
        ({"interval": (0.3, 0.1)}, RangeError, "at most 0.1"),
        ({"interval": (0.3, float("inf"))}, RangeError, "None for an open one"),
        ({"interval": (0.0, 1.0, 1.5)}, RangeError, "probability"),
        ({"n": 0}, RangeError, "at least one unit"),
    ],
)
def test_a_malformed_margin_is_refused_in_words(change, error, says):
    with pytest.raises(error, match=says):
        margin(**change)


ACROSS_TIERS = {
    "add": operator.add, "sub": operator.sub, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "max": max,
    "average": lambda a, b: average([a, b]), "sorted": lambda a, b: sorted([a, b]),
}  # fmt: skip


@pytest.mark.parametrize("mix", ACROSS_TIERS.values(), ids=ACROSS_TIERS)
def test_margins_of_two_tiers_never_mix(mix):
    with pytest.raises(TypeError, match=r"canary.*backtest|backtest.*canary"):
        mix(margin(Tier.BACKTEST), margin(Tier.CANARY))


WITH_NUMBERS = {
    "add": lambda a: a + 0.1, "radd": lambda a: 0.1 + a, "lt": lambda a: a < 0.1,
    "by itself": lambda a: a / a, "by zero": lambda a: a / 0, "sum": lambda a: sum([a, a]),
    "mean": lambda a: statistics.mean([a, a]), "of none": lambda _: average([]), "float": float,
}  # fmt: skip


@pytest.mark.parametrize("mix", WITH_NUMBERS.values(), ids=WITH_NUMBERS)
def test_a_margin_never_mixes_with_a_bare_number(mix):
    with pytest.raises(TypeError):
        mix(margin())


def test_within_one_tier_the_interval_of_a_sum_holds_whatever_the_dependence():
    total = margin(interval=Interval(0.1, 0.3, 0.95)) + margin(
        estimate=0.4, interval=Interval(0.3, 0.6, 0.9), n=20
    )
    assert total.estimate == pytest.approx(0.6)
    assert total.interval == pytest.approx((0.4, 0.9, 0.85))
    assert total.n == 20


def test_a_difference_crosses_the_ends():
    gap = margin() - margin(estimate=0.5, interval=(0.4, 0.7))
    assert gap.interval[:2] == pytest.approx((-0.6, -0.1))
    assert (margin() - margin(interval=(0.1, None))).interval.lower is None


def test_an_average_keeps_every_lineage():
    other = margin(lineage=Lineage(judges=frozenset({"j"})))
    mean = average([margin(), other])
    assert mean.estimate == pytest.approx(0.2)
    assert mean.lineage == LINEAGE | Lineage(judges=frozenset({"j"}))


def test_within_one_tier_margins_are_ordered_by_their_estimates():
    small, large = margin(), margin(estimate=0.25)
    assert small < large
    assert small <= large
    assert large > small
    assert large >= small
    assert max(small, large) is large


def test_equal_margins_are_equal_and_hash_alike():
    assert margin() == margin()
    assert len({margin(), margin(), margin(n=3)}) == 2
    assert margin() != "a margin"


def test_a_margin_survives_its_document():
    assert Margin.from_document(margin().document()) == margin()


@pytest.mark.parametrize(
    ("evidence", "training", "shared"),
    [
        (reserve_corpus("a"), train_corpus("a"), ()),
        (reserve_corpus("a"), train_corpus("b"), ()),
        (reserve_corpus("a"), reserve_corpus("a"), ("corpora: reserve:a",)),
        (reserve_corpus("a"), "a", ("corpora: reserve:a",)),
        ("a", train_corpus("a"), ("corpora: train:a",)),
        ("a", "a", ("corpora: a",)),
    ],
)
def test_corpora_meet_part_by_part_and_a_bare_hash_is_the_whole_log(evidence, training, shared):
    mine = Lineage(corpora=frozenset({evidence}))
    its = Lineage(corpora=frozenset({training}))
    assert mine.overlap(its) == shared
    assert its.overlap(mine) == shared


@pytest.mark.parametrize("kind", ["judges", "rubrics", "verifiers", "golden_sets"])
def test_an_overlap_names_kind_and_thing(kind):
    one = Lineage(**{kind: frozenset({"x", "y"})})
    assert one.overlap(Lineage(**{kind: frozenset({"y", "z"})})) == (f"{kind}: y",)


def test_the_same_name_of_another_kind_is_no_overlap():
    assert Lineage(judges=frozenset({"x"})).overlap(Lineage(rubrics=frozenset({"x"}))) == ()


def test_a_bare_text_is_no_set_of_names():
    with pytest.raises(TypeError, match="corpora"):
        Lineage(corpora="abc")


def test_a_lineage_survives_its_document_and_refuses_unknown_kinds():
    assert Lineage.from_document(LINEAGE.document()) == LINEAGE
    with pytest.raises(TypeError, match="friends"):
        Lineage.from_document({"friends": ["x"]})
