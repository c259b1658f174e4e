"""API keys: made once, shown once, revoked for good; a database holds their digests alone."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, text, update

from canopy.domain.access import Permit, Scope, key_id_of, new_token, token_digest
from canopy.domain.errors import InputError, NotFoundError
from canopy.storage.control_rows import KeyRow, NewKey
from canopy.storage.tables import api_keys

_COLUMNS = [api_keys.c[name] for name in KeyRow.__dataclass_fields__]
_PERMIT = [api_keys.c[name] for name in Permit.__dataclass_fields__]


class Keys:
    """The keys of one tenant."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def create(
        self,
        name: str,
        scopes: Collection[Scope],
        *,
        rate_per_s: float | None = None,
        expires_at: datetime | None = None,
        actor: str,
    ) -> NewKey:
        """Make a key.

        Args:
            name: What its owner calls it.
            scopes: What it may do, at least one thing.
            rate_per_s: Most asks per second; None without a limit.
            expires_at: When it ends, aware; None if it does not.
            actor: Who makes it.

        Returns:
            The key with its token, which nobody can read again.

        Raises:
            InputError: If it has no name or scope, the rate is not positive, or the end is not
                an aware time.
        """
        place = f"key {name!r}"
        if not name.strip() or not scopes:
            raise InputError(place, "it lacks a name or a scope.", "Give it both.")
        if rate_per_s is not None and not 0 < rate_per_s < float("inf"):
            raise InputError(place, f"the rate is {rate_per_s}.", "Give a positive number.")
        if expires_at is not None and expires_at.tzinfo is None:
            raise InputError(place, f"{expires_at} has no time zone.", "Give an aware time.")
        token = new_token()
        digest = token_digest(token)
        row = self._connection.execute(
            insert(api_keys)
            .values(
                tenant_id=self._tenant,
                key_id=key_id_of(digest),
                digest=digest,
                name=name,
                scopes=sorted(scope.value for scope in set(scopes)),
                rate_per_s=rate_per_s,
                expires_at=expires_at,
                created_by=actor,
            )
            .returning(*_COLUMNS)
        ).one()
        return NewKey(_row(row), token)

    def list(self) -> list[KeyRow]:
        """The tenant's keys, oldest first, revoked ones included."""
        query = select(*_COLUMNS).where(api_keys.c.tenant_id == self._tenant)
        rows = self._connection.execute(query.order_by(api_keys.c.created_at, api_keys.c.key_id))
        return [_row(row) for row in rows]

    def revoke(self, key_id: str, *, actor: str, reason: str) -> KeyRow:
        """Take a key back for good; one already taken back stays as it is.

        Args:
            key_id: Its public name.
            actor: Who does it.
            reason: Why, in words.

        Returns:
            The key as it stands now.

        Raises:
            InputError: If the reason is blank.
            NotFoundError: If the tenant has no such key.
        """
        if not reason.strip():
            raise InputError(f"key {key_id}", "the reason is blank.", "Say why in a few words.")
        mine = (api_keys.c.tenant_id == self._tenant, api_keys.c.key_id == key_id)
        self._connection.execute(
            update(api_keys)
            .where(*mine, api_keys.c.revoked_at.is_(None))
            .values(revoked_at=func.now(), revoked_by=actor, revoked_because=reason)
        )
        row = self._connection.execute(select(*_COLUMNS).where(*mine)).first()
        if row is None:
            raise NotFoundError("key", key_id, "See `canopy key list`.")
        return _row(row)


def permit_of(connection: Connection, digest: str) -> Permit | None:
    """What the key with that digest permits, whoever's it is; None where there is none."""
    connection.execute(
        text("select set_config('canopy.digest', :digest, true)"), {"digest": digest}
    )
    row = connection.execute(select(*_PERMIT).where(api_keys.c.digest == digest)).first()
    if row is None:
        return None
    return Permit(**row._asdict() | {"scopes": frozenset(Scope(name) for name in row.scopes)})


def _row(row: Row[Any]) -> KeyRow:
    return KeyRow(**row._asdict() | {"scopes": tuple(Scope(name) for name in row.scopes)})
