"""Coefficients by the short names that gate files and commands use."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from canopy.domain.errors import NotFoundError
from eval.agreement.coefficients import Coefficient
from eval.agreement.krippendorff import METRICS, alpha_coefficient
from eval.agreement.many_raters import fleiss_coefficient, gwet_coefficient
from eval.agreement.two_raters import kappa_coefficient

_BUILDERS: Final[dict[str, Callable[[Iterable[Any]], Coefficient]]] = {
    "kappa": kappa_coefficient,
    "kappa-linear": partial(kappa_coefficient, weights="linear"),
    "kappa-quadratic": partial(kappa_coefficient, weights="quadratic"),
    "ac1": gwet_coefficient,
    "ac2": partial(gwet_coefficient, weights="quadratic"),
    "ac2-linear": partial(gwet_coefficient, weights="linear"),
    "fleiss": fleiss_coefficient,
    **{f"alpha-{metric}": partial(alpha_coefficient, metric=metric) for metric in METRICS},
}

COEFFICIENTS: Final = tuple(_BUILDERS)
"""Short names of the coefficients; `ac2` has quadratic weights."""


def coefficient_named(name: str, scale: Iterable[Any]) -> Coefficient:
    """A coefficient on a scale, to call on ratings or to resample.

    Args:
        name: One of `COEFFICIENTS`.
        scale: The whole label domain, in order.

    Raises:
        NotFoundError: If there is no such coefficient.
        InputError: If the scale does not suit it.
    """
    builder = _BUILDERS.get(name)
    if builder is None:
        raise NotFoundError("coefficient", name, f"Use one of {', '.join(COEFFICIENTS)}.")
    return builder(scale)
