"""The HTTP application: routes, errors and the OpenAPI document, joined to a runtime."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from canopy.domain.errors import CanopyError
from runtime.bootstrap import Runtime
from runtime.http import decisions, health, outcomes, selections
from runtime.http.access import AccessLog
from runtime.http.document import documented
from runtime.http.problems import EXPECTED, Failure, failure_of
from runtime.http.schemas import Problem


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
        # A redirect would be an answer that no document names, and loses a body on its way.
        redirect_slashes=False,
    )
    app.state.runtime = runtime
    for module in (selections, outcomes, decisions, health):
        app.include_router(module.router)
    for kind in (CanopyError, ValidationError, Exception):
        app.add_exception_handler(kind, _fail)
    app.add_exception_handler(RequestValidationError, _fail_parameters)
    app.add_exception_handler(HTTPException, _fail_http)
    app.add_middleware(AccessLog, responses=runtime.metrics.responses)
    app.openapi = documented(app)  # type: ignore[method-assign] # FastAPI's own way to extend it
    return app


async def _fail(_: Request, error: Exception) -> Response:
    return failure_of(error).response()


async def _fail_parameters(_: Request, error: Exception) -> Response:
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    place = ".".join(str(part) for part in first.get("loc", ()))
    message = f"{first.get('msg')}. {EXPECTED}"
    problem = Problem(error="bad_request", message=message, place=place or None)
    return Failure(400, problem).response()


async def _fail_http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "bad_request")
    message = f"{request.method} {request.url.path} is not served. See /openapi.json."
    response = Failure(status, Problem(error=code, message=message, place="path")).response()
    # `Allow`, which a refused method owes its caller.
    response.headers.update(getattr(error, "headers", None) or {})
    return response
