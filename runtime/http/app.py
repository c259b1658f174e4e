"""The HTTP application: routes, errors and the OpenAPI document, joined to a runtime."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from canopy.domain.errors import CanopyError
from runtime.bootstrap import Runtime
from runtime.http import decisions, health, outcomes, selections
from runtime.http.access import AccessLog
from runtime.http.problems import Failure, failure_of
from runtime.http.responses import SECURITY
from runtime.http.schemas import (
    OutcomeBatch,
    OutcomeReport,
    Problem,
    Selection,
    SelectionBatch,
    ServedReport,
)

BODY_MODELS: Final[tuple[type[BaseModel], ...]] = (
    Selection,
    SelectionBatch,
    OutcomeReport,
    OutcomeBatch,
    ServedReport,
    Problem,
)
"""Models that routes read themselves, so that FastAPI does not find them."""


def build_app(runtime: Runtime, on_started: Callable[[], None] = lambda: None) -> FastAPI:
    """Join the routes to a runtime; the application starts and stops it.

    Args:
        runtime: Not yet started.
        on_started: Called once the runtime is ready to serve.

    Returns:
        The application.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            await runtime.start()
            on_started()
            yield
        finally:
            await runtime.stop()

    app = FastAPI(
        title="Canopy",
        version=version("canopy-platform"),
        summary="Choose plans, record decisions, learn what became of them.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.runtime = runtime
    for module in (selections, outcomes, decisions, health):
        app.include_router(module.router)
    for kind in (CanopyError, ValidationError, Exception):
        app.add_exception_handler(kind, _fail)
    app.add_exception_handler(RequestValidationError, _fail_parameters)
    app.add_exception_handler(HTTPException, _fail_http)
    app.add_middleware(AccessLog, responses=runtime.metrics.responses)
    app.openapi = _documented(app)  # type: ignore[method-assign] # FastAPI's own way to extend it
    return app


async def _fail(_: Request, error: Exception) -> Response:
    return failure_of(error).response()


async def _fail_parameters(_: Request, error: Exception) -> Response:
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    place = ".".join(str(part) for part in first.get("loc", ()))
    problem = Problem(error="bad_request", message=f"{first.get('msg')}.", place=place or None)
    return Failure(400, problem).response()


async def _fail_http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "bad_request")
    message = f"{request.method} {request.url.path} is not served. See /openapi.json."
    response = Failure(status, Problem(error=code, message=message, place="path")).response()
    # `Allow`, which a refused method owes its caller.
    response.headers.update(getattr(error, "headers", None) or {})
    return response


def _documented(app: FastAPI) -> Callable[[], dict[str, Any]]:
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        _, found = models_json_schema(
            [(model, "validation") for model in BODY_MODELS],
            ref_template="#/components/schemas/{model}",
        )
        for name, schema in found["$defs"].items():
            schemas.setdefault(name, schema)
        document["components"]["securitySchemes"] = {
            SECURITY: {
                "type": "http",
                "scheme": "bearer",
                "description": "A key of `canopy key create`.",
            }
        }
        return document

    return openapi
