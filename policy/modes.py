"""Arms of a canary, and which changes of a candidate's mode are legal.

Raising a mode is promotion and needs the gate; lowering one needs a reason only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from canopy.domain.decision import Arm, Mode
from canopy.domain.errors import InputError, RangeError
from canopy.domain.ids import unit_fraction

LONGEST_SALT: Final = 64
"""Bytes of a salt that the hash takes as its key."""


class Change(StrEnum):
    """What a change of a candidate's mode is."""

    RAISE = "raise"
    """Promotion: the gate of the new mode must pass."""
    LOWER = "lower"
    """Less exposure: a reason is enough."""
    STAY = "stay"
    """Nothing changes."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A legal change of mode.

    Attributes:
        change: Up, down, or none.
        gate: Name of the gate that must pass; None where none is asked.
        needs_reason: True if somebody must say why.
    """

    change: Change
    gate: str | None
    needs_reason: bool


_LADDER: Final[tuple[Mode | None, ...]] = (None, Mode.OBSERVATION, Mode.CANARY, Mode.ON)


def _between(rung: int, target: int) -> Transition:
    if target > rung:
        return Transition(Change.RAISE, str(_LADDER[target]), needs_reason=True)
    if target < rung:
        return Transition(Change.LOWER, None, needs_reason=True)
    return Transition(Change.STAY, None, needs_reason=False)


TRANSITIONS: Final[Mapping[tuple[Mode | None, Mode | None], Transition]] = MappingProxyType({
    (current, target): _between(rung, step)
    for rung, current in enumerate(_LADDER)
    for step, target in enumerate(_LADDER)
})
"""Every change of a candidate's mode; None is a policy that is not a candidate (yet, or any
more). A rung may be skipped: the gate above asks for the evidence of those below."""


def transition(current: Mode | None, target: Mode | None) -> Transition:
    """What a change from one mode to another is, and what it asks for."""
    return TRANSITIONS[current, target]


def assign_arm(unit_id: str, salt: str, share: float) -> Arm:
    """The arm of a unit: treatment for a stable share of all units.

    A unit keeps its own number, so that a growing share only ever moves units from control to
    treatment, and a canary with another salt starts from an independent assignment.

    Args:
        unit_id: Whom the assignment is for.
        salt: Name of this canary, at most 64 bytes.
        share: Share of treatment, from 0 to 1.

    Returns:
        The arm.

    Raises:
        InputError: If the salt is too long.
        RangeError: If the share lies outside [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise RangeError("share", None, share, "a share from 0 to 1")
    if len(salt.encode()) > LONGEST_SALT:
        raise InputError("salt", f"is longer than {LONGEST_SALT} bytes.", "Pass a shorter one.")
    return Arm.TREATMENT if unit_fraction(unit_id, salt) < share else Arm.CONTROL
