"""Stops and pins as one process holds them: looked up without a lock, replaced owner by owner."""

from collections.abc import Iterable, Mapping
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


class _Standing(NamedTuple):
    """What one owner imposes: the disciplines it stopped, and its pins by discipline."""

    stops: frozenset[str]
    pins: Mapping[str, str]

    def stops_draws_of(self, discipline: str) -> bool:
        return EVERY_DISCIPLINE in self.stops or discipline in self.stops


_NOTHING_STANDS = _Standing(frozenset(), {})


class Interventions:
    """What is imposed now.

    Readers take two looks into a plain dict; whoever refreshes puts an owner's new value in by
    one assignment, so that its cost does not grow with the number of owners.
    """

    def __init__(self) -> None:
        self._by_owner: dict[str, _Standing] = {}

    def on(self, tenant: str, discipline: str) -> Imposed:
        """What is imposed on a tenant's selections of a discipline; its own pin wins."""
        fleet, own = self._by_owner.get(FLEET), self._by_owner.get(tenant)
        if fleet is None and own is None:
            return NOTHING_IMPOSED
        fleet, own = fleet or _NOTHING_STANDS, own or _NOTHING_STANDS
        return Imposed(
            is_stopped=fleet.stops_draws_of(discipline) or own.stops_draws_of(discipline),
            pin=own.pins.get(discipline) or fleet.pins.get(discipline),
        )

    def pins_of(self, owner: str) -> Mapping[str, str]:
        """The plans that an owner pins, by discipline."""
        return self._by_owner.get(owner, _NOTHING_STANDS).pins

    def replace(self, owner: str, standing: Iterable[InterventionRow]) -> None:
        """Hold what an owner imposes now instead of what it imposed before.

        Args:
            owner: A tenant, or the fleet.
            standing: Interventions that are on; those of other owners are passed over.
        """
        own = [row for row in standing if row.tenant_id == owner]
        if not own:
            self._by_owner.pop(owner, None)
            return
        self._by_owner[owner] = _Standing(
            stops=frozenset(row.discipline for row in own if row.kind is InterventionKind.STOP),
            pins={row.discipline: row.plan for row in own if row.plan is not None},
        )
