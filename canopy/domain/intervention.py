"""Interventions: what a person imposes on every selection until it is taken back."""

from enum import StrEnum
from typing import Final

EVERY_DISCIPLINE: Final = ""
"""Stands for all disciplines of an owner; only a stop may have it."""


class InterventionKind(StrEnum):
    """What is imposed."""

    STOP = "stop"
    """Kill switch: the default plan is served, and nothing is drawn."""
    PIN = "pin"
    """One plan is served to everybody, and nothing is drawn."""
