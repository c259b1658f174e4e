"""The door of a route: who asks is settled before its body is read, what it may do after."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from starlette.requests import Request

from canopy.domain.access import Permit, Scope
from canopy.domain.errors import ForbiddenError, RateLimitedError
from runtime.bootstrap import runtime_of
from runtime.http.problems import Failure, failure_of, joined

KEY_ID: Final = "canopy.key_id"
TENANT: Final = "canopy.tenant"
N_ITEMS: Final = "canopy.n_items"
REQUEST_ID: Final = "canopy.request_id"
"""Names under which a request's scope tells the access log who asked, and for what."""


class OfTenant(Protocol):
    """Something that is asked for on a tenant's behalf."""

    @property
    def tenant(self) -> str:
        """Whose it is."""
        ...


Asked = TypeVar("Asked", bound=OfTenant)


async def identified(request: Request) -> Permit | None:
    """What the caller may do; None for a caller without a key where none is required.

    Raises:
        UnauthorizedError: If the key is missing or not valid.
        RateLimitedError: If too many unknown keys were tried of late.
        ServiceUnreachableError: If the database does not answer.
    """
    permit = await runtime_of(request.app).keys.identify(request.headers.get("authorization"))
    if permit is not None:
        request.scope[KEY_ID] = permit.key_id
    return permit


def admit(request: Request, permit: Permit | None, tenant: str, scope: Scope) -> None:
    """Let the caller do one thing for one tenant.

    Raises:
        ForbiddenError: If the key does not permit it.
        RateLimitedError: If the key, or the tenant, is over its rate.
    """
    request.scope[TENANT] = tenant
    runtime_of(request.app).keys.allow(permit, tenant, scope)


def screened(
    request: Request, permit: Permit | None, items: Sequence[Asked | Failure], scope: Scope
) -> list[Asked | Failure]:
    """The items of a batch that the caller may ask for, and the problem of each other one.

    Args:
        request: The request.
        permit: What the caller may do.
        items: What it asks for; items that are wrong already stay as they are.
        scope: What it asks to do.
    """
    keys = runtime_of(request.app).keys
    refused: dict[str, Failure] = {}
    counts = Counter(item.tenant for item in items if not isinstance(item, Failure))
    for tenant, n in counts.items():
        try:
            keys.allow(permit, tenant, scope, n)
        except (ForbiddenError, RateLimitedError) as error:
            refused[tenant] = failure_of(error)
    request.scope[N_ITEMS] = len(items)
    if len(counts) == 1:
        request.scope[TENANT] = next(iter(counts))
    if not refused:
        return list(items)
    return [_screened(item, place, refused) for place, item in enumerate(items)]


def _screened(item: Asked | Failure, place: int, refused: Mapping[str, Failure]) -> Asked | Failure:
    failure = None if isinstance(item, Failure) else refused.get(item.tenant)
    if failure is None:
        return item
    where = joined(f"items.{place}", failure.problem.place)
    return replace(failure, problem=failure.problem.model_copy(update={"place": where}))
