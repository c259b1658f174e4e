"""What people impose on selections: stops and pins, appended to and never rewritten."""

from typing import Any

from sqlalchemy import Connection, Row, func, insert, select
from sqlalchemy.dialects.postgresql import distinct_on

from canopy.domain.errors import InputError
from canopy.domain.intervention import EVERY_DISCIPLINE, InterventionKind
from canopy.storage.control_rows import InterventionRow
from canopy.storage.tables import interventions

_COLUMNS = [interventions.c[name] for name in InterventionRow.__dataclass_fields__]


class Interventions:
    """Stops and pins of a tenant; the fleet's are seen by everybody."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def set_stop(self, discipline: str, *, is_on: bool, actor: str, reason: str) -> InterventionRow:
        """Stop a craft's draws, or let them go on; every process is told at commit.

        Args:
            discipline: The craft; `EVERY_DISCIPLINE` for all of the tenant's.
            is_on: True stops, False resumes.
            actor: Who does it.
            reason: Why, in words.

        Returns:
            The row that stands now; the one before where nothing changes.

        Raises:
            InputError: If the reason is blank.
        """
        return self._set(InterventionKind.STOP, discipline, is_on, None, actor, reason)

    def set_pin(
        self, discipline: str, *, plan: str | None, actor: str, reason: str
    ) -> InterventionRow:
        """Serve one plan to everybody, or draw again; every process is told at commit.

        Args:
            discipline: The craft.
            plan: The plan; None takes the pin back.
            actor: Who does it.
            reason: Why, in words.

        Returns:
            The row that stands now; the one before where nothing changes.

        Raises:
            InputError: If the reason is blank, or no craft is named.
        """
        if discipline == EVERY_DISCIPLINE:
            raise InputError(
                "pin", "no discipline is named.", "A plan belongs to one discipline: name it."
            )
        return self._set(InterventionKind.PIN, discipline, plan is not None, plan, actor, reason)

    def standing(self) -> list[InterventionRow]:
        """What is imposed now, the tenant's own and the fleet's, by owner and craft."""
        key = (interventions.c.tenant_id, interventions.c.discipline, interventions.c.kind)
        newest = (
            select(*_COLUMNS).ext(distinct_on(*key)).order_by(*key, interventions.c.version.desc())
        )
        rows = [_row(row) for row in self._connection.execute(newest)]
        return [row for row in rows if row.is_on]

    def history(self, discipline: str | None = None) -> list[InterventionRow]:
        """Every change, oldest first, the tenant's own and the fleet's; None for every craft."""
        query = select(*_COLUMNS).order_by(interventions.c.created_at, interventions.c.version)
        if discipline is not None:
            query = query.where(interventions.c.discipline.in_([discipline, EVERY_DISCIPLINE]))
        return [_row(row) for row in self._connection.execute(query)]

    def _set(
        self,
        kind: InterventionKind,
        discipline: str,
        is_on: bool,  # noqa: FBT001 - named by both callers above
        plan: str | None,
        actor: str,
        reason: str,
    ) -> InterventionRow:
        if not reason.strip():
            raise InputError(str(kind), "the reason is blank.", "Say why in a few words.")
        # There may be no row yet, so the lock is on the name.
        name = f"canopy.{kind}:{self._tenant}:{discipline}"
        self._connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
        table = interventions
        found = self._connection.execute(
            select(*_COLUMNS)
            .where(table.c.tenant_id == self._tenant, table.c.discipline == discipline)
            .where(table.c.kind == kind.value)
            .order_by(table.c.version.desc())
            .limit(1)
        ).first()
        before = None if found is None else _row(found)
        if before is not None and (before.is_on, before.plan) == (is_on, plan):
            return before
        made = self._connection.execute(
            insert(table)
            .values(
                tenant_id=self._tenant,
                discipline=discipline,
                kind=kind.value,
                version=1 if before is None else before.version + 1,
                is_on=is_on,
                plan=plan,
                actor=actor,
                reason=reason,
            )
            .returning(*_COLUMNS)
        ).one()
        return _row(made)


def _row(row: Row[Any]) -> InterventionRow:
    return InterventionRow(**row._asdict() | {"kind": InterventionKind(row.kind)})
