"""`POST /v1/selections`: one selection, or many that succeed or fail each by itself."""

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter
from pydantic_core import to_json

from canopy.domain.access import Scope
from canopy.domain.episode import EpisodeKind
from canopy.domain.errors import BodyTooLargeError, InputError
from canopy.domain.ids import content_hash
from canopy.storage.rows import DecisionRow
from runtime.bootstrap import runtime_of
from runtime.episodes import Ask
from runtime.http.bodies import Shape, read_body
from runtime.http.guard import REQUEST_ID, admit, identified, screened
from runtime.http.problems import Failure, failure_of
from runtime.http.responses import (
    DECISION_LINKS,
    batch_response,
    guarded_responses,
    json_response,
    takes,
)
from runtime.http.schemas import (
    Selection,
    SelectionAnswer,
    SelectionBatch,
    SelectionBatchAnswer,
)
from runtime.selection import SelectionService

MAX_CONTEXT_BYTES: Final = 64 * 2**10

_SUSPECT: Final = (b"NaN", b"Infinity", b"\\u0000")
_NESTED: Final = (dict, list)
_shape = Shape(TypeAdapter(Selection))
_dump: Final = to_json

router = APIRouter()


@router.post(
    "/v1/selections",
    summary="Choose a plan",
    operation_id="select",
    response_model=None,
    responses={
        200: {"model": SelectionAnswer | SelectionBatchAnswer, "links": DECISION_LINKS},
        **guarded_responses(400, 404, 409, 413, 422, 503),
    },
    openapi_extra=takes(Selection, SelectionBatch),
)
async def select(request: Request) -> Response:
    """Choose one plan, or one per item; answered once the decision is durable."""
    permit = await identified(request)
    service = runtime_of(request.app).selections
    parsed = _shape.read(await read_body(request))
    if isinstance(parsed, Selection):
        request.scope[REQUEST_ID] = parsed.request_id
        admit(request, permit, parsed.tenant, Scope.SELECT)
        return json_response(_dump(answer_of(await service.select(ask_of(parsed)))))
    bodies = await asyncio.gather(
        *(
            _select_item(service, place, item)
            for place, item in enumerate(screened(request, permit, parsed, Scope.SELECT))
        )
    )
    return batch_response(bodies)


async def _select_item(service: SelectionService, place: int, item: Selection | Failure) -> bytes:
    if isinstance(item, Failure):
        return item.body()
    try:
        return _dump(answer_of(await service.select(ask_of(item))))
    except Exception as error:  # noqa: BLE001 - an item's failure is that item's answer
        return failure_of(error, place=f"items.{place}").body()


def ask_of(selection: Selection) -> Ask:
    """The validated request, with the hash that tells one body from another.

    Raises:
        InputError: If the context holds a number or a text that JSON or a database cannot.
        BodyTooLargeError: If the context is too large.
    """
    context = to_json(_ordered(selection.context))
    if len(context) > MAX_CONTEXT_BYTES:
        raise BodyTooLargeError(
            "context",
            f"{len(context)} bytes, at most {MAX_CONTEXT_BYTES}.",
            "Send what the policy reads, and keep the rest.",
        )
    if any(token in context for token in _SUSPECT):
        _require_storable(selection.context, "context")
    rest = to_json([
        selection.discipline,
        selection.unit_id,
        selection.allowed,
        selection.override,
        selection.kind,
    ])
    return Ask(
        tenant=selection.tenant,
        request_id=selection.request_id,
        discipline=selection.discipline,
        unit_id=selection.unit_id,
        context=selection.context,
        allowed=None if selection.allowed is None else tuple(selection.allowed),
        override=selection.override,
        kind=EpisodeKind(selection.kind),
        body_hash=content_hash(rest + context),
    )


def answer_of(row: DecisionRow) -> dict[str, Any]:
    """What the caller of a decision reads; the same bytes from a new row and a stored one.

    The keys of `SelectionAnswer`, in its order. Building and dumping that model would cost five
    times as much, on every selection.
    """
    return {
        "decision_id": row.decision_id,
        "plan": row.plan,
        "propensity": row.propensity,
        "served": row.served,
        "mode": row.mode.value if row.mode else "",
        "arm": row.arm.value if row.arm else None,
        "reasons": row.reasons,
        "versions": {
            "catalog": row.catalog_hash,
            "features": row.feature_hash,
            "policy": row.policy_id,
            "kernel": row.kernel,
        },
    }


def _ordered(value: dict[str, Any] | list[Any]) -> Any:
    # The order of keys means nothing in JSON, so it must not make another body.
    if isinstance(value, dict):
        return {
            key: _ordered(item) if isinstance(item := value[key], _NESTED) else item
            for key in sorted(value)
        }
    return [_ordered(item) if isinstance(item, _NESTED) else item for item in value]


def _require_storable(value: Any, place: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _require_storable(key, place)
            _require_storable(item, f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _require_storable(item, f"{place}.{index}")
    elif isinstance(value, str) and "\0" in value:
        raise InputError(place, "the text holds a NUL character.", "Take it out.")
    elif isinstance(value, float) and not _is_finite(value):
        raise InputError(place, f"{value} is no JSON number.", "Send null for a missing number.")


def _is_finite(value: float) -> bool:
    return value - value == 0.0
