"""Catalogs by content hash; a tenant reads its own and the fleet's."""

from sqlalchemy import Connection, Select, select
from sqlalchemy.dialects.postgresql import insert

from canopy.domain.errors import NotFoundError
from canopy.storage.rows import CatalogRow
from canopy.storage.tables import catalogs


class Catalogs:
    """Versions of plan catalogs."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def put(self, catalog_hash: str, discipline: str, version: str, text: str) -> None:
        """Store a version; one already there stays as it is."""
        statement = insert(catalogs).values(
            tenant_id=self._tenant,
            catalog_hash=catalog_hash,
            discipline=discipline,
            version=version,
            text=text,
        )
        self._connection.execute(statement.on_conflict_do_nothing())

    def get(self, catalog_hash: str) -> CatalogRow:
        """The version with that hash.

        Raises:
            NotFoundError: If neither the tenant nor the fleet has it.
        """
        row = self._first(select(catalogs).where(catalogs.c.catalog_hash == catalog_hash))
        if row is None:
            raise NotFoundError("catalog", catalog_hash, "Store it first.")
        return row

    def find(self, hash_or_prefix: str) -> CatalogRow:
        """The version with that hash, or the only one whose hash starts so.

        Raises:
            NotFoundError: If there is none, or more than one.
        """
        starts_so = catalogs.c.catalog_hash.startswith(hash_or_prefix, autoescape=True)
        query = select(catalogs.c.catalog_hash).where(starts_so).distinct().limit(2)
        hashes = list(self._connection.execute(query).scalars()) if hash_or_prefix else []
        if len(hashes) != 1:
            remedy = "Give more of its hash." if hashes else "Name a file, or a stored hash."
            raise NotFoundError("catalog", hash_or_prefix, remedy)
        return self.get(hashes[0])

    def versions(self, discipline: str) -> list[CatalogRow]:
        """Every version of a discipline, the tenant's own and the fleet's, oldest first."""
        rows = self._connection.execute(
            select(catalogs)
            .where(catalogs.c.discipline == discipline)
            .order_by(catalogs.c.created_at, catalogs.c.catalog_hash)
        )
        return [CatalogRow(**row._asdict()) for row in rows]

    def latest(self, discipline: str) -> CatalogRow | None:
        """The newest version of a discipline: the tenant's own, else the fleet's; None if none."""
        return self._first(select(catalogs).where(catalogs.c.discipline == discipline))

    def _first(self, query: Select[tuple[object, ...]]) -> CatalogRow | None:
        own_first = (catalogs.c.tenant_id == self._tenant).desc()
        newest = (catalogs.c.created_at.desc(), catalogs.c.catalog_hash)
        row = self._connection.execute(query.order_by(own_first, *newest).limit(1)).first()
        return None if row is None else CatalogRow(**row._asdict())
