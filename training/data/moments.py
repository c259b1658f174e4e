"""Sums over rows that are read in passing, for what has to be known of all of them at once."""

import math
from dataclasses import dataclass

from policy.arrays import FloatArray


@dataclass(slots=True)
class Moments:
    """Mean, spread and extremes of numbers that come in parts.

    Attributes:
        n: How many came.
        mean: Their mean; 0 while there are none.
        low: The least.
        high: The greatest.

    Source:
        Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample
        Variances, 1979.
    """

    n: int = 0
    mean: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    _squares: float = 0.0

    def add(self, values: FloatArray) -> "Moments":
        """Take numbers in.

        Args:
            values: Shape (n,).
        """
        if not len(values):
            return self
        mean, n = float(values.mean()), len(values)
        total = self.n + n
        step = mean - self.mean
        self._squares += float(((values - mean) ** 2).sum()) + step**2 * self.n * n / total
        self.mean += step * n / total
        self.n = total
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))
        return self

    @property
    def deviation(self) -> float:
        """Their standard deviation, the divisor n; exactly 0 where all are the same."""
        if self.low >= self.high:
            return 0.0
        return math.sqrt(self._squares / self.n)

    @property
    def effective_sample_size(self) -> float:
        """What they are worth as weights: `sum(w)^2 / sum(w^2)`; 0 where all are 0."""
        if self.high <= 0:
            return 0.0
        second = self._squares / self.n + self.mean**2
        return self.n * self.mean**2 / second
