"""How far apart two labels of an ordered scale are, for weighted kappa and AC2."""

from typing import Literal

import numpy as np

from canopy.domain.errors import InputError
from policy.arrays import FloatArray

Weights = Literal["linear", "quadratic", "bipolar"]


def steps(weights: Weights | None, n_labels: int) -> FloatArray:
    """Disagreement of each pair of labels, in whole numbers where the weights allow it.

    Whole numbers keep sums exact, so that a constant judge gets a kappa of 0 and not of 1e-17.

    Args:
        weights: None counts every disagreement alike; `linear` counts the steps between two
            labels, `quadratic` their square, `bipolar` weighs a step more near the ends.
        n_labels: Labels of the whole scale, at least 2.

    Returns:
        Shape (n_labels, n_labels), 0 on the diagonal; the largest entry stands for no agreement
        at all.

    Raises:
        InputError: If there are no weights of that name.

    Source:
        Cohen, Weighted Kappa, Psychological Bulletin 1968; Gwet, Handbook of Inter-Rater
        Reliability, 4th ed., 2014, for bipolar weights.
    """
    place = np.arange(n_labels, dtype=np.float64)
    apart = np.abs(place[:, None] - place)
    if weights is None:
        return (apart > 0).astype(np.float64)
    if weights == "linear":
        return apart
    if weights == "quadratic":
        return apart**2
    if weights == "bipolar":
        total = place[:, None] + place
        room = total * (2 * place[-1] - total)
        unequal = np.divide(apart**2, room, out=np.zeros_like(room), where=apart > 0)
        return np.asarray(unequal / unequal.max())
    raise InputError(
        "weights", f"there are none named {weights!r}.", "Use None, linear, quadratic or bipolar."
    )


def shares(weights: Weights | None, n_labels: int) -> FloatArray:
    """Disagreement of each pair of labels as a share of the largest, in [0, 1].

    Args:
        weights: As for `steps`.
        n_labels: As for `steps`.

    Raises:
        InputError: As for `steps`.
    """
    table = steps(weights, n_labels)
    return np.asarray(table / table.max())
