"""Scores where ties are information of their own: Davidson's extension of Bradley-Terry."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import FloatArray
from training.preferences.bradley_terry import FitStatus, checked_wins, fit_bradley_terry

_TOLERANCE: Final = 1e-9
_MAX_STEPS: Final = 200
_ROUNDING: Final = 1e-13


@dataclass(frozen=True, slots=True)
class Davidson:
    """Scores with a chance of ties.

    P(i wins) : P(j wins) : P(tie) = pi_i : pi_j : nu sqrt(pi_i pi_j), with pi = e^score.

    Attributes:
        status: Of the graph of wins and ties, a tie being half a win for either; `separated`
            without a win.
        scores: Shape (n,), summing to 0. None unless `connected` with ties and wins.
        tie_strength: nu: the odds of a tie to a win between equals, twice over. None without
            scores; where nobody tied, 0 with the scores of plain Bradley-Terry.
        gradient: Largest component of the gradient left.
    """

    status: FitStatus
    scores: FloatArray | None
    tie_strength: float | None
    gradient: float


def fit_davidson(wins: ArrayLike, ties: ArrayLike) -> Davidson:
    """Fit scores and the strength of ties.

    Args:
        wins: Shape (n, n). Row i, column j: how often i beat j.
        ties: Shape (n, n), symmetric. How often both tied.

    Returns:
        The fit.

    Raises:
        ShapeMismatchError: If the tables are not square or differ in size.
        RangeError: If an entry is negative or not finite, an item met itself, or the ties are
            not symmetric.

    Source:
        Davidson, On Extending the Bradley-Terry Model to Accommodate Ties in Paired Comparison
        Experiments, JASA 1970.
    """
    won, tied = checked_wins(wins), checked_wins(ties)
    if won.shape != tied.shape:
        raise ShapeMismatchError("ties", tied.shape, won.shape)
    for row, column in np.argwhere(tied != tied.T)[:1]:
        raise RangeError("ties", int(row) + 1, float(tied[row, column]), "a symmetric table")
    if not tied.any():
        plain = fit_bradley_terry(won)
        nu = 0.0 if plain.status == "connected" else None
        return Davidson(plain.status, plain.scores if nu == 0 else None, nu, plain.gradient)
    status = fit_bradley_terry(won + tied / 2).status
    if not won.any() and status == "connected":
        status = "separated"
    if status != "connected":
        return Davidson(status, None, None, 0.0)
    return _ascended(_Outcomes.of(won, tied))


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """Pairs that met, and the three outcomes of each; parameters are the scores and log nu."""

    signs: FloatArray
    won: FloatArray
    lost: FloatArray
    tied: FloatArray

    @classmethod
    def of(cls, won: FloatArray, tied: FloatArray) -> "_Outcomes":
        first, second = np.nonzero(np.triu(won + won.T + tied))
        signs = np.zeros((len(first), len(won)))
        rows = np.arange(len(first))
        signs[rows, first], signs[rows, second] = 1.0, -1.0
        return cls(signs, won[first, second], won[second, first], tied[first, second])

    def chances(self, at: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Of a win, a loss and a tie; and the log of what the three weights add up to."""
        half = self.signs @ at[:-1] / 2
        total = np.logaddexp(np.logaddexp(half, -half), at[-1])
        return np.exp(half - total), np.exp(-half - total), np.exp(at[-1] - total), total

    def value(self, at: FloatArray) -> float:
        half = self.signs @ at[:-1] / 2
        total = self.chances(at)[3]
        return float(
            ((self.won - self.lost) * half + self.tied * at[-1]).sum()
            - ((self.won + self.lost + self.tied) * total).sum()
        )

    def derivatives(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient and information."""
        win, loss, tie, _ = self.chances(at)
        played = self.won + self.lost + self.tied
        lead = (win - loss) / 2
        gradient = np.append(
            self.signs.T @ ((self.won - self.lost) / 2 - played * lead),
            (self.tied - played * tie).sum(),
        )
        of_margin = played * ((win + loss) / 4 - lead**2)
        n = len(at) - 1
        information = np.empty((n + 1, n + 1))
        information[:n, :n] = self.signs.T @ (of_margin[:, None] * self.signs)
        information[:n, n] = information[n, :n] = -self.signs.T @ (played * lead * tie)
        information[n, n] = (played * tie * (1 - tie)).sum()
        return gradient, information


def _ascended(outcomes: _Outcomes) -> Davidson:
    """The fit by Newton's method.

    Raises:
        ArithmeticError: If it does not settle within the steps allowed.
    """
    n = outcomes.signs.shape[1]
    at = np.zeros(n + 1)
    limit = _TOLERANCE * max(1.0, float((outcomes.won + outcomes.lost + outcomes.tied).sum()))
    for _ in range(_MAX_STEPS):
        gradient, information = outcomes.derivatives(at)
        # The mean of the scores is free: any multiple of ones may be added.
        information[:n, :n] += float(np.diagonal(information).max()) / n
        step = np.linalg.solve(information, gradient)
        left = float(np.abs(gradient).max())
        if left <= limit and np.abs(step).max() <= _TOLERANCE * max(1.0, np.abs(at).max()):
            scores = at[:n] - at[:n].mean()
            return Davidson("connected", scores, float(np.exp(at[n])), left)
        value = outcomes.value(at)
        length = 1.0
        while outcomes.value(at + length * step) < value - _ROUNDING * max(1.0, abs(value)):
            length /= 2
            if length < _TOLERANCE:
                break
        at = at + length * step
    raise ArithmeticError(f"Davidson's model did not settle within {_MAX_STEPS} steps.")
