"""Responses as ready bytes, and what the OpenAPI document says of bodies."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from runtime.http.problems import MEDIA_TYPE
from runtime.http.schemas import Problem

SECURITY: Final = "key"
"""Name of the security scheme in the OpenAPI document."""

GUARDED: Final[dict[str, Any]] = {"security": [{SECURITY: []}, {}]}
"""The OpenAPI entry of a route that asks for a key, where keys are required."""

_OF_ANSWER: Final = {"decision_id": "$response.body#/decision_id"}
DECISION_LINKS: Final[dict[str, Any]] = {
    "decision": {
        "operationId": "read_decision",
        "parameters": _OF_ANSWER | {"tenant": "$request.body#/tenant"},
        "description": "The decision as it is recorded.",
    },
    "served": {
        "operationId": "correct_decision",
        "parameters": _OF_ANSWER,
        "description": "Say that something else was served.",
    },
}
"""Where an answered selection leads, as the OpenAPI document says it."""

_RETRY_AFTER: Final = {409, 429, 503}
_GUARD: Final = (401, 403, 429)
_MEANINGS: Final = {
    400: "The body or a name in it is wrong.",
    401: "No key was sent where one is required, or the key is unknown, expired or revoked.",
    403: "The key acts for another tenant, or lacks the scope.",
    404: "Something was named that is not there.",
    409: "The same request is being answered right now; retry after a second.",
    413: "The body, the context or the number of items is too large.",
    422: "The request id was answered before for another body.",
    429: "The key or the tenant asks for more per second than it may; retry after a while.",
    503: "Something needed does not answer; nothing was kept, retry.",
}


def json_response(body: bytes, status: int = 200) -> Response:
    """A response whose JSON is already written."""
    return Response(body, status_code=status, media_type="application/json")


def batch_response(bodies: Sequence[bytes]) -> Response:
    """A response of one JSON document per item."""
    return json_response(b'{"items":[' + b",".join(bodies) + b"]}")


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI entries of the problems a route answers with."""
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    retry = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    return {
        status: {
            "description": _MEANINGS[status],
            "content": {MEDIA_TYPE: {"schema": schema}},
            **({"headers": retry} if status in _RETRY_AFTER else {}),
        }
        for status in statuses
    }


def guarded_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The entries of a route that asks for a key: its own problems and those of the door."""
    return problem_responses(*sorted({*statuses, *_GUARD}))


def takes(*models: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI entry of a guarded route whose body is any of the models."""
    references = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"requestBody": body, **GUARDED}
