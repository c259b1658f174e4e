"""Selections: one draw per request, answered only once its row is durable.

Requests that arrive within one tick of the event loop are chosen together, because the
vectorised selection of twenty costs little more than that of one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from canopy.domain.clock import now
from canopy.domain.decision import Decision
from canopy.domain.errors import (
    CanopyError,
    CatalogError,
    InputError,
    NotFoundError,
    RequestConflictError,
    RequestInFlightError,
)
from canopy.domain.ids import new_decision_id
from canopy.storage.durable import DecisionWriter
from canopy.storage.rows import DecisionRow
from policy.catalog import Catalog
from policy.selector import Choice, select_many
from runtime.episodes import Ask, decision_row
from runtime.pointers import Pointer, Pointers
from runtime.telemetry import Metrics

TICK_LIMIT: Final = 128
"""Selections chosen in one go: more would keep the loop from reading sockets."""

StoredByRequest = Callable[[str, str], Awaitable[DecisionRow | None]]
"""Reads the decision that stands for (tenant, request id)."""


def choice_of(ask: Ask, pointer: Pointer) -> Choice:
    """What the selector needs to choose for a request under a pointer.

    Raises:
        InputError: If the request names a plan that the catalog does not have.
    """
    if ask.allowed is not None:
        _require_plans(pointer.catalog, "allowed", ask.allowed)
    if ask.override is not None:
        _require_plans(pointer.catalog, "override", (ask.override,))
    return Choice(
        catalog=pointer.catalog,
        artifact=pointer.champion,
        candidate=pointer.candidate,
        context=ask.context,
        key=ask.key,
        mode=pointer.mode,
        allowed=ask.allowed,
        override=ask.override,
        unavailable=pointer.is_unavailable,
    )


def _require_plans(catalog: Catalog, place: str, plans: Iterable[str]) -> None:
    for plan in plans:
        try:
            catalog.index(plan)
        except CatalogError as error:
            raise InputError(
                place,
                f"the catalog of {catalog.discipline} has no plan {plan!r}.",
                "Name plans by the ids of the catalog in force.",
            ) from error


@dataclass(frozen=True, slots=True)
class _Waiting:
    choice: Choice
    decided: asyncio.Future[Decision]


class Chooser:
    """Chooses for everything that waits, once per tick of the loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waiting: list[_Waiting] = []

    def choose(self, choice: Choice) -> asyncio.Future[Decision]:
        """Put a choice in line; its decision is there in the next tick or the one after."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._tick)
        waiting = _Waiting(choice, loop.create_future())
        self._waiting.append(waiting)
        return waiting.decided

    def _tick(self) -> None:
        taken, self._waiting = self._waiting[:TICK_LIMIT], self._waiting[TICK_LIMIT:]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._tick)
        self._metrics.tick_size.observe(len(taken))
        try:
            decisions = select_many([waiting.choice for waiting in taken])
        except Exception as error:  # noqa: BLE001 - one bad context must not fail its neighbours
            if len(taken) == 1:
                _fail(taken[0], error)
                return
            for waiting in taken:
                _choose_alone(waiting)
            return
        for waiting, decision in zip(taken, decisions, strict=True):
            if not waiting.decided.done():
                waiting.decided.set_result(decision)


def _choose_alone(waiting: _Waiting) -> None:
    try:
        decision = select_many([waiting.choice])[0]
    except Exception as error:  # noqa: BLE001 - handed to whoever waits
        _fail(waiting, error)
        return
    if not waiting.decided.done():
        waiting.decided.set_result(decision)


def _fail(waiting: _Waiting, error: Exception) -> None:
    if not waiting.decided.done():
        waiting.decided.set_exception(error)


class SelectionService:
    """Answers selection requests, each once.

    Args:
        pointers: What serves.
        writer: Where decisions become durable.
        stored: Reads an earlier decision by its request.
        metrics: Where selections are counted.
    """

    def __init__(
        self,
        pointers: Pointers,
        writer: DecisionWriter,
        stored: StoredByRequest,
        metrics: Metrics,
    ) -> None:
        self._pointers, self._writer = pointers, writer
        self._stored, self._metrics = stored, metrics
        self._chooser = Chooser(metrics)
        self._in_flight: dict[tuple[str, str], str] = {}

    async def select(self, ask: Ask) -> DecisionRow:
        """Choose a plan, make its row durable, and only then give it back.

        Args:
            ask: The request.

        Returns:
            The decision that stands for the request: this one, or the earlier one of a retry.

        Raises:
            RequestInFlightError: If the same request is being answered right now.
            RequestConflictError: If the request id came before with another body.
            NotFoundError: If there is no catalog of the discipline.
            InputError: If the context or a plan does not fit the catalog.
            ServiceUnreachableError: If the row could not be made durable.
        """
        started_s = perf_counter()
        key = (ask.tenant, ask.request_id)
        earlier = self._in_flight.get(key)
        if earlier is not None:
            if earlier != ask.body_hash:
                raise RequestConflictError(ask.request_id)
            raise RequestInFlightError(ask.request_id)
        self._in_flight[key] = ask.body_hash
        try:
            row = await self._answer(ask)
        finally:
            del self._in_flight[key]
        self._metrics.selections.add(row.discipline, row.mode or "", row.reasons[0])
        self._metrics.latency.observe(perf_counter() - started_s)
        return row

    def n_in_flight(self) -> int:
        """Requests that wait for their answer."""
        return len(self._in_flight)

    async def _answer(self, ask: Ask) -> DecisionRow:
        try:
            row = await self._choose(ask)
        except (InputError, NotFoundError):
            # A retry is owed its answer although the catalog has moved on since.
            stored = await self._stored(ask.tenant, ask.request_id)
            if stored is None:
                raise
            return _same_body(stored, ask)
        written = await self._writer.submit(ask.tenant, row)
        if written.is_new:
            return row
        stored = await self._stored(ask.tenant, ask.request_id)
        if stored is None:
            raise CanopyError(f"request {ask.request_id!r} is known, its decision is not there.")
        return _same_body(stored, ask)

    async def _choose(self, ask: Ask) -> DecisionRow:
        pointer = self._pointers.current(ask.tenant, ask.discipline)
        if pointer is None:
            pointer = await asyncio.to_thread(self._pointers.load, ask.tenant, ask.discipline)
        decision = await self._chooser.choose(choice_of(ask, pointer))
        return decision_row(ask, decision, decision_id=new_decision_id(), decided_at=now())


def _same_body(stored: DecisionRow, ask: Ask) -> DecisionRow:
    if stored.body_hash != ask.body_hash:
        raise RequestConflictError(ask.request_id)
    return stored
