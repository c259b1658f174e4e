"""Circuit breakers: a policy that fails again and again is left alone for a while.

Closed: it is asked. After so many failures in a row the circuit opens: it is not asked until a
pause is over. Then one selection tries it (half open): success closes the circuit, failure
doubles the pause.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

FAILURES_TO_OPEN: Final = 5
"""Failures in a row after which a policy is left alone."""

FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 300.0

TRIAL_S: Final = 5.0
"""A trial whose end nobody reported counts as never made after so long."""

IDLE_S: Final = 2 * LONGEST_PAUSE_S
"""A breaker that nobody asked for so long is forgotten: its policy serves no more."""


@dataclass(frozen=True, slots=True)
class Circuit:
    """State of one breaker; times are seconds of a clock that never goes back.

    Attributes:
        n_failures: Failures in a row.
        pause_s: How long the next pause is.
        opens_until_s: Before this the policy is not asked; None while the circuit is closed.
        trial_s: When the one trial of a half open circuit began; None without one under way.
    """

    n_failures: int = 0
    pause_s: float = FIRST_PAUSE_S
    opens_until_s: float | None = None
    trial_s: float | None = None


def admit(circuit: Circuit, now_s: float) -> tuple[bool, Circuit]:
    """Whether the policy may be asked now, and the state after asking."""
    if circuit.opens_until_s is None:
        return True, circuit
    is_tried = circuit.trial_s is not None and now_s < circuit.trial_s + TRIAL_S
    if now_s < circuit.opens_until_s or is_tried:
        return False, circuit
    return True, replace(circuit, trial_s=now_s)


def settle(circuit: Circuit, now_s: float, *, failed: bool) -> Circuit:
    """The state after the policy was asked and answered, or failed."""
    if not failed:
        return Circuit()
    n_failures = circuit.n_failures + 1
    if circuit.trial_s is None and n_failures < FAILURES_TO_OPEN:
        return replace(circuit, n_failures=n_failures)
    if circuit.opens_until_s is not None and circuit.trial_s is None:
        # Asked before the circuit opened, answered after: the pause is on already.
        return replace(circuit, n_failures=n_failures)
    return Circuit(
        n_failures=n_failures,
        pause_s=min(2 * circuit.pause_s, LONGEST_PAUSE_S),
        opens_until_s=now_s + circuit.pause_s,
    )


class Breakers:
    """The breakers of one process, by whatever names what may fail.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        # Only what failed of late is here: the usual case is one look into an empty dict.
        self._troubled: dict[Hashable, Circuit] = {}
        self._asked_s: dict[Hashable, float] = {}

    @property
    def is_calm(self) -> bool:
        """True if nothing failed of late."""
        return not self._troubled

    def admits(self, name: Hashable) -> bool:
        """True if it may be asked now; each True asks for one `settle`."""
        circuit = self._troubled.get(name)
        if circuit is None:
            return True
        now_s = self._asked_s[name] = self._clock()
        admitted, self._troubled[name] = admit(circuit, now_s)
        return admitted

    def settle(self, name: Hashable, *, failed: bool) -> None:
        """Say what became of asking it."""
        if not failed:
            if name in self._troubled:
                self._forget(name)
            return
        now_s = self._asked_s[name] = self._clock()
        circuit = self._troubled.get(name, Circuit())
        self._troubled[name] = settle(circuit, now_s, failed=True)

    def _forget(self, name: Hashable) -> None:
        self._troubled.pop(name, None)
        self._asked_s.pop(name, None)

    def n_open(self) -> int:
        """How many are left alone now."""
        now_s = self._clock()
        for name, asked_s in list(self._asked_s.items()):
            if now_s > asked_s + IDLE_S:
                self._forget(name)
        circuits = list(self._troubled.values())
        return sum(circuit.opens_until_s is not None for circuit in circuits)
