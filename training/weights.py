"""How many rows a set of weights is worth."""

from policy.arrays import FloatArray


def effective_sample_size(weight: FloatArray) -> float:
    """Kish's effective sample size: (sum w)^2 / sum w^2; 0 where every weight is 0.

    Args:
        weight: Shape (n,), at least 0.
    """
    squares = float(weight @ weight)
    return float(weight.sum()) ** 2 / squares if squares > 0 else 0.0
