"""What serves each discipline: a pointer, moved only by transitions that are kept for ever."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.dialects.postgresql import insert

from canopy.domain.clock import now
from canopy.domain.decision import Mode
from canopy.domain.errors import InputError
from canopy.storage.rows import PolicyState, TransitionRow
from canopy.storage.tables import policy_states, policy_transitions

STATE_CHANNEL: Final = "canopy_state"
"""NOTIFY channel of changes; a trigger sends JSON with `tenant` at their commit."""

_COLUMNS = [policy_states.c[name] for name in PolicyState.__dataclass_fields__]


class States:
    """Champion, candidate and mode of each discipline."""

    def __init__(self, connection: Connection, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def get(self, discipline: str) -> PolicyState:
        """What serves the tenant: its own pointer, else the fleet's, else nothing yet."""
        row = self._connection.execute(
            select(*_COLUMNS)
            .where(policy_states.c.discipline == discipline)
            .order_by((policy_states.c.tenant_id == self._tenant).desc())
            .limit(1)
        ).first()
        if row is None:
            return PolicyState(discipline, None, None, Mode.OBSERVATION, None, 0)
        return _state(row)

    def all(self) -> list[PolicyState]:
        """What serves the tenant in every discipline that has a pointer, by name."""
        rows = self._connection.execute(
            # The fleet's rows first, so that the tenant's own replace them.
            select(*_COLUMNS).order_by(policy_states.c.tenant_id == self._tenant)
        )
        found = {row.discipline: _state(row) for row in rows}
        return [found[name] for name in sorted(found)]

    def transition(
        self,
        discipline: str,
        *,
        champion: str | None,
        candidate: str | None,
        mode: Mode,
        catalog_hash: str | None,
        actor: str,
        reason: str,
        evidence_ids: Sequence[str] = (),
        action: str,
        expected_version: int | None = None,
        canary_salt: str | None = None,
        canary_share: float | None = None,
    ) -> PolicyState:
        """Move the tenant's own pointer, record why, and tell every process at commit.

        Args:
            discipline: The craft.
            champion: Policy that serves from now on; None: the doctrine policy.
            candidate: Policy on its way; None for none.
            mode: The candidate's mode.
            catalog_hash: Catalog to choose from.
            actor: Who does it.
            reason: Why, in words.
            evidence_ids: Evidence it rests on.
            action: The command's name.
            expected_version: Version of the state this was decided on; None to overrule
                whatever is there.
            canary_salt: Name of the canary, which assigns its units; None outside one.
            canary_share: Share of units that the candidate serves; None outside a canary.

        Returns:
            The new state.

        Raises:
            InputError: If the state moved on since `expected_version`, the reason is blank, or
                a canary lacks its salt or share, or one is named outside a canary.
        """
        if not reason.strip():
            raise InputError(
                f"{action} of {discipline}", "the reason is blank.", "Say why in a few words."
            )
        _check_canary(f"{action} of {discipline}", mode, candidate, canary_salt, canary_share)
        # The pointer's row may not exist yet, so the lock is on its name.
        lock = func.hashtextextended(f"canopy.state:{self._tenant}:{discipline}", 0)
        self._connection.execute(select(func.pg_advisory_xact_lock(lock)))
        found = self.get(discipline)
        if expected_version is not None and found.version != expected_version:
            raise InputError(
                f"{action} of {discipline}",
                f"the state is at version {found.version}, not {expected_version}: "
                "somebody moved it meanwhile.",
                "Look at the new state and decide again.",
            )
        version = found.version + 1 if found.tenant_id == self._tenant else 1
        created_at = now()
        pointer = {
            "tenant_id": self._tenant,
            "discipline": discipline,
            "champion": champion,
            "candidate": candidate,
            "mode": mode.value,
            "catalog_hash": catalog_hash,
            "version": version,
            "canary_salt": canary_salt,
            "canary_share": canary_share,
        }
        self._connection.execute(
            insert(policy_transitions).values(
                **pointer,
                actor=actor,
                reason=reason,
                evidence_ids=list(evidence_ids),
                action=action,
                created_at=created_at,
            )
        )
        changed = {"updated_at": created_at, **pointer}
        self._connection.execute(
            insert(policy_states)
            .values(**changed)
            .on_conflict_do_update(index_elements=["tenant_id", "discipline"], set_=changed)
        )
        return PolicyState(
            discipline,
            champion,
            candidate,
            mode,
            catalog_hash,
            version,
            self._tenant,
            created_at,
            canary_salt,
            canary_share,
        )

    def transitions(self, discipline: str) -> list[TransitionRow]:
        """Every change of a discipline, oldest first; the fleet's before the tenant's own."""
        table = policy_transitions
        rows = self._connection.execute(
            select(table)
            .where(table.c.discipline == discipline)
            .order_by(table.c.tenant_id == self._tenant, table.c.version)
        )
        return [TransitionRow(**row._asdict() | {"mode": Mode(row.mode)}) for row in rows]


def _check_canary(
    place: str, mode: Mode, candidate: str | None, salt: str | None, share: float | None
) -> None:
    is_canary = mode is Mode.CANARY and candidate is not None
    if is_canary and (not salt or share is None or not 0.0 <= share <= 1.0):
        raise InputError(
            place,
            f"a canary needs a salt and a share from 0 to 1, got {salt!r} and {share}.",
            "Name both.",
        )
    if not is_canary and (salt is not None or share is not None):
        raise InputError(place, "a salt or a share is named outside a canary.", "Leave both out.")


def _state(row: Row[Any]) -> PolicyState:
    return PolicyState(**row._asdict() | {"mode": Mode(row.mode)})
