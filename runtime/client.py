"""A thin client: one call per choice, retried safely, with a local default where nobody answers.

with Client(address, tenant="acme", token=token, local_default="tone=warm,length=short") as client:
    chosen = client.select("public_copy", unit_id="customer-42", context={"channel": "mail"})
    ...
    client.report_outcome(chosen, 1.0)
"""

import random
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from uuid import UUID, uuid4

import httpx

from canopy.domain.episode import PRIMARY_METRIC
from canopy.domain.errors import (
    CanopyError,
    ForbiddenError,
    InputError,
    NotFoundError,
    RateLimitedError,
    RequestConflictError,
    ServiceUnreachableError,
    UnauthorizedError,
)

TIMEOUT_S: Final = 2.0
"""For one call, its retries included."""

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.5
MAX_UNSETTLED: Final = 10_000
"""Choices made locally that are kept to be told later; beyond, the oldest are dropped."""

_AGAIN: Final = {409, 429, 503}
_SELECTIONS: Final = "/v1/selections"


@dataclass(frozen=True, slots=True)
class Selected:
    """The plan to serve.

    Attributes:
        request_id: What the choice was asked for under.
        plan: The plan to serve.
        decision_id: Name of the stored decision; None while it was made locally.
        propensity: Probability of that plan; None where it was not drawn.
        served: Whether the plan is the plan drawn.
        mode: State of the discipline's candidate; None for a local choice.
        arm: Side of a canary; None outside one.
        reasons: Why this plan, most important first; empty for a local choice.
        is_local: True if nobody answered and the local default stands in.
    """

    request_id: str
    plan: str
    decision_id: UUID | None = None
    propensity: float | None = None
    served: bool = False
    mode: str | None = None
    arm: str | None = None
    reasons: tuple[str, ...] = ()
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class _Local:
    """A choice made locally: the request that went unanswered, and the plan served instead."""

    body: Mapping[str, Any]
    plan: str


class Client:
    """Asks one service on behalf of one tenant. Not for use by several threads at once.

    Args:
        address: Such as `http://127.0.0.1:8080`.
        tenant: On whose behalf.
        token: Key of the service; None where it asks for none.
        timeout_s: Longest a call may take, retries included.
        local_default: Plan to serve where nobody answers in time; None raises instead.
        transport: What carries the requests; None takes HTTP over sockets.

    Attributes:
        n_dropped: Choices made locally that could not be told later.
    """

    def __init__(
        self,
        address: str,
        *,
        tenant: str,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        local_default: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=address, headers=headers, transport=transport, trust_env=False
        )
        self._tenant, self._timeout_s = tenant, timeout_s
        self._local_default = local_default
        self._unsettled: deque[_Local] = deque()
        self._random = random.Random()  # noqa: S311 - spreads retries, guards nothing
        self.n_dropped = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Tell of choices made locally, if somebody answers now, and close the connections."""
        try:
            self.settle_local()
        except CanopyError:
            self.n_dropped += len(self._unsettled)
        finally:
            self._http.close()

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
    ) -> Selected:
        """Ask for a plan.

        Args:
            discipline: Which catalog and policy choose.
            unit_id: Whom the decision concerns.
            context: What is known before choosing, by feature name.
            request_id: Key of retries; None makes a fresh one.
            allowed: Plans possible now; None leaves it to the catalog's rules.
            override: A plan the caller imposes.

        Returns:
            The plan; the local default, marked as such, where nobody answers in time.

        Raises:
            InputError: If the request is wrong; `place` names the field.
            NotFoundError: If there is no catalog of the discipline.
            RequestConflictError: If the request id was answered before for another body.
            UnauthorizedError: If the key is missing or not valid.
            ForbiddenError: If the key does not permit it.
            RateLimitedError: If the key or the tenant stays over its rate.
            ServiceUnreachableError: If nobody answers and there is no local default.
        """
        body: dict[str, Any] = {
            "request_id": request_id or str(uuid4()),
            "tenant": self._tenant,
            "discipline": discipline,
            "unit_id": unit_id,
            "context": dict(context),
            "allowed": None if allowed is None else list(allowed),
            "override": override,
        }
        try:
            answer = self._post(_SELECTIONS, body)
        except ServiceUnreachableError:
            if self._local_default is None:
                raise
            return self._choose_locally(body, override or self._local_default)
        if self._unsettled:
            self._settle_quietly()
        return _selected(body["request_id"], answer)

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
        self._post(
            "/v1/outcomes",
            {
                "tenant": self._tenant,
                "decision_id": str(_identity(decision)),
                "metric": metric,
                "value": value,
                "window_days": window_days,
                "final": final,
            },
        )

    def report_served(self, decision: Selected | UUID, plan: str, *, imposed: bool = False) -> None:
        """Say that something else was served; the decision then leaves off-policy estimates.

        Args:
            decision: The choice, or its decision's id.
            plan: What was served.
            imposed: True if it was not taken from the answer, even if it is the same plan.

        Raises:
            InputError: If the choice was made locally and was not told yet.
            NotFoundError: If the tenant has no such decision.
            ServiceUnreachableError: If nobody answers in time; telling it again is safe.
        """
        place = f"/v1/decisions/{_identity(decision)}/served"
        self._post(place, {"tenant": self._tenant, "plan": plan, "imposed": imposed})

    def settle_local(self) -> tuple[Selected, ...]:
        """Tell the service of choices made locally: what it would have drawn, and what was served.

        Returns:
            The decisions that now stand for them, without propensities.

        Raises:
            ServiceUnreachableError: If nobody answers; what was not told is kept.
        """
        settled = []
        while self._unsettled:
            local = self._unsettled[0]
            try:
                request_id = local.body["request_id"]
                chosen = _selected(request_id, self._post(_SELECTIONS, local.body))
                self.report_served(chosen, local.plan, imposed=True)
            except (InputError, NotFoundError, RequestConflictError):
                # It can never be told: the catalog moved on, or the id was used elsewhere.
                self.n_dropped += 1
            else:
                settled.append(chosen)
            self._unsettled.popleft()
        return tuple(settled)

    def _choose_locally(self, body: Mapping[str, Any], plan: str) -> Selected:
        if len(self._unsettled) >= MAX_UNSETTLED:
            self._unsettled.popleft()
            self.n_dropped += 1
        self._unsettled.append(_Local(body, plan))
        return Selected(request_id=body["request_id"], plan=plan, is_local=True)

    def _settle_quietly(self) -> None:
        try:
            self.settle_local()
        except (ServiceUnreachableError, RateLimitedError):
            return  # They are kept for the next time.

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a body until it is answered; safe because every body names what it is about.

        Raises:
            ServiceUnreachableError: If nobody answers in time.
        """
        deadline_s = time.monotonic() + self._timeout_s
        pause_s, problem = FIRST_PAUSE_S, "it did not answer."
        while True:
            left_s = deadline_s - time.monotonic()
            answer = None
            if left_s > 0:
                try:
                    answer = self._http.post(path, json=body, timeout=left_s)
                except httpx.HTTPError as error:
                    problem = f"{type(error).__name__}: {error}."
            if answer is not None and answer.status_code not in _AGAIN:
                return _read(answer, body)
            if answer is not None:
                problem = _message(answer)
                pause_s = max(pause_s, float(answer.headers.get("retry-after", 0)))
            wait_s = pause_s * self._random.uniform(0.5, 1.0)
            if time.monotonic() + wait_s > deadline_s:
                if answer is not None and answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    return _read(answer, body)
                address = str(self._http.base_url)
                raise ServiceUnreachableError(
                    address, problem, "Ask again with the same request id; it is safe."
                )
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _selected(request_id: str, answer: Mapping[str, Any]) -> Selected:
    return Selected(
        request_id=request_id,
        plan=answer["plan"],
        decision_id=UUID(answer["decision_id"]),
        propensity=answer["propensity"],
        served=answer["served"],
        mode=answer["mode"],
        arm=answer["arm"],
        reasons=tuple(answer["reasons"]),
    )


def _identity(decision: Selected | UUID) -> UUID:
    if isinstance(decision, UUID):
        return decision
    if decision.decision_id is None:
        raise InputError(
            f"request {decision.request_id}",
            "the choice was made locally and has no decision yet.",
            "Call `settle_local`, and report on what it gives back.",
        )
    return decision.decision_id


def _message(answer: httpx.Response) -> str:
    return str(_problem(answer).get("message", answer.text[:200]))


def _problem(answer: httpx.Response) -> Mapping[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _read(answer: httpx.Response, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer, or the product's own error for its problem.

    Raises:
        CanopyError: The class that the service's own error had.
    """
    if not answer.is_success:
        error: CanopyError = _error_of(answer, body)
        raise error
    document: dict[str, Any] = answer.json()
    return document


def _error_of(answer: httpx.Response, body: Mapping[str, Any]) -> CanopyError:
    place = str(_problem(answer).get("place") or "request")
    message = _message(answer)
    refined: dict[int, CanopyError] = {
        401: UnauthorizedError(place, message, ""),
        403: ForbiddenError(place, message, ""),
        404: NotFoundError(place, str(body.get(place, body.get("decision_id", ""))), message),
        422: RequestConflictError(str(body.get("request_id", ""))),
        429: RateLimitedError("the caller", float(answer.headers.get("retry-after", 1))),
    }
    if answer.status_code in refined:
        return refined[answer.status_code]
    if answer.is_server_error:
        return ServiceUnreachableError(str(answer.url), f"it failed: {message}", "See its log.")
    return InputError(place, message, "")
