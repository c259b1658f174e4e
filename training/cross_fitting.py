"""Predictions for rows by models that saw none of their units."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from canopy.domain.errors import LogError
from policy.arrays import BoolArray, FloatArray, IntArray

FitPredict: TypeAlias = Callable[[BoolArray], tuple[FloatArray, FloatArray]]
"""Fits on the training rows of a mask; predicts all training rows and all validation rows."""


def cross_fitted(
    fit_predict: FitPredict, fold: IntArray, n_folds: int
) -> tuple[FloatArray, FloatArray]:
    """Out-of-fold predictions.

    Args:
        fit_predict: See `FitPredict`.
        fold: Shape (n_train,). Fold of each training row; a unit is in one fold.
        n_folds: How many there are.

    Returns:
        Shape (n_train,): each row by the model that did not see its fold. Shape
        (n_validation,): the mean of all models, none of which saw these units.

    Raises:
        LogError: If all rows are in one fold, so that nothing is left to fit on.
    """
    train = np.empty(len(fold))
    validation: list[FloatArray] = []
    for number in range(n_folds):
        held_out = fold == number
        if not held_out.any():
            continue
        if held_out.all():
            raise LogError(
                "log", f"all {len(fold)} training rows are in one fold.", "Train on more units."
            )
        predicted, beyond = fit_predict(~held_out)
        train[held_out] = predicted[held_out]
        validation.append(beyond)
    return train, np.mean(validation, axis=0)


def ridge(
    features: FloatArray, reward: FloatArray, row_weight: FloatArray, l2: float
) -> FloatArray:
    """Weighted ridge regression with a free intercept.

    Args:
        features: Shape (n, d).
        reward: Shape (n,).
        row_weight: Shape (n,), at least 0, not all 0.
        l2: Penalty on the slopes, above 0, so that columns that say the same do no harm.

    Returns:
        Shape (d + 1,): slopes, then the intercept.
    """
    total = row_weight.sum()
    centre = row_weight @ features / total
    middle = float(row_weight @ reward / total)
    centred = features - centre
    weighted = centred * row_weight[:, None]
    gram = weighted.T @ centred
    gram[np.diag_indices_from(gram)] += l2
    slopes = np.linalg.solve(gram, weighted.T @ (reward - middle))
    return np.append(slopes, middle - centre @ slopes)
