"""One log line and one count per request, for little."""

from collections.abc import MutableMapping
from time import perf_counter
from typing import Any

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.http.guard import KEY_ID, N_ITEMS, REQUEST_ID, TENANT
from runtime.telemetry import TallyCollector


class AccessLog:
    """Middleware at the ASGI level: it wraps one callable and copies no body.

    Args:
        app: What answers.
        responses: Counts responses by route and status.
    """

    def __init__(self, app: ASGIApp, responses: TallyCollector) -> None:
        self._app, self._responses = app, responses
        # Bound once: a fresh bound logger per request would cost as much as the line itself.
        self._log = structlog.get_logger().bind()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = perf_counter()
        status = 500

        async def observed(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, observed)
        finally:
            route = scope.get("route")
            # The pattern, never the path: a path per decision would be a series per decision.
            path = getattr(route, "path", "unmatched")
            self._responses.add(path, str(status))
            self._log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round((perf_counter() - started_s) * 1e3, 3),
                tenant=scope.get(TENANT),
                key_id=scope.get(KEY_ID),
                n_items=scope.get(N_ITEMS),
                request_id=scope.get(REQUEST_ID),
            )
