"""Rows of control: what people impose, who may ask, and what changed; as `rows` for the record."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from canopy.domain.access import Scope
from canopy.domain.intervention import InterventionKind


@dataclass(frozen=True, slots=True)
class InterventionRow:
    """One change of what a person imposes, kept for ever.

    Attributes:
        tenant_id: Whose selections it concerns; the fleet's concern everybody.
        discipline: The craft; `EVERY_DISCIPLINE` for all.
        kind: A stop or a pin.
        version: Its number among those of the same owner, craft and kind, from 1.
        is_on: False where it was taken back.
        plan: The plan that a pin imposes; None for a stop and for a pin taken back.
        actor: Who did it.
        reason: Why, in words.
        created_at: When, aware.
    """

    tenant_id: str
    discipline: str
    kind: InterventionKind
    version: int
    is_on: bool
    plan: str | None
    actor: str
    reason: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class KeyRow:
    """An API key as people may see it: never the token, nor its digest.

    Attributes:
        tenant_id: Whom it acts for.
        key_id: Its public name.
        name: What its owner calls it.
        scopes: What it may do.
        rate_per_s: Most asks per second; None without a limit.
        created_by: Who made it.
        created_at: When, aware.
        expires_at: When it ends; None if it does not.
        revoked_at: When it was taken back; None while it stands.
        revoked_by: Who took it back.
        revoked_because: Why.
    """

    tenant_id: str
    key_id: str
    name: str
    scopes: tuple[Scope, ...]
    rate_per_s: float | None
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None
    revoked_because: str | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made; `token` is shown once and kept nowhere."""

    row: KeyRow
    token: str


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Who changed.

    Attributes:
        changed_at: Owners of a pointer, intervention, key or catalog that changed, each with the
            time of its last change.
        read_at: The server's time of the look.
    """

    changed_at: Mapping[str, datetime]
    read_at: datetime
