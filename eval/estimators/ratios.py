"""Every estimator here is a sum of ratios of column sums; intervals need nothing else.

Inverse propensity is one ratio whose denominator counts decisions, self-normalisation one whose
denominator sums weights, self-normalised doubly robust is one of each. Resampled values, standard
errors by unit and paired differences then all follow from the same two arrays.
"""

from dataclasses import dataclass

import numpy as np

from policy.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Ratios:
    """An estimator as the sum over j of `sum(numerators[:, j]) / sum(denominators[:, j])`.

    Attributes:
        numerators: Shape (n, n_ratios), in reward units.
        denominators: Shape (n, n_ratios).
    """

    numerators: FloatArray
    denominators: FloatArray

    def value(self) -> float:
        """The estimate in reward units; NaN or infinite where it is undefined."""
        return float(ratio_sum(self.numerators.sum(axis=0), self.denominators.sum(axis=0)))

    def contributions(self) -> FloatArray:
        """What each row adds: the mean is the value, the spread that of the estimator.

        Returns:
            Shape (n,): the value plus n times the row's linearised effect on it. Without
            self-normalisation and dropped rows this is the textbook term of the row.
        """
        totals = self.denominators.sum(axis=0)
        n = len(self.numerators)
        with np.errstate(all="ignore"):
            levels = self.numerators.sum(axis=0) / totals
            effects = ((self.numerators - levels * self.denominators) / totals).sum(axis=1)
            return np.asarray(levels.sum() + n * effects)


def ratio_sum(numerators: FloatArray, denominators: FloatArray) -> FloatArray:
    """Sum of the ratios over the last axis; NaN or infinite where a denominator is 0."""
    with np.errstate(all="ignore"):
        return np.asarray((numerators / denominators).sum(axis=-1))


def columns(*parts: FloatArray) -> FloatArray:
    """Columns of shape (n,) side by side."""
    return np.stack(parts, axis=1)
