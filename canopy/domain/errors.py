"""The one tree of errors. Each names the place, what is wrong there, and the remedy.

Wrong input raises one of these; an honest "cannot say" (a refused estimate, a gate not
passed, a masked plan) is a value and never an exception. Positional arguments go to
`super().__init__` so that every class survives pickling.
"""

from typing import ClassVar

EXIT_DONE = 0
EXIT_BAD_INPUT = 1
EXIT_UNREACHABLE = 2
EXIT_REFUSED = 3


class CanopyError(Exception):
    """Root of all errors that Canopy raises on purpose."""

    exit_code: ClassVar[int] = EXIT_BAD_INPUT


class InputError(CanopyError, ValueError):
    """Something handed in is wrong; nothing was kept of it.

    Attributes:
        place: Where: a file with its line, a row with its column, a key, an argument.
        problem: What was expected there and what came.
        remedy: What to do about it.
    """

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        super().__init__(place, problem, remedy)
        self.place, self.problem, self.remedy = place, problem, remedy

    def __str__(self) -> str:
        return f"{self.place}: {self.problem} {self.remedy}".strip()


class SettingError(InputError):
    """A setting is unknown, malformed, or holds a secret that belongs elsewhere."""


class CatalogError(InputError):
    """A plan catalog is wrong; `place` is file:line:key."""


class FeatureError(InputError):
    """A context or a feature schema is wrong; `place` names the feature."""


class LogError(InputError):
    """A decision log is wrong; `place` names file, row (from 1) and column."""


class ArtifactError(InputError):
    """A policy artifact is incomplete, altered, or does not fit what it is asked to serve."""


class GateFileError(InputError):
    """A gate file or a golden set is wrong; `place` is file:key."""


class ConfigError(InputError):
    """A training configuration asks for something impossible; `place` is the key."""


class BodyTooLargeError(InputError):
    """A request body, or a part of it, is larger than the surface takes."""


class UnauthorizedError(InputError):
    """No key was presented, or one that is unknown, expired or revoked."""


class ForbiddenError(InputError):
    """The key presented does not permit this."""


class TrainingRefusedError(ConfigError):
    """The configuration asks for a policy that this log cannot support; none was written."""

    exit_code: ClassVar[int] = EXIT_REFUSED


class ShapeMismatchError(CanopyError, ValueError):
    """Two arrays that must describe the same rows do not."""

    def __init__(self, name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
        super().__init__(name, found, expected)
        self.name, self.found, self.expected = name, found, expected

    def __str__(self) -> str:
        return (
            f"{self.name} has shape {self.found}, expected {self.expected}: "
            "pass one row per logged decision."
        )


class RangeError(CanopyError, ValueError):
    """A number lies outside the range its meaning allows (NaN included)."""

    def __init__(self, name: str, row: int | None, found: float, expected: str) -> None:
        super().__init__(name, row, found, expected)
        self.name, self.row, self.found, self.expected = name, row, found, expected

    def __str__(self) -> str:
        where = self.name if self.row is None else f"{self.name}, row {self.row}"
        return f"{where}: expected {self.expected}, got {self.found}. Correct it or drop the row."


class NonFiniteScoreError(CanopyError, ArithmeticError):
    """A feasible plan scored NaN or +inf, so no distribution follows from the scores."""

    def __init__(self, action: int, found: float) -> None:
        super().__init__(action, found)
        self.action, self.found = action, found

    def __str__(self) -> str:
        return (
            f"the score of plan {self.action} is {self.found}: scores of feasible plans must be "
            "finite or -inf. Check the weights and the context's numbers."
        )


class NotFoundError(CanopyError, LookupError):
    """Something was named that is not there."""

    def __init__(self, noun: str, name: str, remedy: str) -> None:
        super().__init__(noun, name, remedy)
        self.noun, self.name, self.remedy = noun, name, remedy

    def __str__(self) -> str:
        return f"no {self.noun} named {self.name!r}. {self.remedy}"


class RequestConflictError(CanopyError, ValueError):
    """A request id came again with another body."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        return (
            f"request {self.request_id!r} was answered before for another body. "
            "Send the same body to read the same answer, or a new request_id."
        )


class RequestInFlightError(CanopyError, RuntimeError):
    """A request id is being answered right now."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        return f"request {self.request_id!r} is in flight. Retry after a second with the same body."


class RateLimitedError(CanopyError, RuntimeError):
    """A tenant, or a key, asks for more per second than it may."""

    def __init__(self, who: str, retry_after_s: float) -> None:
        super().__init__(who, retry_after_s)
        self.who, self.retry_after_s = who, retry_after_s

    def __str__(self) -> str:
        return f"{self.who} is over its rate. Retry after {self.retry_after_s:.3g} s."


class ServiceUnreachableError(CanopyError, ConnectionError):
    """A server that is needed does not answer."""

    exit_code: ClassVar[int] = EXIT_UNREACHABLE

    def __init__(self, service: str, problem: str, remedy: str) -> None:
        super().__init__(service, problem, remedy)
        self.service, self.problem, self.remedy = service, problem, remedy

    def __str__(self) -> str:
        return f"{self.service} is unreachable: {self.problem} {self.remedy}"


class SchemaBehindError(CanopyError, RuntimeError):
    """The database schema is not the one this code was written for."""

    exit_code: ClassVar[int] = EXIT_UNREACHABLE

    def __init__(self, found: str | None, expected: str) -> None:
        super().__init__(found, expected)
        self.found, self.expected = found, expected

    def __str__(self) -> str:
        return (
            f"the database schema is at {self.found or 'nothing'}, this code needs "
            f"{self.expected}. Run `canopy migrate`."
        )


class ProtectedRowError(CanopyError, PermissionError):
    """A rule of the record forbids the change: real episodes and audit rows stay."""

    def __init__(self, table: str, action: str) -> None:
        super().__init__(table, action)
        self.table, self.action = table, action

    def __str__(self) -> str:
        return (
            f"{self.action} on {self.table} is forbidden: real episodes are never removed. "
            "Only synthetic ones may be dropped by retention."
        )


class DemoStepError(CanopyError, RuntimeError):
    """A command of the demonstration ended otherwise than it should."""

    def __init__(self, command: str, code: int, stderr: str) -> None:
        super().__init__(command, code, stderr)
        self.command, self.code, self.stderr = command, code, stderr

    def __str__(self) -> str:
        tail = self.stderr.strip()[-2000:]
        return f"`{self.command}` ended with {self.code}. Run it by itself to see more. {tail}"
