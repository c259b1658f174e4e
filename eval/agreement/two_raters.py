"""Coefficients of two raters over the same units."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval.agreement.agreement import Agreement
from eval.agreement.coefficients import Coefficient, Parts
from eval.agreement.many_raters import gwet_coefficient
from eval.agreement.ratings import Ratings, scale_of
from eval.agreement.weights import Weights, steps
from policy.arrays import FloatArray, IntArray

_NAMES = ("a", "b")


def kappa(
    a: Sequence[Any], b: Sequence[Any], scale: Iterable[Any], weights: Weights | None = None
) -> Agreement:
    """Cohen's kappa: agreement beyond what the two raters' own label frequencies would give.

    Args:
        a: Shape (n,). Labels of the first rater; None or NaN where missing.
        b: Shape (n,). Labels of the second rater; a unit that lacks either rating is left out
            and counted.
        scale: The whole label domain, in order; weights count its unused labels too.
        weights: None for the plain kappa; `linear` or `quadratic` in the places on the scale.

    Returns:
        The coefficient, in [-1, 1]; exactly 0 with `constant_rater` where one rater gives a
        single label and the other does not; None where both give the same one.

    Raises:
        ShapeMismatchError: If the raters did not rate the same units.
        RangeError: If a label is not of the scale; the row is named, from 1.
        InputError: If the scale is none, or has no order where weights need it.

    Source:
        Cohen, A Coefficient of Agreement for Nominal Scales, EPM 1960; Weighted Kappa,
        Psychological Bulletin 1968.
    """
    coefficient = kappa_coefficient(scale, weights)
    return coefficient.agreement(coefficient.read((a, b), _NAMES))


def gwet_ac(
    a: Sequence[Any], b: Sequence[Any], scale: Iterable[Any], weights: Weights | None = None
) -> Agreement:
    """Gwet's AC1, or AC2 with weights: stays high where labels are skewed, for judges too.

    A judge that always gives the commonest label scores high here, so a floor on it alone shows
    nothing: set one on `kappa` or `krippendorff_alpha` as well.

    Args:
        a: Shape (n,). Labels of the first rater; None or NaN where missing.
        b: Shape (n,). Labels of the second rater. A unit with one rating adds to the label
            frequencies and to nothing else.
        scale: The whole label domain, in order; an unused label changes the coefficient.
        weights: None for AC1; `linear`, `quadratic` or `bipolar` for AC2.

    Returns:
        The coefficient, at most 1; None where every label is the same.

    Raises:
        ShapeMismatchError: As for `kappa`.
        RangeError: As for `kappa`.
        InputError: As for `kappa`.

    Source:
        Gwet, Computing Inter-Rater Reliability in the Presence of High Agreement, BJMSP 2008.
    """
    coefficient = gwet_coefficient(scale, weights)
    return coefficient.agreement(coefficient.read((a, b), _NAMES))


def kappa_coefficient(scale: Iterable[Any], weights: Weights | None = None) -> Coefficient:
    """Cohen's kappa on a scale, to call on ratings or to resample.

    Args:
        scale: As for `kappa`.
        weights: As for `kappa`.

    Raises:
        InputError: As for `kappa`.
    """
    declared = scale_of(scale, is_ordered=weights is not None)
    form = _JointTable(steps(weights, len(declared.labels)))
    name = "kappa" if weights is None else f"kappa-{weights}"
    return Coefficient(name, declared, form, n_raters=2)


@dataclass(frozen=True, slots=True)
class _JointTable:
    """Cohen's form: the table of one rater's labels against the other's.

    Attributes:
        apart: Shape (q, q). Disagreement of each pair of labels.
    """

    apart: FloatArray

    def columns(self, ratings: Ratings) -> FloatArray:
        n_seen = len(ratings.seen)
        table = np.zeros((ratings.n_units, n_seen * n_seen))
        both = np.flatnonzero(ratings.is_counted())
        a, b = ratings.codes[:, both]
        table[both, a * n_seen + b] = 1
        return table

    def parts(self, sums: FloatArray, seen: IntArray) -> Parts:
        table = sums.reshape(len(sums), len(seen), len(seen))
        apart = self.apart[np.ix_(seen, seen)]
        first, second = table.sum(axis=2), table.sum(axis=1)
        n = first.sum(axis=1)
        observed = np.einsum("bij,ij->b", table, apart) * n
        expected = np.einsum("bi,ij,bj->b", first, apart, second)
        whole = n**2 * self.apart.max()
        return Parts(1 - observed / expected, observed / whole, expected / whole, np.ones(len(n)))
