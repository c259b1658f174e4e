"""How much a judge favours a side, whatever stands there."""

from dataclasses import dataclass
from math import log, sqrt

from scipy.special import bdtr
from scipy.stats import norm

from canopy.domain.errors import RangeError


@dataclass(frozen=True, slots=True)
class OrderBias:
    """A judge's pull towards the side shown first.

    Attributes:
        b: On the scale of scores: the side shown first wins with odds e^b higher; above 0 it
            favours the first side.
        std_err: Its standard error.
        p_value: Exact and two-sided, against no bias; None without a pair in which a side won
            twice.
        interval: Normal interval of `b` at `level`.
        level: Its coverage.
    """

    b: float
    std_err: float
    p_value: float | None
    interval: tuple[float, float]
    level: float


def order_bias(first_both: int, second_both: int, *, level: float = 0.95) -> OrderBias:
    """Order bias from pairs judged in both orders; the items' strengths cancel exactly.

    Args:
        first_both: Pairs in which the side shown first won in both orders.
        second_both: Pairs in which the side shown second did.
        level: Coverage of the interval, between 0 and 1.

    Returns:
        The bias, if the two verdicts of a pair are independent given the pair; read it as a
        diagnostic of judges that repeat themselves.

    Raises:
        RangeError: If a count is negative or the level is none.
    """
    for name, count in (("first_both", first_both), ("second_both", second_both)):
        if count < 0:
            raise RangeError(name, None, count, "a count of at least 0")
    if not 0 < level < 1:
        raise RangeError("level", None, level, "a coverage between 0 and 1")
    first, second = first_both + 0.5, second_both + 0.5
    b, std_err = log(first / second) / 2, sqrt(1 / first + 1 / second) / 2
    n = first_both + second_both
    p_value = None
    if n:
        tail = float(bdtr(min(first_both, second_both), n, 0.5))
        p_value = min(1.0, 2 * tail)
    half = float(norm.ppf((1 + level) / 2)) * std_err
    return OrderBias(b, std_err, p_value, (b - half, b + half), level)
