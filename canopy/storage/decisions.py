"""The decisions: inserted whole, looked up, exported as a log."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Row, Select, func, lateral, select, true, update
from sqlalchemy.dialects.postgresql import insert

from canopy.domain.decision import Arm, Mode
from canopy.domain.episode import PRIMARY_METRIC, EpisodeKind
from canopy.domain.errors import RequestConflictError
from canopy.storage.importing import copy_rows
from canopy.storage.insertion import insert_rows
from canopy.storage.rows import CorrectionRow, DecisionRow, ExportRow, ImportRow
from canopy.storage.tables import corrections, decisions, outcomes, requests

EXPORT_CHUNK: Final = 2_000
"""Rows held at a time while exporting."""

_COLUMNS = [decisions.c[name] for name in DecisionRow.__dataclass_fields__]
_EXPORTED = [decisions.c[name] for name in ExportRow.__dataclass_fields__ if name != "reward"]


class Decisions:
    """The tenant's decisions; no other tenant's is ever seen."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def get(self, decision_id: UUID) -> DecisionRow | None:
        """The decision, or None."""
        return self._one(decisions.c.decision_id == decision_id)

    def by_request(self, request_id: str) -> DecisionRow | None:
        """The decision that answered a request, or None."""
        row = self._connection.execute(
            select(requests.c.decision_id, requests.c.decided_at).where(
                requests.c.tenant_id == self._tenant, requests.c.request_id == request_id
            )
        ).first()
        if row is None:
            return None
        return self._one(
            decisions.c.decision_id == row.decision_id, decisions.c.decided_at == row.decided_at
        )

    def insert_many(self, rows: Sequence[DecisionRow]) -> int:
        """Record decisions; those whose request was answered before are left as they stand.

        Returns:
            How many are new.

        Raises:
            RequestConflictError: If a request was answered before for another body.
            InputError: If a row belongs to another tenant or cannot be stored.
        """
        written = insert_rows(self._connection, self._tenant, rows)
        for row, now_standing in zip(rows, written, strict=True):
            if row.request_id is not None and now_standing.body_hash != row.body_hash:
                raise RequestConflictError(row.request_id)
        return sum(one.is_new for one in written)

    def mark_not_served(self, decision_id: UUID, plan: str) -> bool:
        """Take a decision's propensity back: its caller served something that was not drawn.

        Args:
            decision_id: The decision.
            plan: What was served; kept beside, once per plan.

        Returns:
            False if the tenant has no such decision.
        """
        changed = self._connection.execute(
            update(decisions)
            .where(decisions.c.tenant_id == self._tenant, decisions.c.decision_id == decision_id)
            .values(propensity=None, served=False)
        )
        if not changed.rowcount:
            return False
        self._connection.execute(
            insert(corrections)
            .values(tenant_id=self._tenant, decision_id=decision_id, plan=plan)
            .on_conflict_do_nothing()
        )
        return True

    def corrections(self, decision_id: UUID) -> list[CorrectionRow]:
        """What the caller said it served instead, oldest first."""
        rows = self._connection.execute(
            select(corrections.c.decision_id, corrections.c.plan, corrections.c.reported_at)
            .where(corrections.c.tenant_id == self._tenant)
            .where(corrections.c.decision_id == decision_id)
            .order_by(corrections.c.reported_at, corrections.c.plan)
        )
        return [CorrectionRow(**row._asdict()) for row in rows]

    def count_by_plan(
        self, discipline: str, *, kinds: Sequence[EpisodeKind] | None = None
    ) -> dict[str, int]:
        """How many logged decisions of a discipline gave each plan, by plan id."""
        query = self._filtered(
            select(decisions.c.plan, func.count().label("n")), discipline, kinds, reserved=None
        ).group_by(decisions.c.plan)
        return {row.plan: row.n for row in self._connection.execute(query)}

    def import_rows(self, rows: Iterable[ImportRow | DecisionRow]) -> int:
        """Copy somebody's log in, with its rewards as final outcomes: all of it or nothing.

        Args:
            rows: Decisions, or decisions with rewards; read once, held by the server.

        Returns:
            How many decisions came in.

        Raises:
            LogError: If a decision id comes twice or is there already, or a row cannot be
                stored; names the row, counted from 1.
        """
        return copy_rows(self._connection, self._tenant, rows)

    def export(
        self,
        discipline: str,
        *,
        kinds: Sequence[EpisodeKind] | None = None,
        reserved: bool | None = None,
        metric: str = PRIMARY_METRIC,
    ) -> Iterator[ExportRow]:
        """The episodes of a discipline in the order of time, held a chunk at a time.

        Args:
            discipline: The craft.
            kinds: Kinds to give; None for all.
            reserved: Only units of the reserve, or only the others; None for both.
            metric: Outcome that becomes the reward: its newest final measurement.
        """
        newest = lateral(
            select(outcomes.c.value)
            .where(
                outcomes.c.tenant_id == decisions.c.tenant_id,
                outcomes.c.decision_id == decisions.c.decision_id,
                outcomes.c.metric == metric,
                outcomes.c.final,
            )
            .order_by(outcomes.c.observed_at.desc(), outcomes.c.recorded_at.desc())
            .limit(1)
        ).alias("newest")
        query = self._filtered(
            select(*_EXPORTED, newest.c.value.label("reward")).select_from(
                decisions.outerjoin(newest, true())
            ),
            discipline,
            kinds,
            reserved=reserved,
        ).order_by(decisions.c.decided_at, decisions.c.decision_id)
        rows = self._connection.execution_options(yield_per=EXPORT_CHUNK).execute(query)
        for row in rows:
            yield ExportRow(**row._asdict() | {"kind": EpisodeKind(row.kind)})

    def count(
        self,
        discipline: str | None = None,
        *,
        kinds: Sequence[EpisodeKind] | None = None,
        reserved: bool | None = None,
    ) -> int:
        """How many decisions there are; arguments as in `export`, None for every discipline."""
        query = self._filtered(
            select(func.count()).select_from(decisions), discipline, kinds, reserved=reserved
        )
        return self._connection.scalar(query) or 0

    def _filtered(
        self,
        query: Select[Any],
        discipline: str | None,
        kinds: Sequence[EpisodeKind] | None,
        *,
        reserved: bool | None,
    ) -> Select[Any]:
        query = query.where(decisions.c.tenant_id == self._tenant)
        if discipline is not None:
            query = query.where(decisions.c.discipline == discipline)
        if kinds is not None:
            query = query.where(decisions.c.kind.in_([kind.value for kind in kinds]))
        if reserved is not None:
            query = query.where(decisions.c.reserved.is_(reserved))
        return query

    def _one(self, *conditions: ColumnElement[bool]) -> DecisionRow | None:
        row = self._connection.execute(
            select(*_COLUMNS).where(decisions.c.tenant_id == self._tenant, *conditions).limit(1)
        ).first()
        return None if row is None else _decision(row)


def _decision(row: Row[Any]) -> DecisionRow:
    typed = {
        "kind": EpisodeKind(row.kind),
        "mode": None if row.mode is None else Mode(row.mode),
        "arm": None if row.arm is None else Arm(row.arm),
        "reasons": tuple(row.reasons),
    }
    return DecisionRow(**row._asdict() | typed)
