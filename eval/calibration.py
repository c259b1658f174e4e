"""Calibration of reward predictions that are read in passing: sums over narrow bins."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from eval.reward_models import Calibration, CalibrationBin
from policy.arrays import FloatArray

_NARROW: Final = 1_000
_BINS: Final = 10


@dataclass(slots=True)
class CalibrationSums:
    """Predictions against rewards, by narrow bins of the declared range.

    Attributes:
        lo: Least reward.
        hi: Largest reward.
    """

    lo: float
    hi: float
    _sums: FloatArray = field(default_factory=lambda: np.zeros((3, _NARROW)))

    @property
    def n(self) -> int:
        """Rows added."""
        return int(self._sums[0].sum())

    def add(self, reward: FloatArray, predicted: FloatArray) -> None:
        """Add rows; predictions outside the range go to the outermost bins.

        Args:
            reward: Shape (n,).
            predicted: Shape (n,).
        """
        share = (predicted - self.lo) / (self.hi - self.lo)
        place = np.clip((share * _NARROW).astype(np.intp), 0, _NARROW - 1)
        for row, values in enumerate((np.ones(len(reward)), predicted, reward)):
            self._sums[row] += np.bincount(place, weights=values, minlength=_NARROW)

    def calibration(self) -> Calibration:
        """The same in ten bins of about equal size; needs a row."""
        n, predicted, reward = self._sums
        total = float(n.sum())
        # Where the middle of each narrow bin falls in the order of predictions.
        rank = (np.cumsum(n) - n / 2) / total
        wide = np.minimum((rank * _BINS).astype(np.intp), _BINS - 1)
        merged = [np.bincount(wide, weights=row, minlength=_BINS) for row in self._sums]
        bins = tuple(
            CalibrationBin(int(count), q / count, r / count)
            for count, q, r in zip(*(row.tolist() for row in merged), strict=True)
            if count
        )
        error = sum(b.n * abs(b.predicted - b.observed) for b in bins) / total
        return Calibration(
            int(total), float(predicted.sum() / total), float(reward.sum() / total), error, bins
        )
