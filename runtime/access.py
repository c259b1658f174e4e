"""Who may ask, and how often: keys looked up off the loop, limits kept in this process."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeVar

from canopy.domain.access import TOKEN_PREFIX, Permit, Scope, token_digest
from canopy.domain.clock import now
from canopy.domain.errors import ForbiddenError, RateLimitedError, UnauthorizedError
from canopy.domain.tenant import FLEET
from canopy.storage.database import Database

FRESH_S: Final = 1.0
"""A permit older than this is not believed: a revoked key works no longer than this, even where
the notice of it was lost."""

RENEW_S: Final = 0.5
"""A permit older than this is looked up again beside the request that uses it, so that a key in
steady use never waits for the database."""

MAX_TOKEN: Final = 100
MAX_KEPT: Final = 10_000
"""Permits, and limits, held at once; above, the oldest go."""

MAX_UNKNOWN: Final = 1_000
"""Keys remembered as unknown: guesses push each other out, never a key that exists."""

UNKNOWN_PER_S: Final = 50.0
"""Look-ups per second of keys never seen here: guessing must not keep the database busy."""

Kept = TypeVar("Kept")

_LONG_AGO_S: Final = float("-inf")
_HINT: Final = "Send `Authorization: Bearer <key>`; make one by `canopy key create`."


@dataclass(slots=True)
class Bucket:
    """A token bucket that holds a second's worth; a large taker leaves a debt.

    Attributes:
        rate_per_s: Tokens that come in each second.
        tokens: Tokens there at `at_s`; below 0 while a debt is paid off.
        at_s: When that was, in seconds of a clock that never goes back.
    """

    rate_per_s: float
    tokens: float
    at_s: float

    def wait_s(self, now_s: float) -> float:
        """Seconds until something may be taken; 0 if it may be now."""
        most = max(self.rate_per_s, 1.0)
        self.tokens = min(most, self.tokens + (now_s - self.at_s) * self.rate_per_s)
        self.at_s = now_s
        # A whole token, or a slow bucket would pass a fraction of one each time.
        return max(0.0, (1.0 - self.tokens) / self.rate_per_s)

    def take(self, n: int) -> None:
        """Take tokens that `wait_s` said may be taken."""
        self.tokens -= n

    def is_full(self, now_s: float) -> bool:
        """True if nothing was taken for so long that a new bucket would be the same."""
        self.wait_s(now_s)
        return self.tokens >= max(self.rate_per_s, 1.0)


@dataclass(frozen=True, slots=True)
class _Looked:
    """A permit as it was found, and when; a notice since makes it `_LONG_AGO_S`."""

    permit: Permit
    at_s: float


class KeyRing:
    """The keys and limits of one process.

    Args:
        find: Looks a permit up by its digest; may block.
        required: True if every caller must present a key.
        tenant_rate_per_s: Most asks of one tenant per second; None without a limit.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        find: Callable[[str], Permit | None],
        *,
        required: bool,
        tenant_rate_per_s: float | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.is_required = required
        self._find, self._clock = find, clock
        self._tenant_rate_per_s = tenant_rate_per_s
        self._known: dict[str, _Looked] = {}
        self._unknown: dict[str, float] = {}
        self._looking: dict[str, asyncio.Task[Permit | None]] = {}
        self._guesses = Bucket(UNKNOWN_PER_S, UNKNOWN_PER_S, clock())
        self._n_notices = 0
        self._buckets: dict[str, Bucket] = {}

    @classmethod
    def of(
        cls, database: Database, *, required: bool, tenant_rate_per_s: float | None
    ) -> "KeyRing":
        """The keys that a database holds."""
        return cls(database.find_permit, required=required, tenant_rate_per_s=tenant_rate_per_s)

    async def identify(self, authorization: str | None) -> Permit | None:
        """What the caller may do, by the header it sent.

        Args:
            authorization: The `Authorization` header; None without one.

        Returns:
            The permit of a valid key; None for a caller without a key where none is required.

        Raises:
            UnauthorizedError: If a key is required and missing, or the one sent is not valid.
            RateLimitedError: If too many unknown keys were tried of late.
            ServiceUnreachableError: If the database does not answer.
        """
        if authorization is None:
            if self.is_required:
                raise UnauthorizedError("Authorization", "no key was sent.", _HINT)
            return None
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        is_token = token.startswith(TOKEN_PREFIX) and len(token) <= MAX_TOKEN
        if scheme.lower() != "bearer" or not is_token:
            raise UnauthorizedError("Authorization", "it holds no key of this service.", _HINT)
        permit = await self._permit(token_digest(token))
        if permit is None or not permit.is_valid(now()):
            raise UnauthorizedError("Authorization", "the key is unknown or has ended.", _HINT)
        return permit

    def allow(self, permit: Permit | None, tenant: str, scope: Scope, n: int = 1) -> None:
        """Let a caller do something, or say why not.

        Args:
            permit: What `identify` gave.
            tenant: On whose behalf it asks.
            scope: What it asks to do.
            n: How many selections, outcomes, reads or corrections that is.

        Raises:
            ForbiddenError: If the key is another tenant's or lacks the scope.
            RateLimitedError: If the key, or the tenant, is over its rate.
        """
        limits: list[tuple[str, float]] = []
        if permit is not None:
            if permit.tenant_id not in {tenant, FLEET}:
                raise ForbiddenError(
                    "tenant", "the key acts for another tenant.", "Use a key of this tenant."
                )
            if scope not in permit.scopes:
                raise ForbiddenError(
                    "Authorization",
                    f"the key lacks the scope `{scope}`.",
                    f"Make one with it: `canopy key create NAME --scope {scope}`.",
                )
            if permit.rate_per_s is not None:
                limits.append((f"key {permit.key_id}", permit.rate_per_s))
        if self._tenant_rate_per_s is not None:
            limits.append((f"tenant {tenant}", self._tenant_rate_per_s))
        if limits:
            self._take(limits, n)

    def forget(self, owners: Iterable[str]) -> None:
        """Believe nothing known of these owners' keys: each is looked up at its next use."""
        gone = set(owners)
        if not gone:
            return
        self._n_notices += 1
        self._unknown.clear()
        # Whoever asks from now on must not be told what was read before the notice.
        self._looking.clear()
        for digest, looked in self._known.items():
            if looked.permit.tenant_id in gone:
                # Kept, though not believed: a key that exists must not queue with the guesses.
                self._known[digest] = _Looked(looked.permit, _LONG_AGO_S)

    def _take(self, limits: list[tuple[str, float]], n: int) -> None:
        now_s = self._clock()
        if len(self._buckets) >= MAX_KEPT:
            self._drop_buckets(now_s)
        buckets = []
        for who, rate_per_s in limits:
            bucket = self._buckets.get(who)
            if bucket is None or bucket.rate_per_s != rate_per_s:
                bucket = self._buckets[who] = Bucket(rate_per_s, max(rate_per_s, 1.0), now_s)
            wait_s = bucket.wait_s(now_s)
            if wait_s > 0.0:
                raise RateLimitedError(who, wait_s)
            buckets.append(bucket)
        # Only once all agree: a refusal by one limit must not use up the other.
        for bucket in buckets:
            bucket.take(n)

    def _drop_buckets(self, now_s: float) -> None:
        """Let the full ones go, which loses nothing, and then the oldest down to half."""
        busy = [(who, one) for who, one in self._buckets.items() if not one.is_full(now_s)]
        self._buckets = dict(busy[-MAX_KEPT // 2 :])

    async def _permit(self, digest: str) -> Permit | None:
        now_s = self._clock()
        looked = self._known.get(digest)
        if looked is not None:
            age_s = now_s - looked.at_s
            if age_s >= RENEW_S:
                looking = self._look_up_once(digest)
                if age_s >= FRESH_S:
                    return await asyncio.shield(looking)
            return looked.permit
        if now_s < self._unknown.get(digest, _LONG_AGO_S) + FRESH_S:
            return None
        if digest not in self._looking:
            wait_s = self._guesses.wait_s(now_s)
            if wait_s > 0.0:
                raise RateLimitedError("whoever tries unknown keys", wait_s)
            self._guesses.take(1)
        return await asyncio.shield(self._look_up_once(digest))

    def _look_up_once(self, digest: str) -> "asyncio.Task[Permit | None]":
        """One look-up for all who present the same key now."""
        looking = self._looking.get(digest)
        if looking is None:
            looking = asyncio.ensure_future(self._look_up(digest))
            self._looking[digest] = looking
            looking.add_done_callback(lambda done: self._looked_up(digest, done))
        return looking

    def _looked_up(self, digest: str, done: "asyncio.Task[Permit | None]") -> None:
        if self._looking.get(digest) is done:
            del self._looking[digest]
        if not done.cancelled():
            # Whoever waits is told; where nobody does, the permit ages and the next one waits.
            done.exception()

    async def _look_up(self, digest: str) -> Permit | None:
        at_s, n_notices = self._clock(), self._n_notices
        permit = await asyncio.to_thread(self._find, digest)
        if n_notices != self._n_notices:
            # It may have been read before what the notice tells of.
            at_s = _LONG_AGO_S
        if permit is None:
            self._known.pop(digest, None)
            _keep(self._unknown, digest, at_s, MAX_UNKNOWN)
        else:
            _keep(self._known, digest, _Looked(permit, at_s), MAX_KEPT)
        return permit


def _keep(kept: dict[str, Kept], digest: str, found: Kept, most: int) -> None:
    """Keep the newest of something, at most so many."""
    kept.pop(digest, None)
    if len(kept) >= most:
        kept.pop(next(iter(kept)))
    kept[digest] = found
