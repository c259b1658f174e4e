"""Responses as ready bytes, and what the OpenAPI document says of bodies."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from runtime.http.problems import MEDIA_TYPE
from runtime.http.schemas import Problem

_MEANINGS: Final = {
    400: "The body or a name in it is wrong.",
    404: "Something was named that is not there.",
    409: "The same request is being answered right now; retry after a second.",
    413: "The body, the context or the number of items is too large.",
    422: "The request id was answered before for another body.",
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
    return {
        status: {
            "description": _MEANINGS[status],
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


def takes(*models: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI entry of a body that is any of the models."""
    references = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
