"""What all coefficients share: sums over units in, one minus a ratio of disagreements out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from canopy.domain.errors import ShapeMismatchError
from eval.agreement.agreement import Agreement, AgreementReason
from eval.agreement.ratings import MISSING, Ratings, Scale, ratings_of
from policy.arrays import FloatArray, IntArray

MAX_PREVALENCE: Final = 0.9
"""Share of one label beyond which a coefficient is flagged: it then rests on few units."""

_LEAST_UNITS: Final = 2
_CELLS: Final = 4_000_000
"""Numbers of a block of tables worked on at once."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A coefficient's two halves, for each of B sums over units; not finite where undefined.

    Attributes:
        value: Shape (B,). One minus the ratio of the next two.
        observed: Shape (B,). Mean disagreement within units.
        expected: Shape (B,). The same under chance.
        largest: Shape (B,). The most that two labels seen can disagree by.
    """

    value: FloatArray
    observed: FloatArray
    expected: FloatArray
    largest: FloatArray


class Form(Protocol):
    """How one coefficient follows from sums over units."""

    def columns(self, ratings: Ratings) -> FloatArray:
        """What each unit adds, shape (n_units, c)."""

    def parts(self, sums: FloatArray, seen: IntArray) -> Parts:
        """The coefficient.

        Args:
            sums: Shape (B, c). Sums over units of `columns`.
            seen: Shape (n_seen,). Places on the scale of the labels that occur.
        """


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A coefficient on a declared scale, to be called on ratings or resampled from sums.

    Attributes:
        name: Its short name.
        scale: The label domain.
        form: How it follows from sums over units.
        n_raters: Raters it is defined for; None takes any number from two.
    """

    name: str
    scale: Scale
    form: Form
    n_raters: int | None = None

    def __call__(self, ratings: Sequence[Any]) -> Agreement:
        """The agreement of raters.

        Args:
            ratings: Shape (n_raters, n_units). Labels of the scale; None or NaN where missing.

        Returns:
            The coefficient; `value` is None, with a reason, where it is undefined.

        Raises:
            ShapeMismatchError: If the raters do not describe the same units, or are not as many
                as the coefficient is for.
            RangeError: If a label is not of the scale; the rater and the row are named.
        """
        return self.agreement(self.read(ratings))

    def read(self, ratings: Sequence[Any], names: Sequence[str] | None = None) -> Ratings:
        """Ratings as numbers of labels.

        Args:
            ratings: As for a call.
            names: What errors call each rater.

        Raises:
            ShapeMismatchError: As for a call.
            RangeError: As for a call.
        """
        read = ratings_of(ratings, self.scale, names)
        wanted = self.n_raters or max(_LEAST_UNITS, len(read.codes))
        if len(read.codes) != wanted:
            raise ShapeMismatchError("ratings", read.codes.shape, (wanted, read.n_units))
        return read

    def columns(self, ratings: Ratings) -> FloatArray:
        """What each unit adds to the sums that the coefficient is a function of.

        Returns:
            Shape (n_units, c): whether it counts, its labels where it does, and the form's own.
        """
        counted = ratings.is_counted().astype(np.float64)[:, None]
        return np.hstack([counted, ratings.counts * counted, self.form.columns(ratings)])

    def values(self, sums: FloatArray, seen: IntArray) -> FloatArray:
        """The coefficient of many sums of units at once.

        Args:
            sums: Shape (B, c). Sums over units of `columns`.
            seen: Shape (n_seen,). Places on the scale of the labels that occur.

        Returns:
            Shape (B,); NaN where undefined.
        """
        if not len(seen):
            return np.full(len(sums), np.nan)
        at_once = max(1, _CELLS // max(sums.shape[1], 1))
        blocks = [
            self._defined_values(sums[start : start + at_once], seen)
            for start in range(0, len(sums), at_once)
        ]
        return np.concatenate(blocks) if blocks else np.empty(0)

    def _defined_values(self, sums: FloatArray, seen: IntArray) -> FloatArray:
        n_seen = len(seen)
        labels = sums[:, 1 : 1 + n_seen]
        defined = (sums[:, 0] >= _LEAST_UNITS) & ((labels > 0).sum(axis=1) > 1)
        with np.errstate(all="ignore"):
            value = self.form.parts(sums[:, 1 + n_seen :], seen).value
        return np.where(defined & np.isfinite(value), value, np.nan)

    def agreement(self, ratings: Ratings) -> Agreement:
        """The coefficient of ratings already read."""
        counted = ratings.is_counted()
        n = int(counted.sum())
        n_left_out = ratings.n_units - n
        if n == 0:
            empty = AgreementReason.NO_OVERLAP if n_left_out else AgreementReason.TOO_FEW
            return Agreement(None, empty, n, n_left_out)
        sums = self.columns(ratings).sum(axis=0, keepdims=True)
        with np.errstate(all="ignore"):
            parts = self.form.parts(sums[:, 1 + len(ratings.seen) :], ratings.seen)
        labels = ratings.counts[counted].sum(axis=0)
        prevalence = float(labels.max() / labels.sum())
        reason = _why_undefined(n, labels)
        is_defined = reason is None
        return Agreement(
            value=float(parts.value[0]) if is_defined else None,
            reason=reason or _caution(ratings, prevalence),
            n=n,
            n_left_out=n_left_out,
            observed_disagreement=float(parts.observed[0]),
            expected_disagreement=float(parts.expected[0]) if is_defined else None,
            largest_disagreement=float(parts.largest[0]) if is_defined else None,
            prevalence=prevalence,
        )


def _why_undefined(n: int, labels: FloatArray) -> AgreementReason | None:
    if n < _LEAST_UNITS:
        return AgreementReason.TOO_FEW
    if np.count_nonzero(labels) == 1:
        return AgreementReason.SINGLE_CATEGORY
    return None


def _caution(ratings: Ratings, prevalence: float) -> AgreementReason | None:
    for row in ratings.codes[:, ratings.is_counted()]:
        given = row[row != MISSING]
        if len(given) >= _LEAST_UNITS and np.all(given == given[0]):
            return AgreementReason.CONSTANT_RATER
    return AgreementReason.TOO_SKEWED if prevalence > MAX_PREVALENCE else None
