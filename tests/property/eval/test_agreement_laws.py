"""What every coefficient of agreement owes, whatever the ratings."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eval.agreement import COEFFICIENTS, coefficient_named

SCALE = (1, 2, 3, 4)
UNITS = st.lists(st.tuples(st.sampled_from(SCALE), st.sampled_from(SCALE)), max_size=25)
GAPPED = st.lists(
    st.tuples(*[st.one_of(st.none(), st.sampled_from(SCALE))] * 2), min_size=1, max_size=25
)
NAMES = st.sampled_from(COEFFICIENTS)


def value(name, units, scale=SCALE):
    return coefficient_named(name, scale)([list(r) for r in zip(*units, strict=True)] or [[], []])


def near(a, b):
    same = a.value is None and b.value is None
    return a.reason == b.reason and (same or abs(a.value - b.value) < 1e-9)


@given(NAMES, GAPPED)
def test_it_is_at_most_1_or_has_a_reason(name, units):
    found = value(name, units)
    assert (found.value is None) <= (found.reason is not None)
    assert found.value is None or found.value <= 1 + 1e-12
    assert found.n + found.n_left_out == len(units)


@given(NAMES, GAPPED, st.randoms(use_true_random=False))
def test_the_order_of_units_means_nothing(name, units, random):
    shuffled = random.sample(units, len(units))
    assert near(value(name, units), value(name, shuffled))


@given(NAMES, GAPPED)
def test_which_rater_comes_first_means_nothing(name, units):
    assert near(value(name, units), value(name, [(b, a) for a, b in units]))


@given(st.sampled_from(["kappa", "ac1", "fleiss", "alpha-nominal"]), UNITS)
def test_the_names_of_unordered_labels_mean_nothing(name, units):
    renamed = {1: "d", 2: "b", 3: "a", 4: "c"}
    other = [(renamed[a], renamed[b]) for a, b in units]
    assert near(value(name, units), value(name, other, ("a", "b", "c", "d")))


@given(st.sampled_from(["kappa-linear", "kappa-quadratic", "ac2", "alpha-ordinal"]), UNITS)
def test_a_scale_read_backwards_is_the_same_scale(name, units):
    assert near(value(name, units), value(name, units, SCALE[::-1]))


@given(st.sampled_from(["kappa", "kappa-quadratic", "ac1", "ac2", "fleiss"]), UNITS)
def test_every_unit_twice_changes_no_large_sample_coefficient(name, units):
    if len(units) > 1:
        assert near(value(name, units), value(name, units + units))


@given(NAMES, UNITS)
def test_agreement_made_of_sums_is_agreement_of_rows(name, units):
    """The route that the bootstrap takes: every unit's columns, summed."""
    coefficient = coefficient_named(name, SCALE)
    ratings = [list(r) for r in zip(*units, strict=True)] or [[], []]
    read = coefficient.read(ratings)
    sums = coefficient.columns(read).sum(axis=0, keepdims=True)
    found, direct = coefficient.values(sums, read.seen)[0], coefficient(ratings).value
    assert np.isnan(found) if direct is None else abs(found - direct) < 1e-12
