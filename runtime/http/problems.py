"""Errors as the HTTP surface words them: a stable code, what is wrong, and where."""

from dataclasses import dataclass
from math import ceil
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from canopy.domain.errors import (
    BodyTooLargeError,
    CanopyError,
    ForbiddenError,
    InputError,
    NotFoundError,
    ProtectedRowError,
    RateLimitedError,
    RequestConflictError,
    RequestInFlightError,
    ServiceUnreachableError,
    UnauthorizedError,
)
from runtime.http.schemas import Problem

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
EXPECTED: Final = "See /openapi.json for what is expected."

_UNAUTHORIZED: Final = 401
_PASSING: Final = (RequestInFlightError, ProtectedRowError, ServiceUnreachableError)

_CODES: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (UnauthorizedError, 401, "unauthorized"),
    (ForbiddenError, 403, "forbidden"),
    (NotFoundError, 404, "not_found"),
    (RequestInFlightError, 409, "in_flight"),
    (ProtectedRowError, 409, "protected"),
    (RequestConflictError, 422, "request_conflict"),
    (RateLimitedError, 429, "rate_limited"),
    (ServiceUnreachableError, 503, "unreachable"),
    (ValidationError, 400, "bad_request"),
    (CanopyError, 400, "bad_request"),
)

_dump = TypeAdapter(Problem).dump_json
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Failure:
    """A problem with the status it travels under.

    Attributes:
        status: The HTTP status.
        problem: What is wrong.
        retry_after_s: Whole seconds after which asking again makes sense; None where it makes
            none.
    """

    status: int
    problem: Problem
    retry_after_s: int | None = None

    def body(self) -> bytes:
        """The problem as JSON."""
        return _dump(self.problem)

    def response(self) -> Response:
        """The problem as a whole response."""
        response = Response(self.body(), status_code=self.status, media_type=MEDIA_TYPE)
        if self.retry_after_s is not None:
            response.headers["Retry-After"] = str(self.retry_after_s)
        if self.status == _UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response


def failure_of(error: Exception, *, place: str | None = None) -> Failure:
    """What the caller is told of an error; one that nobody foresaw is logged whole.

    Args:
        error: The error.
        place: Prefix of the place, such as `items.3`.

    Returns:
        The status and the problem.
    """
    if isinstance(error, BodyTooLargeError):
        where = joined(place, error.place)
        return Failure(413, Problem(error="too_large", message=str(error), place=where))
    for kind, status, code in _CODES:
        if isinstance(error, kind):
            where = joined(place, _place(error))
            if where is None and isinstance(error, ValidationError):
                where = "body"
            problem = Problem(error=code, message=_message(error), place=where)
            return Failure(status, problem, _retry_after_s(error))
    _log.error("unforeseen", exc_info=error)
    message = "Something failed here that nobody foresaw; the log of the process tells more."
    return Failure(500, Problem(error="internal", message=message, place=place))


def _retry_after_s(error: Exception) -> int | None:
    if isinstance(error, RateLimitedError):
        return max(1, ceil(error.retry_after_s))
    return RETRY_AFTER_S if isinstance(error, _PASSING) else None


def _place(error: Exception) -> str | None:
    if isinstance(error, ValidationError):
        loc = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
        return ".".join(str(part) for part in loc)
    if isinstance(error, InputError):
        return error.place
    if isinstance(error, NotFoundError):
        return error.noun
    if isinstance(error, RequestConflictError | RequestInFlightError):
        return "request_id"
    return None


def _message(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{first['msg']}. {EXPECTED}"
    return str(error)


def joined(prefix: str | None, place: str | None) -> str | None:
    """A place within another, such as `items.3.context`; None where neither is one."""
    return ".".join(part for part in (prefix, place) if part) or None
