"""Keys and limits: who may ask, and how often; the database is asked seldom and off the loop."""

import asyncio
import threading
from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given

from canopy.domain.access import Permit, Scope, new_token, token_digest
from canopy.domain.clock import now
from canopy.domain.errors import (
    ForbiddenError,
    RateLimitedError,
    ServiceUnreachableError,
    UnauthorizedError,
)
from runtime.access import FRESH_S, MAX_KEPT, MAX_UNKNOWN, RENEW_S, UNKNOWN_PER_S, Bucket, KeyRing

ALL = frozenset(Scope)


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


class Record:
    """Permits by digest, as a database would hold them; counts how often it is asked."""

    def __init__(self):
        self.permits, self.n_asked = {}, 0

    def find(self, digest):
        self.n_asked += 1
        return self.permits.get(digest)

    def issue(self, **parts):
        token = new_token()
        digest = token_digest(token)
        self.permits[digest] = Permit(
            **{"key_id": "k1", "tenant_id": "acme", "scopes": ALL} | parts
        )
        return token


@pytest.fixture
def record():
    return Record()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ring(record, clock):
    return KeyRing(record.find, required=True, clock=clock)


def identify(ring, token):
    return asyncio.run(ring.identify(f"Bearer {token}"))


def test_a_valid_key_is_known(ring, record):
    assert identify(ring, record.issue()).tenant_id == "acme"


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer nonsense",
        "Bearer canopy_" + "x" * 200,
        "canopy_x",
        "",
    ],
)
def test_what_is_no_key_is_refused_without_asking_the_database(ring, record, header):
    with pytest.raises(UnauthorizedError, match="canopy key create"):
        asyncio.run(ring.identify(header))
    assert record.n_asked == 0


def test_a_key_is_required_only_where_it_is(record, clock, ring):
    with pytest.raises(UnauthorizedError, match="no key was sent"):
        asyncio.run(ring.identify(None))
    lenient = KeyRing(record.find, required=False, clock=clock)
    assert asyncio.run(lenient.identify(None)) is None
    with pytest.raises(UnauthorizedError, match="unknown or has ended"):
        asyncio.run(lenient.identify(f"Bearer {new_token()}"))


def test_revoked_and_expired_keys_are_refused(ring, record):
    for parts in ({"revoked_at": now()}, {"expires_at": now() - timedelta(seconds=1)}):
        with pytest.raises(UnauthorizedError, match="ended"):
            identify(ring, record.issue(**parts))


def test_the_database_is_asked_once_a_second_per_key(ring, record, clock):
    token = record.issue()
    for _ in range(20):
        identify(ring, token)
    assert record.n_asked == 1
    clock.now_s += FRESH_S
    identify(ring, token)
    assert record.n_asked == 2


def test_all_who_present_a_key_at_once_share_one_look_up(ring, record):
    token = record.issue()

    async def run():
        return await asyncio.gather(*(ring.identify(f"Bearer {token}") for _ in range(50)))

    assert len(asyncio.run(run())) == 50
    assert record.n_asked == 1


def test_a_revoked_key_works_no_longer_than_a_second_and_no_moment_after_a_notice(
    ring, record, clock
):
    token = record.issue()
    identify(ring, token)
    digest = token_digest(token)
    record.permits[digest] = Permit("k1", "acme", ALL, revoked_at=now())
    assert identify(ring, token) is not None
    ring.forget(["acme"])
    with pytest.raises(UnauthorizedError):
        identify(ring, token)
    record.permits[digest] = Permit("k1", "acme", ALL)
    clock.now_s += FRESH_S
    assert identify(ring, token) is not None


def test_what_was_read_before_a_notice_is_not_believed_after_it(record, clock):
    token = record.issue()
    digest = token_digest(token)
    is_read, may_go_on = threading.Event(), threading.Event()

    def slowly(asked):
        found = record.find(asked)
        if record.n_asked == 1:
            is_read.set()
            may_go_on.wait(10)
        return found

    ring = KeyRing(slowly, required=True, clock=clock)

    async def run():
        early = asyncio.create_task(ring.identify(f"Bearer {token}"))
        await asyncio.to_thread(is_read.wait, 10)
        record.permits[digest] = Permit("k1", "acme", ALL, revoked_at=now())
        ring.forget(["acme"])
        with pytest.raises(UnauthorizedError):
            await ring.identify(f"Bearer {token}")
        may_go_on.set()
        await early
        with pytest.raises(UnauthorizedError):
            await ring.identify(f"Bearer {token}")

    asyncio.run(run())


def test_a_key_in_steady_use_is_renewed_beside_its_requests(record, clock):
    token = record.issue()
    may_answer = threading.Event()
    may_answer.set()

    def find(digest):
        assert may_answer.wait(10)
        return record.find(digest)

    ring = KeyRing(find, required=True, clock=clock)

    async def run():
        await ring.identify(f"Bearer {token}")
        may_answer.clear()
        clock.now_s += RENEW_S
        await ring.identify(f"Bearer {token}")
        (renewal,) = ring._looking.values()
        assert not renewal.done()
        may_answer.set()
        await renewal
        clock.now_s += RENEW_S / 2
        await ring.identify(f"Bearer {token}")

    asyncio.run(run())
    assert record.n_asked == 2


def test_a_database_that_fails_beside_a_request_fails_nobody_until_the_permit_is_old(record, clock):
    token = record.issue()
    is_down = False

    def find(digest):
        if is_down:
            raise ServiceUnreachableError("Postgres", "gone.", "Wait.")
        return record.find(digest)

    ring = KeyRing(find, required=True, clock=clock)

    async def run():
        nonlocal is_down
        await ring.identify(f"Bearer {token}")
        is_down = True
        clock.now_s += RENEW_S
        await ring.identify(f"Bearer {token}")
        await asyncio.gather(*ring._looking.values(), return_exceptions=True)
        clock.now_s += FRESH_S - RENEW_S
        with pytest.raises(ServiceUnreachableError):
            await ring.identify(f"Bearer {token}")

    asyncio.run(run())


async def guess(ring, n):
    """Try keys that nobody made."""
    refused = 0
    for _ in range(n):
        try:
            await ring.identify(f"Bearer {new_token()}")
        except RateLimitedError:
            refused += 1
        except UnauthorizedError:
            pass
    return refused


def test_a_key_that_exists_never_queues_with_guesses(ring, record, clock):
    token = record.issue()
    identify(ring, token)
    assert asyncio.run(guess(ring, 200)) > 0
    ring.forget(["acme"])
    assert identify(ring, token) is not None
    clock.now_s += FRESH_S
    assert identify(ring, token) is not None


def test_a_flood_of_wrong_keys_fills_no_memory(record, clock):
    ring = KeyRing(record.find, required=True, clock=clock)

    async def flood():
        for _ in range(60):
            await guess(ring, int(UNKNOWN_PER_S))
            clock.now_s += 1.0

    asyncio.run(flood())
    assert record.n_asked >= 3000 * 0.9
    assert len(ring._unknown) <= MAX_UNKNOWN


def test_many_tenants_fill_no_memory_and_free_nobody_from_a_debt(record, clock):
    ring = KeyRing(record.find, required=False, tenant_rate_per_s=1.0, clock=clock)
    ring.allow(None, "acme", Scope.SELECT, 1000)
    for n in range(2 * MAX_KEPT):
        clock.now_s += 0.001
        ring.allow(None, f"tenant-{n}", Scope.SELECT)
    assert len(ring._buckets) <= MAX_KEPT
    with pytest.raises(RateLimitedError, match="acme"):
        ring.allow(None, "acme", Scope.SELECT)


def test_guessing_keys_asks_the_database_so_often_and_no_more(ring, record):
    known = record.issue()
    identify(ring, known)
    assert asyncio.run(guess(ring, 200)) >= 200 - UNKNOWN_PER_S
    assert record.n_asked <= UNKNOWN_PER_S + 1
    # Whoever has a key that is known here is not held up by it.
    assert identify(ring, known) is not None


def test_a_key_acts_for_its_tenant_and_within_its_scopes(ring):
    permit = Permit("k1", "acme", frozenset({Scope.SELECT}))
    ring.allow(permit, "acme", Scope.SELECT)
    with pytest.raises(ForbiddenError, match="another tenant"):
        ring.allow(permit, "globex", Scope.SELECT)
    with pytest.raises(ForbiddenError, match="--scope outcome"):
        ring.allow(permit, "acme", Scope.OUTCOME)


def test_the_fleets_key_acts_for_any_tenant(ring):
    ring.allow(Permit("k1", "fleet", ALL), "globex", Scope.READ)


def test_a_key_is_held_to_its_rate_and_told_when_to_ask_again(ring, clock):
    permit = Permit("k1", "acme", ALL, rate_per_s=2.0)
    ring.allow(permit, "acme", Scope.SELECT, 2)
    with pytest.raises(RateLimitedError) as refused:
        ring.allow(permit, "acme", Scope.SELECT)
    assert refused.value.retry_after_s == pytest.approx(0.5)
    clock.now_s += 0.5
    ring.allow(permit, "acme", Scope.SELECT)


def test_all_keys_of_a_tenant_share_its_rate_and_no_other_tenants(record, clock):
    ring = KeyRing(record.find, required=False, tenant_rate_per_s=1.0, clock=clock)
    ring.allow(Permit("k1", "acme", ALL), "acme", Scope.SELECT)
    with pytest.raises(RateLimitedError, match="tenant acme"):
        ring.allow(Permit("k2", "acme", ALL), "acme", Scope.SELECT)
    with pytest.raises(RateLimitedError, match="tenant acme"):
        ring.allow(None, "acme", Scope.SELECT)
    ring.allow(None, "globex", Scope.SELECT)


def test_a_refusal_by_one_limit_does_not_use_up_the_other(record, clock):
    ring = KeyRing(record.find, required=False, tenant_rate_per_s=1.0, clock=clock)
    permit = Permit("k1", "acme", ALL, rate_per_s=100.0)
    ring.allow(permit, "acme", Scope.SELECT)
    for _ in range(300):
        with pytest.raises(RateLimitedError, match="tenant"):
            ring.allow(permit, "acme", Scope.SELECT)
    clock.now_s += 1.0
    ring.allow(permit, "acme", Scope.SELECT)


@given(
    st.floats(0.1, 1000.0),
    st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(1, 50)), max_size=60),
)
def test_over_any_time_no_more_passes_than_the_rate_a_burst_and_one_large_taker(rate, asks):
    bucket = Bucket(rate, max(rate, 1.0), 0.0)
    now_s, taken, largest = 0.0, 0, 0
    for passed_s, n in asks:
        now_s += passed_s
        if bucket.wait_s(now_s) == 0.0:
            bucket.take(n)
            taken += n
            largest = max(largest, n)
    assert taken <= max(rate, 1.0) + rate * now_s + largest + 1e-6


@given(st.floats(0.1, 1000.0), st.integers(1, 5000))
def test_whoever_waits_as_long_as_told_gets_through(rate, n):
    bucket = Bucket(rate, max(rate, 1.0), 0.0)
    bucket.take(n)
    wait_s = bucket.wait_s(0.0)
    assert bucket.wait_s(wait_s * (1 + 1e-9) + 1e-9) == pytest.approx(0.0, abs=1e-6)
