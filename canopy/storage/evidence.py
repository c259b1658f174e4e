"""Evidence about policies, by content id; a tenant reads its own and the fleet's."""

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from canopy.storage.rows import EvidenceRow
from canopy.storage.tables import evidence

_COLUMNS = [evidence.c[name] for name in EvidenceRow.__dataclass_fields__]


class EvidenceRecord:
    """What was found about policies."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def put(self, row: EvidenceRow) -> None:
        """Store evidence; the same evidence again changes nothing."""
        statement = insert(evidence).values(
            tenant_id=self._tenant,
            evidence_id=row.evidence_id,
            policy_id=row.policy_id,
            tier=row.tier,
            status=row.status,
            document=dict(row.document),
            created_at=row.created_at,
        )
        self._connection.execute(statement.on_conflict_do_nothing())

    def for_policy(self, policy_id: str) -> list[EvidenceRow]:
        """All evidence about a policy, oldest first; the tenant's and the fleet's."""
        rows = self._connection.execute(
            select(*_COLUMNS)
            .where(evidence.c.policy_id == policy_id)
            .order_by(evidence.c.created_at, evidence.c.evidence_id)
        )
        # Own and fleet may hold the same content: it is one piece of evidence.
        found = {row.evidence_id: EvidenceRow(**row._asdict()) for row in rows}
        return list(found.values())
