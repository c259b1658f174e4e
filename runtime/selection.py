"""Selections: one draw per request, answered only once its row is durable.

Requests that arrive within one tick of the event loop are chosen together, because the
vectorised selection of twenty costs little more than that of one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

from canopy.domain.clock import now
from canopy.domain.decision import Arm, Decision, Reason
from canopy.domain.errors import (
    CanopyError,
    InputError,
    NotFoundError,
    RequestConflictError,
    RequestInFlightError,
)
from canopy.domain.ids import new_decision_id
from canopy.storage.durable import DecisionWriter
from canopy.storage.rows import DecisionRow
from policy.catalog import Catalog
from policy.modes import assign_arm
from policy.selector import Choice, select_many
from runtime.breaker import Breakers
from runtime.episodes import Ask, decision_row
from runtime.interventions import NOTHING_IMPOSED, Imposed
from runtime.pointers import Pointer, Pointers
from runtime.telemetry import Metrics

TICK_LIMIT: Final = 128
"""Selections chosen in one go: more would keep the loop from reading sockets."""

_FAILURES: Final = frozenset({Reason.POLICY_FAILED, Reason.NON_FINITE_SCORES})
_SHADOW: Final = "shadow"

StoredByRequest = Callable[[str, str], Awaitable[DecisionRow | None]]
"""Reads the decision that stands for (tenant, request id)."""


def choice_of(ask: Ask, pointer: Pointer, imposed: Imposed = NOTHING_IMPOSED) -> Choice:
    """What the selector needs to choose for a request under a pointer.

    In a canary the arm is the one assigned, whatever comes to be served: what a failing or
    overridden treatment leads to belongs to the treatment.

    Args:
        ask: The request.
        pointer: What serves.
        imposed: What people impose.

    Raises:
        InputError: If the request names a plan that the catalog does not have.
    """
    catalog, is_stopped, pin = pointer.catalog, imposed.is_stopped, imposed.pin
    if ask.allowed is not None:
        _require_plans(catalog, "allowed", ask.allowed)
    if ask.override is not None:
        _require_plans(catalog, "override", (ask.override,))
    artifact, unavailable, candidate = pointer.champion, pointer.is_unavailable, pointer.candidate
    arm, arm_share = None, None
    if pointer.canary_salt is not None and pointer.canary_share is not None:
        arm = assign_arm(ask.unit_id, pointer.canary_salt, pointer.canary_share)
        arm_share = pointer.canary_share if arm is Arm.TREATMENT else 1.0 - pointer.canary_share
        if arm is Arm.TREATMENT:
            artifact, unavailable = candidate, candidate is None
        candidate = None
    return Choice(
        catalog=catalog,
        artifact=artifact,
        # A stop stops every draw, also those that are only logged.
        candidate=None if is_stopped else candidate,
        context=ask.context,
        key=ask.key,
        mode=pointer.mode,
        allowed=ask.allowed,
        override=ask.override,
        # A pin that the catalog in force lacks has outlived its catalog and is passed over.
        pinned=pin if pin is not None and catalog.find(pin) is not None else None,
        killed=is_stopped,
        unavailable=unavailable,
        arm=arm,
        arm_share=arm_share,
    )


def _require_plans(catalog: Catalog, place: str, plans: Iterable[str]) -> None:
    for plan in plans:
        if catalog.find(plan) is None:
            raise InputError(
                place,
                f"the catalog of {catalog.discipline} has no plan {plan!r}.",
                "Name plans by the ids of the catalog in force.",
            )


@dataclass(frozen=True, slots=True)
class _Waiting:
    choice: Choice
    lacks_shadow: bool
    decided: asyncio.Future[Decision]


class Chooser:
    """Chooses for everything that waits, once per tick of the loop.

    Args:
        metrics: Where ticks and failures are counted.
        breakers: Which policies are left alone for a while; None makes new ones.
    """

    def __init__(self, metrics: Metrics, breakers: Breakers | None = None) -> None:
        self._metrics = metrics
        self._breakers = breakers or Breakers()
        metrics.suspended.set_function(self._breakers.n_open)
        self._waiting: list[_Waiting] = []

    def choose(self, choice: Choice, *, lacks_shadow: bool = False) -> asyncio.Future[Decision]:
        """Put a choice in line; its decision is there in the next tick or the one after.

        Args:
            choice: What to choose from.
            lacks_shadow: A candidate ought to be watched, and there is none to ask.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._tick)
        waiting = _Waiting(choice, lacks_shadow, loop.create_future())
        self._waiting.append(waiting)
        return waiting.decided

    def _tick(self) -> None:
        taken, self._waiting = self._waiting[:TICK_LIMIT], self._waiting[TICK_LIMIT:]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._tick)
        self._metrics.tick_size.observe(len(taken))
        choices = [waiting.choice for waiting in taken]
        if not self._breakers.is_calm:
            choices = [self._guarded(choice) for choice in choices]
        try:
            decisions = select_many(choices)
        except Exception:  # noqa: BLE001 - one bad context must not fail its neighbours
            for waiting, choice in zip(taken, choices, strict=True):
                self._choose_alone(waiting, choice)
            return
        for waiting, choice, decision in zip(taken, choices, decisions, strict=True):
            self._answer(waiting, choice, decision)

    def _choose_alone(self, waiting: _Waiting, choice: Choice) -> None:
        try:
            decision = select_many([choice])[0]
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            if not waiting.decided.done():
                waiting.decided.set_exception(error)
            return
        self._answer(waiting, choice, decision)

    def _guarded(self, choice: Choice) -> Choice:
        """The choice without the policies that are left alone now."""
        artifact = choice.artifact
        # Where a plan is imposed the policy is not asked: no trial may be spent on it.
        is_asked = not choice.killed and choice.override is None and choice.pinned is None
        if artifact is not None and is_asked and not self._breakers.admits(artifact.policy_id):
            choice = replace(choice, suspended=True)
        candidate = choice.candidate
        if candidate is not None and not self._breakers.admits((_SHADOW, candidate.policy_id)):
            choice = replace(choice, candidate=None)
        return choice

    def _answer(self, waiting: _Waiting, choice: Choice, decision: Decision) -> None:
        reasons = decision.reasons
        if choice.artifact is not None:
            if reasons[0] in _FAILURES:
                self._failed(choice.artifact.policy_id, choice.artifact.policy_id, reasons[0])
            elif reasons[0] is Reason.DRAWN:
                self._breakers.settle(choice.artifact.policy_id, failed=False)
        watched = waiting.choice.candidate
        if watched is not None or waiting.lacks_shadow:
            decision = self._settle_shadow(waiting, choice, decision)
        if not waiting.decided.done():
            waiting.decided.set_result(decision)

    def _settle_shadow(self, waiting: _Waiting, choice: Choice, decision: Decision) -> Decision:
        """Keep account of the candidate, and say on the row where it gave no choice."""
        candidate = choice.candidate
        if candidate is not None:
            name = (_SHADOW, candidate.policy_id)
            if Reason.SHADOW_FAILED in decision.reasons:
                self._failed(name, candidate.policy_id, Reason.SHADOW_FAILED)
            elif decision.shadow is not None:
                self._breakers.settle(name, failed=False)
        is_missing = waiting.lacks_shadow or candidate is not waiting.choice.candidate
        if is_missing and Reason.SHADOW_FAILED not in decision.reasons:
            return replace(decision, reasons=(*decision.reasons, Reason.SHADOW_FAILED))
        return decision

    def _failed(self, name: Hashable, policy_id: str, reason: Reason) -> None:
        self._metrics.policy_failures.add(policy_id, reason)
        self._breakers.settle(name, failed=True)


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
        imposed = self._pointers.interventions.on(ask.tenant, ask.discipline)
        decision = await self._chooser.choose(
            choice_of(ask, pointer, imposed), lacks_shadow=pointer.lacks_shadow
        )
        return decision_row(ask, decision, decision_id=new_decision_id(), decided_at=now())


def _same_body(stored: DecisionRow, ask: Ask) -> DecisionRow:
    if stored.body_hash != ask.body_hash:
        raise RequestConflictError(ask.request_id)
    return stored
