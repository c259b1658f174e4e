"""What became of decisions: measurements, only ever added to."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from canopy.domain.episode import Outcome
from canopy.domain.errors import InputError, NotFoundError
from canopy.domain.ids import canonical_json, content_hash
from canopy.storage.rows import OutcomeRow
from canopy.storage.tables import decisions, outcomes


class Outcomes:
    """Measurements of decisions; late, in parts, or never."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def add(self, decision_id: UUID, outcome: Outcome) -> bool:
        """Record a measurement.

        Returns:
            False if exactly this measurement was recorded before.

        Raises:
            NotFoundError: If the tenant has no such decision.
            InputError: If the measurement is NaN or infinite, or its time is not aware.
        """
        known = self._connection.execute(
            select(decisions.c.decision_id)
            .where(decisions.c.tenant_id == self._tenant, decisions.c.decision_id == decision_id)
            .limit(1)
        ).first()
        if known is None:
            raise NotFoundError("decision", str(decision_id), "Check the id and the tenant.")
        statement = (
            insert(outcomes)
            .values(tenant_id=self._tenant, **outcome_values(decision_id, outcome))
            .on_conflict_do_nothing()
            .returning(outcomes.c.outcome_id)
        )
        return self._connection.execute(statement).first() is not None

    def of(self, decision_id: UUID) -> list[OutcomeRow]:
        """Every measurement of a decision, in the order of observation."""
        table = outcomes
        rows = self._connection.execute(
            select(
                table.c.decision_id,
                table.c.metric,
                table.c.value,
                table.c.unit,
                table.c.window_days.label("window"),
                table.c.observed_at,
                table.c.final,
                table.c.recorded_at,
            )
            .where(table.c.tenant_id == self._tenant, table.c.decision_id == decision_id)
            .order_by(table.c.observed_at, table.c.recorded_at, table.c.outcome_id)
        )
        return [OutcomeRow(**row._asdict()) for row in rows]


def outcome_values(decision_id: UUID, outcome: Outcome) -> dict[str, Any]:
    """The columns of an outcome but the tenant, with its identity by content.

    Raises:
        InputError: If the measurement is NaN or infinite, or its time is not aware.
    """
    _require_aware(outcome.observed_at)
    try:
        identity = canonical_json([
            str(decision_id),
            outcome.metric,
            outcome.value,
            outcome.unit,
            outcome.window,
            outcome.observed_at.timestamp(),
            outcome.final,
        ])
    except ValueError as error:
        raise InputError(
            f"outcome {outcome.metric!r} of {decision_id}",
            f"expected a finite value, got {outcome.value}.",
            "Leave the value out where nothing was measured.",
        ) from error
    return {
        "outcome_id": UUID(content_hash(identity)),
        "decision_id": decision_id,
        "metric": outcome.metric,
        "value": outcome.value,
        "unit": outcome.unit,
        "window_days": outcome.window,
        "observed_at": outcome.observed_at,
        "final": outcome.final,
    }


def _require_aware(moment: datetime) -> None:
    if moment.tzinfo is None:
        raise InputError("observed_at", f"{moment} has no time zone.", "Send an aware time.")
