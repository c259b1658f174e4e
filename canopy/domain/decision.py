"""Decisions: what was chosen, from which distribution, and why."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Mode(StrEnum):
    """How far a candidate policy has come on a discipline."""

    OBSERVATION = "observation"
    """The champion serves; the candidate's choice is logged beside it."""
    CANARY = "canary"
    """Units are split by a stable hash: control has the champion, treatment the candidate."""
    ON = "on"
    """The policy serves everybody, with its exploration floor."""


class Arm(StrEnum):
    """The side of a canary a unit was assigned to."""

    CONTROL = "control"
    TREATMENT = "treatment"


class Reason(StrEnum):
    """Why a decision came out as it did. Only the first two carry a propensity."""

    DRAWN = "drawn"
    """Drawn from the policy's floored distribution over the feasible plans."""
    DOCTRINE = "doctrine"
    """No champion: drawn from the catalog's doctrine policy."""
    OVERRIDDEN = "overridden"
    """A caller imposed the plan."""
    PINNED = "pinned"
    """A standing pin imposed the plan."""
    KILLED = "killed"
    """A kill switch is set: the default plan is served."""
    NO_FEASIBLE_PLAN = "no_feasible_plan"
    """Every plan is masked: the default plan is served."""
    NON_FINITE_SCORES = "non_finite_scores"
    """The policy scored NaN or +inf: the default plan is served."""
    POLICY_UNAVAILABLE = "policy_unavailable"
    """The pointed-to artifact could not be loaded: the default plan is served."""
    POLICY_FAILED = "policy_failed"
    """The policy failed while it scored: the default plan is served."""
    POLICY_SUSPENDED = "policy_suspended"
    """The policy failed too often in a row and is left alone for a while: the default plan is
    served."""
    SHADOW_FAILED = "shadow_failed"
    """Stands second: the candidate gave no choice to log beside; what is served is not touched."""


class Vector(Protocol):
    """A read-only float64 vector; numpy arrays are one, and the domain needs no numpy."""

    def __len__(self) -> int: ...
    def tobytes(self) -> bytes: ...  # noqa: D102
    def tolist(self) -> Any: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Versions:
    """Everything whose change could change a decision.

    Attributes:
        catalog: Content hash of the catalog.
        features: Hash of the feature schema; None where no policy read features.
        policy: Id of the policy artifact; None for the doctrine policy and fallbacks.
        kernel: Numeric fingerprint: equal fingerprints promise equal bits.
    """

    catalog: str
    features: str | None
    policy: str | None
    kernel: str


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice of a plan, as `policy.selector.select` made it.

    Attributes:
        plan: Id of the plan to serve.
        action: Its index in the catalog.
        distribution: Shape (n_plans,): what the plan was drawn from; exactly 0 where masked;
            None where nothing was drawn.
        propensity: Probability of `plan` under `distribution`; None where the served plan is
            not what was drawn, and the row is then out of off-policy estimates.
        served: True if the plan to serve is the plan drawn.
        mode: State of the discipline's candidate at the time.
        arm: Side of the canary; None outside a canary.
        arm_share: Probability of that arm; None outside a canary.
        reasons: Why, most important first.
        versions: What it was made with.
        mask: Shape (n_plans,) bool: True = feasible.
        u: The uniform number of the draw, derived from the request id.
        floor: Exploration floor mixed in.
        shadow_plan: The candidate's own choice in observation; None without a candidate.
        shadow: The candidate's distribution; never a propensity.
    """

    plan: str
    action: int
    distribution: Vector | None
    propensity: float | None
    served: bool
    mode: Mode
    arm: Arm | None
    reasons: tuple[Reason, ...]
    versions: Versions
    mask: Vector
    u: float
    floor: float
    arm_share: float | None = None
    shadow_plan: str | None = None
    shadow: Vector | None = None
