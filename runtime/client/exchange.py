"""One exchange with the service: sent until it is answered, or until patience ends."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Final

import httpx

from canopy.domain.errors import CanopyError, InputError, ServiceUnreachableError
from runtime.client.problems import PASSING, error_of

TIMEOUT_S: Final = 2.0
"""For one call, its retries included."""

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.5

_LEAST_TIMEOUT_S: Final = 0.001
_AGAIN: Final = {409, 429, 503}
_SAFE: Final = "Ask again with the same request id; it is safe."


@dataclass(slots=True)
class Patience:
    """How long one call goes on.

    Attributes:
        deadline_s: When it ends, in seconds of a clock that never goes back.
        retries: How many more times it may try; None as often as time allows.
        pause_s: Longest wait before the next try, where nobody says otherwise.
    """

    deadline_s: float
    retries: int | None
    pause_s: float = FIRST_PAUSE_S

    def left_s(self) -> float:
        """Seconds until it ends; 0 when it has."""
        return max(0.0, self.deadline_s - monotonic())

    def wait(self, at_least_s: float) -> bool:
        """Wait for the next try; at once False if there will be none.

        Args:
            at_least_s: What the service asked for. Some more is added, or all who were refused
                together would come back together.
        """
        spread = random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, guards nothing
        wait_s = max(self.pause_s, at_least_s / 10) * spread + at_least_s
        if self.retries == 0 or wait_s >= self.left_s():
            return False
        sleep(wait_s)
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)
        if self.retries is not None:
            self.retries -= 1
        return True


class Exchange:
    """Connections to one service.

    Args:
        address: Such as `http://127.0.0.1:8080`.
        token: Key of the service; None where it asks for none.
        timeout_s: Longest a call may take, retries included.
        retries: How often a call is tried again at most; None as often as time allows.

    Raises:
        InputError: If the address is none of HTTP, or the time is not positive.
    """

    def __init__(
        self, address: str, *, token: str | None, timeout_s: float, retries: int | None
    ) -> None:
        if not address.startswith(("http://", "https://")):
            raise InputError("address", f"{address!r} is none of HTTP.", "Write http://host:port.")
        if not timeout_s > 0 or (retries is not None and retries < 0):
            raise InputError(
                "client", f"timeout_s {timeout_s}, retries {retries}.", "Give a positive time."
            )
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.Client(base_url=address, headers=headers, trust_env=False)
        self._address, self._timeout_s, self._retries = address, timeout_s, retries

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def patience(self) -> Patience:
        """What a call that begins now may take."""
        return Patience(monotonic() + self._timeout_s, self._retries)

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        patience: Patience | None = None,
    ) -> dict[str, Any]:
        """Send until it is answered; safe because every body names what it is about.

        Args:
            method: Of HTTP.
            path: Below the address.
            body: What to send; the same bytes at every try.
            query: Parameters.
            patience: What is left for it; None begins anew.

        Returns:
            The answer.

        Raises:
            CanopyError: The service's own error; `ServiceUnreachableError` if nobody answered.
        """
        content = None if body is None else _encoded(body)
        request_id = "" if body is None else str(body.get("request_id", ""))
        patience = patience or self.patience()
        while True:
            try:
                answer = self._http.request(
                    method, path, content=content, params=query, timeout=_timeout(patience)
                )
            except httpx.HTTPError as error:
                why = f"{type(error).__name__}: {error}."
                failure: CanopyError = ServiceUnreachableError(self._address, why, _SAFE)
                retry_after_s = 0.0
            else:
                if answer.is_success:
                    return self._document(answer)
                retry_after_s = _retry_after_s(answer)
                failure = self._failure(answer, request_id, retry_after_s)
                if answer.status_code not in _AGAIN or not isinstance(failure, PASSING):
                    raise failure
            if not patience.wait(retry_after_s):
                raise failure

    def _document(self, answer: httpx.Response) -> dict[str, Any]:
        document = _json(answer)
        if document is None:
            raise ServiceUnreachableError(
                self._address, "what answers there is something else.", "Check the address."
            )
        return document

    def _failure(
        self, answer: httpx.Response, request_id: str, retry_after_s: float
    ) -> CanopyError:
        problem = _json(answer)
        if problem is None or "error" not in problem:
            # A proxy's word, not the service's.
            why = f"{answer.status_code} {answer.reason_phrase}."
            return ServiceUnreachableError(self._address, why, _SAFE)
        return error_of(problem, request_id=request_id, retry_after_s=retry_after_s)


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InputError(
            "body", f"{error}.", "Send what JSON can hold, and null for a missing number."
        ) from error


def _timeout(patience: Patience) -> float:
    return max(patience.left_s(), _LEAST_TIMEOUT_S)


def _retry_after_s(answer: httpx.Response) -> float:
    try:
        return max(0.0, float(answer.headers.get("retry-after", 0)))
    except ValueError:
        return 0.0


def _json(answer: httpx.Response) -> dict[str, Any] | None:
    try:
        document = answer.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
