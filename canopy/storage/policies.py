"""Policy artifacts, whole; a tenant reads its own and the fleet's."""

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from canopy.domain.errors import NotFoundError
from canopy.storage.rows import PolicyRow, PolicySummary
from canopy.storage.tables import policies

_SUMMARY = [policies.c[name] for name in PolicySummary.__dataclass_fields__]
_WHOLE = [policies.c[name] for name in PolicyRow.__dataclass_fields__]


class Policies:
    """Policy artifacts by content id."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def put(self, row: PolicyRow) -> None:
        """Store an artifact; one already there is the same by its id."""
        statement = insert(policies).values(
            tenant_id=self._tenant,
            policy_id=row.policy_id,
            discipline=row.discipline,
            catalog_hash=row.catalog_hash,
            feature_hash=row.feature_hash,
            manifest=dict(row.manifest),
            archive=row.archive,
        )
        self._connection.execute(statement.on_conflict_do_nothing())

    def get(self, policy_id_or_prefix: str) -> PolicyRow:
        """The artifact with that id, or the only one whose id starts so.

        Raises:
            NotFoundError: If there is none, or more than one.
        """
        starts_so = policies.c.policy_id.startswith(policy_id_or_prefix, autoescape=True)
        found = self._connection.execute(
            select(policies.c.policy_id).where(starts_so).distinct().limit(3)
        ).scalars()
        ids = list(found)
        if policy_id_or_prefix in ids:
            ids = [policy_id_or_prefix]
        if len(ids) != 1 or not policy_id_or_prefix:
            remedy = "Give more of its id." if ids else "See `canopy policy list`."
            raise NotFoundError("policy", policy_id_or_prefix, remedy)
        own_first = (policies.c.tenant_id == self._tenant).desc()
        row = self._connection.execute(
            select(*_WHOLE).where(policies.c.policy_id == ids[0]).order_by(own_first).limit(1)
        ).one()
        return PolicyRow(**row._asdict())

    def list(self, discipline: str | None = None) -> list[PolicySummary]:
        """Stored policies, newest first, without their archives."""
        query = select(*_SUMMARY).order_by(policies.c.created_at.desc(), policies.c.policy_id)
        if discipline is not None:
            query = query.where(policies.c.discipline == discipline)
        rows = self._connection.execute(query)
        return [PolicySummary(**row._asdict()) for row in rows]
