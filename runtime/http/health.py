"""Is the process alive, is it ready, and what are its figures."""

import asyncio

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from canopy.domain.errors import CanopyError
from canopy.storage.tables import REVISION
from runtime.bootstrap import Runtime, runtime_of
from runtime.http.responses import json_response
from runtime.http.schemas import Health

router = APIRouter()


@router.get(
    "/healthz",
    summary="Is the process alive",
    operation_id="healthz",
    response_model=None,
    responses={200: {"model": Health}},
)
async def healthz() -> Response:
    """Answer as long as the event loop turns."""
    return _health(None)


@router.get(
    "/readyz",
    summary="Can the process answer selections",
    operation_id="readyz",
    response_model=None,
    responses={200: {"model": Health}, 503: {"model": Health}},
)
async def readyz(request: Request) -> Response:
    """Answer 200 while pointers are loaded and the database answers on the right schema."""
    return _health(await asyncio.to_thread(_why_unready, runtime_of(request.app)))


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    operation_id="metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "The text format of Prometheus."}},
)
async def metrics(request: Request) -> Response:
    """Every figure of this process."""
    runtime = runtime_of(request.app)
    runtime.metrics.in_flight.set(runtime.selections.n_in_flight())
    return Response(
        generate_latest(runtime.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
    )


def _why_unready(runtime: Runtime) -> str | None:
    if not runtime.is_ready:
        return "starting or stopping"
    try:
        found = runtime.database.revision()
    except CanopyError as error:
        return str(error)
    return None if found == REVISION else f"the schema is at {found}, not {REVISION}"


def _health(because: str | None) -> Response:
    health = Health(status="unready" if because else "ok", because=because)
    return json_response(health.model_dump_json().encode(), 503 if because else 200)
