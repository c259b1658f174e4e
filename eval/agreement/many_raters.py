"""Coefficients of any number of raters, not all of whom rated every unit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from eval.agreement.agreement import Agreement
from eval.agreement.coefficients import Coefficient, Parts
from eval.agreement.ratings import Ratings, scale_of
from eval.agreement.weights import Weights, shares
from policy.arrays import FloatArray, IntArray

_OWN_COLUMNS: Final = 3
"""Counted units, rated units and disagreement; the frequencies of labels follow."""


def gwet_ac_raters(
    ratings: Sequence[Any], scale: Iterable[Any], weights: Weights | None = None
) -> Agreement:
    """Gwet's AC1, or AC2 with weights, of two or more raters.

    Args:
        ratings: Shape (n_raters, n_units). Labels; None or NaN where missing. A unit with one
            rating adds to the label frequencies and to nothing else.
        scale: The whole label domain, in order; an unused label changes the coefficient.
        weights: None for AC1; `linear`, `quadratic` or `bipolar` for AC2.

    Returns:
        The coefficient, at most 1; None where every label is the same or no unit is rated twice.

    Raises:
        ShapeMismatchError: If the raters do not describe the same units.
        RangeError: If a label is not of the scale; the rater and the row are named, from 1.
        InputError: If the scale is none, or has no order where weights need it.

    Source:
        Gwet, Computing Inter-Rater Reliability in the Presence of High Agreement, BJMSP 2008.
    """
    return gwet_coefficient(scale, weights)(ratings)


def fleiss_kappa(ratings: Sequence[Any], scale: Iterable[Any]) -> Agreement:
    """Fleiss' kappa: chance follows the label frequencies of all raters together.

    Args:
        ratings: Shape (n_raters, n_units). Labels; None or NaN where missing, with units of
            fewer ratings treated as in Gwet's coefficient. Of two raters it is Scott's pi.
        scale: The whole label domain.

    Returns:
        The coefficient, in [-1, 1]; None where every label is the same or no unit is rated twice.

    Raises:
        ShapeMismatchError: As for `gwet_ac_raters`.
        RangeError: As for `gwet_ac_raters`.
        InputError: As for `gwet_ac_raters`.

    Source:
        Fleiss, Measuring Nominal Scale Agreement Among Many Raters, Psychological Bulletin 1971.
    """
    return fleiss_coefficient(scale)(ratings)


def gwet_coefficient(scale: Iterable[Any], weights: Weights | None = None) -> Coefficient:
    """Gwet's coefficient on a scale, to call on ratings or to resample.

    Args:
        scale: As for `gwet_ac_raters`.
        weights: As for `gwet_ac_raters`.

    Raises:
        InputError: As for `gwet_ac_raters`.
    """
    declared = scale_of(scale, is_ordered=weights is not None)
    form = _LabelShares(shares(weights, len(declared.labels)), "gwet")
    return Coefficient("ac1" if weights is None else f"ac2-{weights}", declared, form)


def fleiss_coefficient(scale: Iterable[Any]) -> Coefficient:
    """Fleiss' kappa on a scale, to call on ratings or to resample.

    Args:
        scale: As for `fleiss_kappa`.

    Raises:
        InputError: As for `fleiss_kappa`.
    """
    declared = scale_of(scale, is_ordered=False)
    return Coefficient("fleiss", declared, _LabelShares(shares(None, len(declared.labels)), "pi"))


@dataclass(frozen=True, slots=True)
class _LabelShares:
    """The form of coefficients whose chance follows from one share per label.

    Attributes:
        apart: Shape (q, q), in [0, 1]. Disagreement of each pair of labels.
        chance: `gwet` spreads chance over the whole scale, `pi` follows the label frequencies.
    """

    apart: FloatArray
    chance: Literal["gwet", "pi"]

    def columns(self, ratings: Ratings) -> FloatArray:
        counts = ratings.counts
        n_ratings = counts.sum(axis=1)
        apart = self.apart[np.ix_(ratings.seen, ratings.seen)]
        pairs = n_ratings * (n_ratings - 1)
        differing = np.einsum("ui,ij,uj->u", counts, apart, counts)
        counted = ratings.is_counted()
        observed = np.divide(differing, pairs, out=np.zeros_like(pairs), where=counted)
        frequencies = counts / np.maximum(n_ratings, 1)[:, None]
        return np.column_stack([counted, n_ratings > 0, observed, frequencies])

    def parts(self, sums: FloatArray, seen: IntArray) -> Parts:
        counted, rated, differing = sums[:, :_OWN_COLUMNS].T
        frequency = sums[:, _OWN_COLUMNS:] / rated[:, None]
        observed = differing / counted
        if self.chance == "pi":
            apart = self.apart[np.ix_(seen, seen)]
            expected = np.einsum("bi,ij,bj->b", frequency, apart, frequency)
        else:
            q = len(self.apart)
            spread = (1 - self.apart).sum() / (q * (q - 1))
            expected = 1 - spread * (frequency * (1 - frequency)).sum(axis=1)
        return Parts(1 - observed / expected, observed, expected, np.ones(len(sums)))
