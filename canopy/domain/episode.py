"""Episodes: a decision with what became of it. Kinds are told apart for ever."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from canopy.domain.ids import unit_fraction

RESERVE_SHARE: Final = 0.2
"""Share of units kept back for backtests; no training reads them."""

RESERVE_SALT: Final = "canopy.reserve.v1"

PRIMARY_METRIC: Final = "reward"
"""The metric that trains and evaluates where a discipline names no other."""


class EpisodeKind(StrEnum):
    """Where an episode came from."""

    REAL = "real"
    """Served here to a real caller: never removed."""
    SYNTHETIC = "synthetic"
    """Generated from a known world: retention may drop it."""
    IMPORTED = "imported"
    """Served elsewhere, read from somebody's log."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One measurement of what a decision led to.

    Attributes:
        metric: Name of what was measured.
        value: The measurement; None where it was looked for and could not be measured.
        observed_at: When it was observed, aware.
        unit: Unit of `value`; None for a plain number.
        window: The time after the decision that the measurement covers, in days; None if open.
        final: No later measurement of this metric will come.
    """

    metric: str
    value: float | None
    observed_at: datetime
    unit: str | None = None
    window: float | None = None
    final: bool = True


def is_reserved(unit_id: str) -> bool:
    """True if the unit belongs to the reserve: evidence may use it, training may not."""
    return unit_fraction(unit_id, RESERVE_SALT) < RESERVE_SHARE
