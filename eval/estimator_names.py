"""Estimators by the short names that commands and reports use, with their hyper-parameters.

`dr` stands alone; `switch-dr=10` carries a number, `mips=tone+length` the factors it weighs by.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from canopy.domain.errors import ConfigError

DEFAULTS: Final[dict[str, float]] = {
    "clipped": 10.0,
    "switch-dr": 10.0,
    "dros": 100.0,
    "sub-gaussian": 0.1,
}
"""Hyper-parameters where none is named: largest weight used, weight from which the model speaks,
shrinkage, and share of the harmonic mean."""

BY_FACTORS: Final = ("mips", "marginal-dr")
"""Estimators that weigh levels of named factors."""

NEEDS_MODEL: Final = ("dm", "dr", "sndr", "switch-dr", "dros", "marginal-dr")
"""Estimators that need a reward model."""

MODEL_ALONE: Final = "dm"
"""The estimator that uses no weights."""

KINDS: Final = ("ips", "snips", "dm", "dr", "sndr", *DEFAULTS, *BY_FACTORS)
"""Every kind of estimator."""

ESTIMATORS: Final = ("ips", "snips", "dm", "dr", "sndr", "switch-dr", "dros")
"""What is reported unless told."""

_OPTION: Final = "--estimators"
_LARGEST_SHARE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Named:
    """One estimator as it was asked for.

    Attributes:
        name: As asked for, and as verdicts call it.
        kind: One of `KINDS`.
        parameter: Its hyper-parameter; None where it has none.
        factors: Factors it weighs by; empty where it weighs plans.
    """

    name: str
    kind: str
    parameter: float | None = None
    factors: tuple[str, ...] = ()

    @property
    def needs_model(self) -> bool:
        """Whether it needs a reward model."""
        return self.kind in NEEDS_MODEL


def parse_estimators(names: Iterable[str]) -> tuple[Named, ...]:
    """Estimators from their short names.

    Args:
        names: Such as `ips`, `switch-dr=5`, `mips=tone+length`.

    Raises:
        ConfigError: If there is no such estimator, its parameter is missing, superfluous or out
            of range, or one is named twice.
    """
    found = tuple(_parsed(name) for name in names)
    if not found or len({one.name for one in found}) < len(found):
        raise ConfigError(_OPTION, "expected each name once.", f"There are: {', '.join(KINDS)}.")
    return found


def _parsed(text: str) -> Named:
    kind, has_value, value = text.partition("=")
    if kind not in KINDS:
        raise ConfigError(_OPTION, f"knows no {kind!r}.", f"There are: {', '.join(KINDS)}.")
    if kind in BY_FACTORS:
        factors = tuple(part.strip() for part in value.split("+") if part.strip())
        if not factors:
            raise ConfigError(
                _OPTION, f"{kind} weighs levels of factors, and none is named.",
                f"Write {kind}=FACTOR or {kind}=FACTOR+FACTOR.",
            )  # fmt: skip
        return Named(text, kind, factors=factors)
    if kind not in DEFAULTS:
        if has_value:
            raise ConfigError(_OPTION, f"{kind} has no parameter.", f"Write {kind}.")
        return Named(text, kind)
    return Named(text, kind, _parameter(kind, value) if has_value else DEFAULTS[kind])


def _parameter(kind: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    most = _LARGEST_SHARE if kind == "sub-gaussian" else float("inf")
    if not 0 <= value <= most:
        limits = "from 0 to 1" if most == _LARGEST_SHARE else "of at least 0"
        raise ConfigError(
            _OPTION,
            f"{kind}={text}: expected a number {limits}.",
            f"Such as {kind}={DEFAULTS[kind]:g}.",
        )
    return value
