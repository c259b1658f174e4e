"""The client itself: selections with a local default, outcomes, corrections."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self
from uuid import UUID

from canopy.domain.episode import PRIMARY_METRIC, EpisodeKind
from canopy.domain.errors import (
    CanopyError,
    ForbiddenError,
    InputError,
    NotFoundError,
    RequestConflictError,
    UnauthorizedError,
)
from runtime.client.asks import Measured, Selected, SelectionAsk, selected
from runtime.client.exchange import TIMEOUT_S, Exchange
from runtime.client.problems import PASSING, error_of

MAX_UNSETTLED: Final = 10_000
"""Choices made locally that are kept to be told later; beyond, the oldest are dropped."""

SETTLED_AT_ONCE: Final = 4
"""Of these, how many one selection tells on its way, so that it stays quick."""

_SELECTIONS: Final = "/v1/selections"
_OUTCOMES: Final = "/v1/outcomes"
_log = logging.getLogger("canopy.client")

LocalDefault = str | Callable[[SelectionAsk], str]
"""A plan, or what names one for a request."""


@dataclass(frozen=True, slots=True)
class _Local:
    """A choice made locally: the request as it went unanswered, and the plan served instead."""

    body: Mapping[str, Any]
    plan: str


class Client:
    """Asks one service on behalf of one tenant. Not for use by several threads at once.

    A choice made locally is told as soon as the service answers again: the same request is
    asked once more, and the decision that stands for it then is marked as not served. This
    matters where the service had decided and its answer was lost: without it, the record would
    say that a plan was served which was not.

    Args:
        address: Such as `http://127.0.0.1:8080`.
        tenant: On whose behalf.
        token: Key of the service; None where it asks for none.
        timeout_s: Longest a call may take, retries included.
        retries: How often a call is tried again at most; None as often as time allows.
        local_default: Plan to serve where no answer comes in time, or what names one for a
            request; None raises instead.

    Attributes:
        n_dropped: Choices made locally that the service was never told of.

    Raises:
        InputError: If the address is none of HTTP, or the time is not positive.
    """

    def __init__(
        self,
        address: str,
        *,
        tenant: str,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int | None = None,
        local_default: LocalDefault | None = None,
    ) -> None:
        self._exchange = Exchange(address, token=token, timeout_s=timeout_s, retries=retries)
        self._tenant, self._local_default = tenant, local_default
        self._unsettled: deque[_Local] = deque()
        self._settled: dict[str, UUID] = {}
        self.n_dropped = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Tell of all choices made locally, if somebody answers, and close the connections."""
        try:
            self.settle_local()
        except CanopyError as error:
            self.n_dropped += len(self._unsettled)
            _log.warning("%d local choices were never told: %s", len(self._unsettled), error)
            self._unsettled.clear()
        finally:
            self._exchange.close()

    @property
    def n_unsettled(self) -> int:
        """Choices made locally that the service was not told of yet."""
        return len(self._unsettled)

    def select(
        self,
        discipline: str,
        *,
        unit_id: str,
        context: Mapping[str, Any],
        request_id: str | None = None,
        allowed: Sequence[str] | None = None,
        override: str | None = None,
        kind: EpisodeKind = EpisodeKind.REAL,
    ) -> Selected:
        """Ask for a plan.

        Args:
            discipline: Which catalog and policy choose.
            unit_id: Whom the decision concerns.
            context: What is known before choosing, by feature name.
            request_id: Key of retries; None makes a fresh one.
            allowed: Plans possible now; None leaves it to the catalog's rules.
            override: A plan the caller imposes; None draws.
            kind: Real or synthetic traffic.

        Returns:
            The plan; the local default, marked as such, where no answer comes in time.

        Raises:
            InputError: If the request is wrong; `place` names the field.
            NotFoundError: If there is no catalog of the discipline.
            RequestConflictError: If the request id was answered before for another body.
            UnauthorizedError: If the key is missing or not valid.
            ForbiddenError: If the key does not permit it.
            RateLimitedError: If the key or the tenant stays over its rate: no local default.
            RequestInFlightError: If the same request stays in flight: no local default.
            ServiceUnreachableError: If nobody answers: no local default.
        """  # noqa: DOC501 - the members of `PASSING` are named above
        named = {} if request_id is None else {"request_id": request_id}
        ask = SelectionAsk(
            discipline, unit_id, context, allowed=allowed, override=override, kind=kind, **named
        )
        body = ask.body(self._tenant)
        try:
            answer = self._exchange.send("POST", _SELECTIONS, body=body)
        except PASSING:
            if self._local_default is None:
                raise
            return self._choose_locally(ask)
        self._settle_some()
        return selected(ask.request_id, answer)

    def select_many(self, asks: Sequence[SelectionAsk]) -> tuple[Selected | CanopyError, ...]:
        """Ask for many plans in one call; each succeeds or fails by itself.

        Args:
            asks: The requests, at most as many as the service takes in a call.

        Returns:
            For each its plan, the local default where no answer came in time, or its error.

        Raises:
            InputError: If the call as a whole is refused, or cannot be sent.
            UnauthorizedError: If the key is missing or not valid.
            RateLimitedError: If the key or the tenant stays over its rate: no local default.
            ServiceUnreachableError: If nobody answers: no local default.
        """  # noqa: DOC501 - the members of `PASSING` are named above
        if not asks:
            return ()
        found: dict[int, Selected | CanopyError] = {}
        patience = self._exchange.patience()
        left = dict(enumerate(asks))
        while left:
            body = {"items": [ask.body(self._tenant) for ask in left.values()]}
            try:
                answer = self._exchange.send("POST", _SELECTIONS, body=body, patience=patience)
            except PASSING as error:
                if self._local_default is None and not found:
                    raise
                found |= dict.fromkeys(left, error)
                break
            for (place, ask), item in zip(left.items(), answer["items"], strict=True):
                found[place] = _item(ask.request_id, item)
            left = {place: ask for place, ask in left.items() if isinstance(found[place], PASSING)}
            if left and not patience.wait(0.0):
                break
        else:
            self._settle_some()
        if self._local_default is not None:
            found |= {place: self._choose_locally(ask) for place, ask in left.items()}
        return tuple(found[place] for place in range(len(asks)))

    def report_outcome(
        self,
        decision: Selected | UUID,
        value: float | None,
        *,
        metric: str = PRIMARY_METRIC,
        window_days: float | None = None,
        final: bool = True,
    ) -> None:
        """Say what became of a decision; a later report corrects and never replaces.

        Args:
            decision: The choice, or its decision's id.
            value: The measurement; None where it was looked for and could not be measured.
            metric: What was measured.
            window_days: Time after the decision that it covers; None if open.
            final: Whether no later measurement of this metric will come.

        Raises:
            InputError: If the choice was made locally and was not told yet, or is wrong.
            NotFoundError: If the tenant has no such decision.
            ServiceUnreachableError: If nobody answers in time; telling it again is safe.
        """
        measured = Measured(decision, value, metric, window_days=window_days, final=final)
        body = measured.body(self._tenant, self._identity(decision))
        self._exchange.send("POST", _OUTCOMES, body=body)

    def report_outcomes(self, measured: Sequence[Measured]) -> tuple[CanopyError | None, ...]:
        """Say what became of many decisions in one call; each is recorded or refused by itself.

        Args:
            measured: The measurements; sending the same ones twice records them once.

        Returns:
            For each None if it is recorded, else why not.

        Raises:
            InputError: If a choice was made locally and was not told yet.
            ServiceUnreachableError: If nobody answers in time; telling it again is safe.
        """
        if not measured:
            return ()
        items = [one.body(self._tenant, self._identity(one.decision)) for one in measured]
        answer = self._exchange.send("POST", _OUTCOMES, body={"items": items})
        return tuple(error_of(item) if "error" in item else None for item in answer["items"])

    def report_served(self, decision: Selected | UUID, plan: str, *, imposed: bool = False) -> None:
        """Say that something else was served; the decision then leaves off-policy estimates.

        Args:
            decision: The choice, or its decision's id.
            plan: What was served.
            imposed: True if it was not taken from the answer, even if it is the same plan.

        Raises:
            InputError: If the choice was made locally and was not told yet, or the decision's
                catalog has no such plan.
            NotFoundError: If the tenant has no such decision.
            ServiceUnreachableError: If nobody answers in time; telling it again is safe.
        """
        path = f"/v1/decisions/{self._identity(decision)}/served"
        body = {"tenant": self._tenant, "plan": plan, "imposed": imposed}
        self._exchange.send("POST", path, body=body)

    def decision(self, decision: Selected | UUID) -> dict[str, Any]:
        """Read a decision back, with its distribution, its masked plans and its outcomes.

        Args:
            decision: The choice, or its decision's id.

        Returns:
            The document that `/openapi.json` calls `StoredDecision`.

        Raises:
            InputError: If the choice was made locally and was not told yet.
            NotFoundError: If the tenant has no such decision.
            ServiceUnreachableError: If nobody answers in time.
        """
        path = f"/v1/decisions/{self._identity(decision)}"
        return self._exchange.send("GET", path, query={"tenant": self._tenant})

    def settle_local(self, most: int | None = None) -> tuple[Selected, ...]:
        """Tell the service of choices made locally; each selection does so for a few.

        Args:
            most: How many at most; None for all.

        Returns:
            The local choices that are recorded now, with their decisions and no propensities.

        Raises:
            ForbiddenError: If the key may not correct decisions; what was not told is kept.
            UnauthorizedError: If the key is no longer valid; the same.
            ServiceUnreachableError: If nobody answers; the same.
            RateLimitedError: If the key or the tenant stays over its rate; the same.
            RequestInFlightError: If such a request stays in flight; the same.
        """
        settled: list[Selected] = []
        n_left = len(self._unsettled) if most is None else min(most, len(self._unsettled))
        for _ in range(n_left):
            told = self._settle(self._unsettled[0])
            self._unsettled.popleft()
            if told is None:
                self.n_dropped += 1
            else:
                settled.append(told)
        return tuple(settled)

    def _settle(self, local: _Local) -> Selected | None:
        """Tell of one choice; None if it can never be told.

        Raises:
            ForbiddenError: If the key may not correct decisions.
            UnauthorizedError: If the key is no longer valid.
        """
        request_id = str(local.body["request_id"])
        try:
            drawn = selected(request_id, self._exchange.send("POST", _SELECTIONS, body=local.body))
            self.report_served(drawn, local.plan, imposed=True)
        except (ForbiddenError, UnauthorizedError):
            raise
        except (InputError, NotFoundError, RequestConflictError) as error:
            # The catalog moved on, or the id was used elsewhere: that will not change.
            _log.warning("the local choice for %s cannot be told: %s", request_id, error)
            return None
        if drawn.decision_id is not None:
            self._remember(request_id, drawn.decision_id)
        return replace(drawn, plan=local.plan, propensity=None, served=False, is_local=True)

    def _settle_some(self) -> None:
        try:
            self.settle_local(SETTLED_AT_ONCE)
        except CanopyError as error:
            # They are kept for the next time: a selection that succeeded must not fail by them.
            _log.warning("%d local choices are yet to be told: %s", self.n_unsettled, error)

    def _choose_locally(self, ask: SelectionAsk) -> Selected:
        plan = ask.override
        if plan is None and self._local_default is not None:
            by = self._local_default
            plan = by if isinstance(by, str) else by(ask)
        if plan is None:
            raise InputError("local_default", "there is none.", "Name a plan to fall back on.")
        if len(self._unsettled) >= MAX_UNSETTLED:
            self._unsettled.popleft()
            self.n_dropped += 1
        self._unsettled.append(_Local(ask.body(self._tenant), plan))
        return Selected(request_id=ask.request_id, plan=plan, is_local=True)

    def _remember(self, request_id: str, decision_id: UUID) -> None:
        if len(self._settled) >= MAX_UNSETTLED:
            self._settled.pop(next(iter(self._settled)))
        self._settled[request_id] = decision_id

    def _identity(self, decision: Selected | UUID) -> UUID:
        if isinstance(decision, UUID):
            return decision
        found = decision.decision_id or self._settled.get(decision.request_id)
        if found is None:
            raise InputError(
                f"request {decision.request_id}",
                "the choice was made locally and has no decision yet.",
                "Call `settle_local` first, or `select` once the service answers again.",
            )
        return found


def _item(request_id: str, item: Mapping[str, Any]) -> Selected | CanopyError:
    if "error" in item:
        return error_of(item, request_id=request_id)
    return selected(request_id, item)
