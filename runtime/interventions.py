"""Stops and pins as one process holds them: looked up without a lock, replaced owner by owner."""

from collections.abc import Iterable
from typing import NamedTuple

from canopy.domain.intervention import EVERY_DISCIPLINE, InterventionKind
from canopy.domain.tenant import FLEET
from canopy.storage.control_rows import InterventionRow


class Imposed(NamedTuple):
    """What people impose on a selection.

    Attributes:
        is_stopped: True if a kill switch is set: nothing is drawn.
        pin: The plan that a pin imposes; None without one.
    """

    is_stopped: bool = False
    pin: str | None = None


NOTHING_IMPOSED = Imposed()


class Interventions:
    """What is imposed now.

    Readers take a few looks into plain values; whoever refreshes puts a new value in by one
    assignment.
    """

    def __init__(self) -> None:
        self._stops: frozenset[tuple[str, str]] = frozenset()
        self._pins: dict[tuple[str, str], str] = {}

    def on(self, tenant: str, discipline: str) -> Imposed:
        """What is imposed on a tenant's selections of a discipline; its own pin wins."""
        stops, pins = self._stops, self._pins
        if not stops and not pins:
            return NOTHING_IMPOSED
        is_stopped = (
            (FLEET, EVERY_DISCIPLINE) in stops
            or (FLEET, discipline) in stops
            or (tenant, EVERY_DISCIPLINE) in stops
            or (tenant, discipline) in stops
        )
        pin = pins.get((tenant, discipline)) or pins.get((FLEET, discipline))
        return Imposed(is_stopped, pin)

    def replace(self, owner: str, standing: Iterable[InterventionRow]) -> None:
        """Hold what an owner imposes now instead of what it imposed before.

        Args:
            owner: A tenant, or the fleet.
            standing: Interventions that are on; those of other owners are passed over.
        """
        own = [row for row in standing if row.tenant_id == owner]
        others = {key for key in self._stops if key[0] != owner}
        stops = [row.discipline for row in own if row.kind is InterventionKind.STOP]
        self._stops = frozenset(others | {(owner, discipline) for discipline in stops})
        self._pins = {key: plan for key, plan in self._pins.items() if key[0] != owner} | {
            (owner, row.discipline): row.plan for row in own if row.plan is not None
        }
