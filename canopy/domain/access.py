"""Who may ask for what: scopes, and what a key permits. Only a key's digest is ever kept."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

TOKEN_PREFIX: Final = "canopy_"  # noqa: S105 - what tokens begin with, so that scanners find them
_TOKEN_BYTES: Final = 32
_ID_DIGITS: Final = 12


class Scope(StrEnum):
    """What a key lets its holder do."""

    SELECT = "select"
    """Ask for selections."""
    OUTCOME = "outcome"
    """Report outcomes."""
    READ = "read"
    """Read decisions."""
    CORRECT = "correct"
    """Say that something else was served."""


@dataclass(frozen=True, slots=True)
class Permit:
    """What a key lets its holder do.

    Attributes:
        key_id: The key's public name.
        tenant_id: Whom it acts for; the fleet's key acts for any tenant.
        scopes: What it may do.
        rate_per_s: Most selections, outcomes and corrections per second; None without a limit.
        expires_at: When it ends, aware; None if it does not.
        revoked_at: When it was taken back, aware; None while it stands.
    """

    key_id: str
    tenant_id: str
    scopes: frozenset[Scope]
    rate_per_s: float | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_valid(self, at: datetime) -> bool:
        """True if the key stands at a moment."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)


def new_token() -> str:
    """A fresh token of 256 random bits; whoever holds it is its owner."""
    return TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def token_digest(token: str) -> str:
    """What is kept of a token, in hex. A plain hash is enough: 256 random bits are not guessed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def key_id_of(digest: str) -> str:
    """The public name of the key with that digest."""
    return "k" + digest[:_ID_DIGITS]
