"""Logistic regression on differences of features: who wins, given what tells two sides apart.

Order effects, covariates and scores made of a plan's levels are all of this form. Coefficients
that the data cannot tell apart stay at the shortest vector that fits; only what is identified
is to be read.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, diags, vstack
from scipy.special import expit

from canopy.domain.errors import RangeError, ShapeMismatchError
from policy.arrays import BoolArray, FloatArray
from training.preferences.pair_table import NumberArray

_TOLERANCE: Final = 1e-9
_NULL: Final = 1e-9
_SHORT: Final = 1e-6
_MAX_STEPS: Final = 100
_SUSPICIOUS: Final = 20.0
_SEPARATES: Final = 1e-6
_ROUNDING: Final = 1e-13
_LEAST: Final = 1e-300
_MOST_DENSE: Final = 1_000_000

Rows = csr_matrix | FloatArray

RegressionStatus = Literal["fitted", "separated", "no_data"]


@dataclass(frozen=True, slots=True)
class PairRegression:
    """Coefficients, and what they rest on.

    Attributes:
        status: `fitted`; `separated` where the likelihood grows without end; `no_data`.
        coefficients: Shape (p,). None unless fitted.
        covariance: Shape (p, p). Of what is identified, by Fisher information. None unless fitted.
        clustered: Shape (p, p). The same with whole clusters as what is independent; None
            without clusters, or with one.
        identified: Shape (p, r). Orthonormal columns that span what data and prior tell.
        log_likelihood: Without the prior's penalty. None unless fitted.
        gradient: Largest component of the penalised gradient left.
    """

    status: RegressionStatus
    coefficients: FloatArray | None
    covariance: FloatArray | None
    clustered: FloatArray | None
    identified: FloatArray
    log_likelihood: float | None
    gradient: float

    def is_identified(self, contrasts: FloatArray) -> BoolArray:
        """Shape (k,). Whether the data or the prior say anything of each contrast.

        Args:
            contrasts: Shape (k, p).
        """
        left = contrasts - contrasts @ self.identified @ self.identified.T
        size = np.abs(contrasts).max(axis=1, initial=0.0)
        return np.asarray(
            np.abs(left).max(axis=1, initial=0.0) <= _SHORT * np.maximum(size, _LEAST)
        )


def fit_pair_regression(
    design: Rows,
    won: FloatArray,
    lost: FloatArray,
    *,
    prior: FloatArray | float = 0.0,
    cluster: NumberArray | None = None,
    start: FloatArray | None = None,
) -> PairRegression:
    """Fit P(first side wins) = 1 / (1 + exp(-design . coefficients)).

    Args:
        design: Shape (m, p). The first side's features less the second's.
        won: Shape (m,). Wins of the first side; half wins are allowed.
        lost: Shape (m,). Wins of the second.
        prior: Precision of a normal prior on each coefficient, shape (p,) or one for all.
        cluster: Shape (m,). What each row belongs to.
        start: Shape (p,). Where the climb begins; None for 0.

    Returns:
        The fit.

    Raises:
        ShapeMismatchError: If the rows differ in number.
        RangeError: If a count is negative or the prior is.
        ArithmeticError: If the fit does not settle though nothing separates the rows.

    Source:
        Albert and Anderson, On the Existence of Maximum Likelihood Estimates in Logistic
        Regression Models, Biometrika 1984, for separation.
    """
    m, p = design.shape
    # Thousands of rows are faster as they are than without their zeros.
    rows = np.asarray(csr_matrix(design).toarray()) if m * p <= _MOST_DENSE else csr_matrix(design)
    for name, column in (("won", won), ("lost", lost)):
        if column.shape != (m,):
            raise ShapeMismatchError(name, column.shape, (m,))
        if not (np.isfinite(column) & (column >= 0)).all():
            raise RangeError(name, None, float(column.min()), "finite counts of at least 0")
    penalty = np.broadcast_to(np.asarray(prior, dtype=np.float64), (p,))
    if not (np.isfinite(penalty) & (penalty >= 0)).all():
        raise RangeError("prior", None, float(penalty.min()), "finite and at least 0")
    problem = _Problem(rows, won, lost, penalty)
    basis = problem.basis()
    if not problem.played.any() or not basis.shape[1]:
        return PairRegression("no_data", None, None, None, basis, None, 0.0)
    coefficients = problem.ascended(basis, np.zeros(p) if start is None else start)
    if coefficients is None:
        return PairRegression("separated", None, None, None, basis, None, 0.0)
    information = problem.information(coefficients)
    covariance = basis @ np.linalg.inv(basis.T @ information @ basis) @ basis.T
    return PairRegression(
        status="fitted",
        coefficients=coefficients,
        covariance=covariance,
        clustered=None
        if cluster is None
        else _clustered(problem, coefficients, covariance, cluster),
        identified=basis,
        log_likelihood=problem.log_likelihood(coefficients),
        gradient=float(np.abs(problem.gradient(coefficients)).max()),
    )


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is fitted.

    Attributes:
        rows: Shape (m, p).
        won: Shape (m,).
        lost: Shape (m,).
        penalty: Shape (p,). Precision of the prior on each coefficient.
    """

    rows: Rows
    won: FloatArray
    lost: FloatArray
    penalty: FloatArray

    @property
    def played(self) -> FloatArray:
        return np.asarray(self.won + self.lost)

    def log_likelihood(self, coefficients: FloatArray) -> float:
        margin = self.rows @ coefficients
        return -float(self.won @ np.logaddexp(0, -margin) + self.lost @ np.logaddexp(0, margin))

    def penalised(self, coefficients: FloatArray) -> float:
        return self.log_likelihood(coefficients) - float(self.penalty @ coefficients**2) / 2

    def surplus(self, coefficients: FloatArray) -> FloatArray:
        """Shape (m,). Each row's wins beyond expectation."""
        margin = self.rows @ coefficients
        return np.asarray(self.won * expit(-margin) - self.lost * expit(margin))

    def gradient(self, coefficients: FloatArray) -> FloatArray:
        return np.asarray(self.rows.T @ self.surplus(coefficients) - self.penalty * coefficients)

    def information(self, coefficients: FloatArray) -> FloatArray:
        margin = self.rows @ coefficients
        weight = self.played * expit(margin) * expit(-margin)
        if isinstance(self.rows, csr_matrix):
            found = (self.rows.T @ diags(weight) @ self.rows).toarray()
        else:
            found = self.rows.T @ (weight[:, None] * self.rows)
        return np.asarray(found + np.diag(self.penalty))

    def basis(self) -> FloatArray:
        """Orthonormal columns spanning the directions that rows or prior speak of."""
        seen = self.rows[self.played > 0]
        squares = csr_matrix(seen.T @ seen).toarray()
        gram = squares + np.diag((self.penalty > 0).astype(float))
        values, vectors = np.linalg.eigh(gram)
        return np.asarray(vectors[:, values > _NULL * max(float(values.max(initial=0.0)), _LEAST)])

    def ascended(self, basis: FloatArray, start: FloatArray) -> FloatArray | None:
        """Coefficients where the gradient is as good as 0; None where they run away.

        Raises:
            ArithmeticError: If they do neither.
        """
        coefficients = basis @ (basis.T @ start)
        value = self.penalised(coefficients)
        limit = _TOLERANCE * max(1.0, float((abs(csr_matrix(self.rows)).T @ self.played).max()))
        for _ in range(_MAX_STEPS):
            gradient = basis.T @ self.gradient(coefficients)
            information = basis.T @ self.information(coefficients) @ basis
            step = basis @ _solved(information, gradient)
            coefficients, value = self._climbed(coefficients, step, value)
            if np.abs(self.rows @ coefficients).max() > _SUSPICIOUS and self.is_separated():
                return None
            left = float(np.abs(basis.T @ self.gradient(coefficients)).max())
            is_short = np.abs(step).max() <= _SHORT * max(1.0, np.abs(coefficients).max())
            if is_short and left <= limit:
                return coefficients
        raise ArithmeticError(f"The regression did not settle within {_MAX_STEPS} steps.")

    def _climbed(
        self, coefficients: FloatArray, step: FloatArray, value: float
    ) -> tuple[FloatArray, float]:
        """The longest halving of a step that does not lower the likelihood, rounding apart."""
        slack = _ROUNDING * max(1.0, abs(value))
        length = 1.0
        while length > _TOLERANCE:
            moved = coefficients + length * step
            reached = self.penalised(moved)
            if reached >= value - slack:
                return moved, reached
            length /= 2
        return coefficients + step, self.penalised(coefficients + step)

    def is_separated(self) -> bool:
        """Whether some direction, free of the prior, explains every row better the further it goes.

        A linear programme: a direction that no row speaks against, and at least one speaks for.
        """
        rows = csr_matrix(self.rows)
        winning, losing = rows[self.won > 0], rows[self.lost > 0]
        signed = vstack([winning, -losing]).tocsr()
        free = np.where(self.penalty > 0, 0.0, 1.0)
        # The stubs know of no sparse matrix, which HiGHS takes as it is.
        found = linprog(  # type: ignore[call-overload]
            -np.asarray(signed.sum(axis=0)).ravel(),
            A_ub=-signed,
            b_ub=np.zeros(signed.shape[0]),
            bounds=np.column_stack([-free, free]),
            method="highs",
        )
        return bool(found.status == 0 and -found.fun > _SEPARATES)


def _solved(information: FloatArray, gradient: FloatArray) -> FloatArray:
    try:
        return np.asarray(np.linalg.solve(information, gradient))
    except np.linalg.LinAlgError:
        # An information that has run out of digits still gives a direction.
        return np.asarray(np.linalg.lstsq(information, gradient, rcond=None)[0])


def _clustered(
    problem: _Problem, coefficients: FloatArray, covariance: FloatArray, cluster: NumberArray
) -> FloatArray | None:
    """The sandwich; None with fewer than two clusters."""
    speaks = problem.played > 0
    names, number = np.unique(cluster[speaks], return_inverse=True)
    if len(names) < 2:  # noqa: PLR2004 - one cluster varies by nothing
        return None
    surplus = problem.surplus(coefficients)[speaks]
    gather = csr_matrix((surplus, (number, np.arange(len(number)))))
    found = gather @ csr_matrix(problem.rows[speaks])
    mean = np.asarray(found.mean(axis=0)).ravel()
    square = (found.T @ found).toarray() - len(names) * np.outer(mean, mean)
    return np.asarray(covariance @ square @ covariance * (len(names) / (len(names) - 1)))
