"""A service's problem as the error class that the service itself had."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from canopy.domain.errors import (
    BodyTooLargeError,
    CanopyError,
    ForbiddenError,
    InputError,
    NotFoundError,
    RateLimitedError,
    RequestConflictError,
    RequestInFlightError,
    ServiceUnreachableError,
    UnauthorizedError,
)

PASSING: Final = (RequestInFlightError, RateLimitedError, ServiceUnreachableError)
"""Errors that may be gone when the same is asked again."""

_NOT_FOUND: Final = re.compile(
    r"no (?P<noun>.+?) named '(?P<name>.*?)'\. (?P<remedy>.*)", re.DOTALL
)
_PLACED: Final[dict[str, type[InputError]]] = {
    "unauthorized": UnauthorizedError,
    "forbidden": ForbiddenError,
    "too_large": BodyTooLargeError,
    "bad_request": InputError,
    "method_not_allowed": InputError,
}


def error_of(
    problem: Mapping[str, Any], *, request_id: str = "", retry_after_s: float = 1.0
) -> CanopyError:
    """The error that a problem tells of.

    Args:
        problem: The problem document: `error`, `message` and `place`.
        request_id: What the request was sent under.
        retry_after_s: When the service would be asked again.
    """
    code, message = str(problem.get("error")), str(problem.get("message"))
    place = str(problem.get("place") or "request")
    if code in _PLACED:
        return _PLACED[code](place, message.removeprefix(f"{place}: "), "")
    known: dict[str, Callable[[], CanopyError]] = {
        "not_found": lambda: _not_found(place, message),
        "in_flight": lambda: RequestInFlightError(request_id),
        "request_conflict": lambda: RequestConflictError(request_id),
        "rate_limited": lambda: RateLimitedError(
            message.partition(" is over its rate")[0], retry_after_s
        ),
        "unreachable": lambda: _unreachable(message),
        "internal": lambda: ServiceUnreachableError("the service", message, ""),
    }
    return known[code]() if code in known else CanopyError(message)


def _not_found(place: str, message: str) -> NotFoundError:
    worded = _NOT_FOUND.fullmatch(message)
    if worded is None:
        return NotFoundError(place, place, message)
    return NotFoundError(worded["noun"], worded["name"], worded["remedy"])


def _unreachable(message: str) -> ServiceUnreachableError:
    service, _, why = message.partition(" is unreachable: ")
    return ServiceUnreachableError(service, why, "")
