"""Counts of wins, pair by pair: the likelihood of Bradley-Terry scores and its derivatives."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve, lapack

from policy.arrays import FloatArray

_FAR: float = 3.0
_LEAST: float = float(np.finfo(np.float64).tiny)

Places = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A log-likelihood at some scores.

    Attributes:
        value: The log-likelihood less the prior's penalty.
        gradient: Shape (n,). In wins.
        information: Shape (m,). Of each pair about the difference of its two scores.
    """

    value: float
    gradient: FloatArray
    information: FloatArray


@dataclass(frozen=True, slots=True)
class Games:
    """The pairs of items that met.

    Attributes:
        n: Number of items.
        first: Shape (m,). One item of each pair.
        second: Shape (m,). The other, of a higher number.
        won: Shape (m,). Wins of the first.
        lost: Shape (m,). Wins of the second.
    """

    n: int
    first: Places
    second: Places
    won: FloatArray
    lost: FloatArray

    @classmethod
    def of(cls, wins: FloatArray) -> "Games":
        """The pairs of a table of wins.

        Args:
            wins: Shape (n, n). Row i, column j: how often i beat j.
        """
        first, second = np.nonzero(np.triu(wins + wins.T))
        return cls(len(wins), first, second, wins[first, second], wins[second, first])

    @property
    def most_games(self) -> float:
        """Games of the item that has most."""
        return float(self._of_items(self.won + self.lost, self.won + self.lost).max(initial=0.0))

    @property
    def start(self) -> FloatArray:
        """Shape (n,). Where the climb begins: log-odds of each item's share of wins.

        Against the field, which its own score is part of the mean of; never far out, where an
        overshoot would leave nothing to climb by.
        """
        won = self._of_items(self.won, self.lost)
        lost = self._of_items(self.lost, self.won)
        against_field = np.log((won + 0.5) / (lost + 0.5)) * (self.n - 1) / self.n
        return np.asarray(np.clip(against_field, -_FAR, _FAR))

    def likelihood(self, scores: FloatArray, prior: float) -> Likelihood:
        """The likelihood at some scores.

        Args:
            scores: Shape (n,).
            prior: Precision of the prior on each score.
        """
        margin = scores[self.first] - scores[self.second]
        # One exp serves all: e^-|z| never overflows, and p(1-p) keeps its digits where p rounds
        # to 1. log(1 - p) would be -inf there.
        decay = np.exp(-np.abs(margin))
        far = 1 / (1 + decay)
        near = decay * far
        # By arithmetic: a choice by a random sign costs the processor its foresight.
        leads = (margin >= 0).astype(np.float64)
        chance = far * leads + near * (1 - leads)
        against = near * leads + far * (1 - leads)
        played = self.won + self.lost
        softplus = np.maximum(margin, 0.0) + np.log1p(decay)
        value = float(self.won @ margin - played @ softplus) - prior / 2 * float(scores @ scores)
        # Wins beyond expectation; written so that nothing cancels where p rounds to 1.
        surplus = self.won * against - self.lost * chance
        gradient = self._of_items(surplus, -surplus) - prior * scores
        return Likelihood(value, gradient, played * near * far)

    def information(self, of_pairs: FloatArray) -> FloatArray:
        """Shape (n, n). The information matrix that pairs' information of shape (m,) adds up to."""
        matrix = np.zeros((self.n, self.n))
        matrix[self.first, self.second] = -of_pairs
        matrix += matrix.T
        np.fill_diagonal(matrix, self._of_items(of_pairs, of_pairs))
        return matrix

    def _of_items(self, of_first: FloatArray, of_second: FloatArray) -> FloatArray:
        return np.bincount(self.first, of_first, self.n).astype(np.float64) + np.bincount(
            self.second, of_second, self.n
        )


@dataclass(frozen=True, slots=True)
class Gauged:
    """An information matrix made invertible: the mean of the scores, which no game moves, is fixed.

    Attributes:
        factor: Cholesky factor of the matrix plus a multiple of ones, lower half.
        ones: That multiple, times the number of items.
    """

    factor: FloatArray
    ones: float

    @classmethod
    def of(cls, information: FloatArray, prior: float) -> "Gauged":
        """Factor a matrix.

        Args:
            information: Shape (n, n). Of `Games.information`; it is overwritten.
            prior: Precision of the prior on each score.
        """
        n = len(information)
        # On the scale of the matrix, so that neither drowns the other.
        ones = max(float(np.diagonal(information).max(initial=0.0)), prior, _LEAST)
        information[np.diag_indices(n)] += prior
        information += ones / n
        factor, _ = cho_factor(information, lower=True, overwrite_a=True, check_finite=False)
        return cls(np.asarray(factor), ones)

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Shape (n,). The step that the gradient asks for."""
        return np.asarray(cho_solve((self.factor, True), gradient, check_finite=False))

    def covariance(self) -> FloatArray:
        """Shape (n, n). Covariance of the scores less their mean."""
        half, _ = lapack.dpotri(self.factor, lower=True)
        full = np.tril(half)
        full += np.tril(half, -1).T
        # Rows and columns sum to 0: what the multiple of ones and the prior say of the mean goes.
        full -= full.mean(axis=0)
        full -= full.mean(axis=1)[:, None]
        return np.asarray(full)
