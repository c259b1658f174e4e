"""Which owners changed since a moment: what a serving process looks at where a notice was lost."""

from datetime import datetime

from sqlalchemy import Connection, func, select, text

from canopy.storage.control_rows import ChangeSet
from canopy.storage.tables import changes


class Changes:
    """Marks that the database itself sets when a pointer, intervention, key or catalog changes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def since(self, moment: datetime | None) -> ChangeSet:
        """Owners whose mark is not older than a moment, of all tenants.

        A mark is set shortly before its transaction commits, so look back a little further than
        to the last look.

        Args:
            moment: The server's time to look back to; None names nobody and asks the time.

        Returns:
            The owners, and the server's time of this look.
        """
        self._connection.execute(text("select set_config('canopy.sweep', 'on', true)"))
        read_at = self._connection.execute(select(func.clock_timestamp())).scalar_one()
        changed_at: dict[str, datetime] = {}
        if moment is not None:
            query = select(changes.c.tenant_id, changes.c.changed_at)
            rows = self._connection.execute(query.where(changes.c.changed_at >= moment))
            changed_at = {row.tenant_id: row.changed_at for row in rows}
        return ChangeSet(changed_at, read_at)
