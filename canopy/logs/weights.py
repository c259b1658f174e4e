"""What importance weights are worth: the one rule that training, evidence and statistics share."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]


def effective_sample_size(weight: FloatArray) -> float:
    """How many equally weighted rows the weights are worth: `sum(w)^2 / sum(w^2)`.

    Args:
        weight: Shape (n,), at least 0.

    Returns:
        Between 0 (no weight at all) and n.

    Source:
        Kish, Survey Sampling, 1965.
    """
    largest = weight.max(initial=0.0)
    if largest == 0:
        return 0.0
    # Scaled first: squares of weights like 1e200 would overflow.
    scaled = weight / largest
    return float(scaled.sum() ** 2 / np.square(scaled).sum())
