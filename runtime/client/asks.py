"""What a caller asks and reports, and what it is told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from canopy.domain.clock import now
from canopy.domain.episode import PRIMARY_METRIC, EpisodeKind


def _fresh_id() -> str:
    return str(uuid4())


@dataclass(frozen=True, slots=True)
class SelectionAsk:
    """One request for a plan.

    Attributes:
        discipline: Which catalog and policy choose.
        unit_id: Whom the decision concerns.
        context: What is known before choosing, by feature name.
        request_id: Key of retries; a fresh one where none is given.
        allowed: Plans possible now; None leaves it to the catalog's rules.
        override: A plan the caller imposes; None draws.
        kind: Real or synthetic traffic.
    """

    discipline: str
    unit_id: str
    context: Mapping[str, Any]
    request_id: str = field(default_factory=_fresh_id)
    allowed: Sequence[str] | None = None
    override: str | None = None
    kind: EpisodeKind = EpisodeKind.REAL

    def body(self, tenant: str) -> dict[str, Any]:
        """The request as it is sent on a tenant's behalf."""
        return {
            "request_id": self.request_id,
            "tenant": tenant,
            "discipline": self.discipline,
            "unit_id": self.unit_id,
            "context": dict(self.context),
            "allowed": None if self.allowed is None else list(self.allowed),
            "override": self.override,
            "kind": self.kind.value,
        }


@dataclass(frozen=True, slots=True)
class Selected:
    """The plan to serve.

    Attributes:
        request_id: What the choice was asked for under.
        plan: The plan to serve.
        decision_id: Name of the stored decision; None for a local choice not yet told.
        propensity: Probability of that plan; None where it was not drawn.
        served: Whether the plan is the plan drawn.
        mode: State of the discipline's candidate; None for a local choice not yet told.
        arm: Side of a canary; None outside one.
        reasons: Why this plan, most important first; empty for a local choice.
        is_local: True if nobody answered in time and the local default stands in.
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


def selected(request_id: str, answer: Mapping[str, Any]) -> Selected:
    """A service's answer to a request."""
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


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement of what a decision led to.

    Attributes:
        decision: The choice, or its decision's id.
        value: The measurement; None where it was looked for and could not be measured.
        metric: What was measured.
        unit: Unit of `value`; None for a plain number.
        window_days: Time after the decision that it covers; None if open.
        final: Whether no later measurement of this metric will come.
        observed_at: When, aware. Fixed here and not by the service, so that a report sent twice
            is one measurement.
    """

    decision: Selected | UUID
    value: float | None
    metric: str = PRIMARY_METRIC
    unit: str | None = None
    window_days: float | None = None
    final: bool = True
    observed_at: datetime = field(default_factory=now)

    def body(self, tenant: str, decision_id: UUID) -> dict[str, Any]:
        """The report as it is sent on a tenant's behalf."""
        return {
            "tenant": tenant,
            "decision_id": str(decision_id),
            "metric": self.metric,
            "value": self.value,
            "unit": self.unit,
            "window_days": self.window_days,
            "final": self.final,
            "observed_at": self.observed_at.isoformat(),
        }
