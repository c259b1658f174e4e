"""What storage keeps and gives back: frozen values, one class per kind of row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from canopy.domain.decision import Arm, Mode
from canopy.domain.episode import EpisodeKind

WHOLE_DISTRIBUTION_PLANS: Final = 256
"""Up to so many plans a distribution is stored whole; above, as propensity, mask and digest."""


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One decision as it is recorded, before anything is known of its outcome.

    Attributes:
        tenant_id: Whose decision it is.
        decision_id: Its identity; version 7 where it was made here.
        decided_at: When, aware; picks the monthly partition.
        request_id: The caller's key for retries; None where the row was not asked for here.
        body_hash: Content hash of the request's body; None with `request_id`.
        discipline: The craft that asked.
        unit_id: What is randomised and clustered by.
        kind: Real, synthetic or imported; never changes.
        plan: Id of the plan served.
        action: Its index in the catalog; None where the catalog is not known.
        propensity: Probability of `plan` under `logging`; None where it was not drawn.
        served: True if the plan drawn is the plan served.
        mode: State of the candidate at the time; None for decisions made elsewhere.
        arm: Side of the canary; None outside one.
        arm_share: Probability of that arm; None outside a canary.
        reasons: Why, most important first.
        catalog_hash: Catalog chosen from; None where not known.
        feature_hash: Feature schema read; None where none was.
        policy_id: Policy drawn from; None for the doctrine policy and for other people's.
        kernel: Numeric fingerprint; None for decisions made elsewhere.
        floor: Exploration floor mixed in; None where not known.
        u: Uniform number of the draw, in [0, 1); None where not known.
        logging: Shape (n_plans,) little-endian float64: what was drawn from. None where
            nothing was drawn, where it is not known, or above `WHOLE_DISTRIBUTION_PLANS`.
        logging_digest: Content hash of `logging` where it is too large to keep; else None.
        mask: Shape (n_plans,) packed bits, first plan in the highest bit: 1 = feasible; None
            where not known.
        n_plans: Plans in the catalog; None where not known.
        shadow_plan: The candidate's own choice; None without one.
        shadow: The candidate's distribution, as `logging`; never a propensity.
        context: What was known before choosing.
        reserved: True if the unit belongs to the reserve.
        keep_prob: Probability that the row was kept in its log, in (0, 1].
        policy_version: Version of the logging policy as an imported log names it.
    """

    tenant_id: str
    decision_id: UUID
    decided_at: datetime
    request_id: str | None
    body_hash: str | None
    discipline: str
    unit_id: str
    kind: EpisodeKind
    plan: str
    action: int | None
    propensity: float | None
    served: bool
    mode: Mode | None
    arm: Arm | None
    arm_share: float | None
    reasons: Sequence[str]
    catalog_hash: str | None
    feature_hash: str | None
    policy_id: str | None
    kernel: str | None
    floor: float | None
    u: float | None
    logging: bytes | None
    logging_digest: str | None
    mask: bytes | None
    n_plans: int | None
    shadow_plan: str | None
    shadow: bytes | None
    context: Mapping[str, Any]
    reserved: bool
    keep_prob: float = 1.0
    policy_version: str | None = None


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A decision of somebody's log with its reward.

    Attributes:
        decision: The decision.
        reward: The reward; None where it was not measured, and no outcome is then recorded.
    """

    decision: DecisionRow
    reward: float | None


@dataclass(frozen=True, slots=True)
class ExportRow:
    """What a canonical log needs of an episode; fields as in `DecisionRow`.

    Attributes:
        decision_id: Identity of the decision.
        unit_id: What is randomised and clustered by.
        decided_at: When, aware.
        plan: Id of the plan served.
        action: Its index in the catalog; None where not known.
        propensity: Probability of `plan`; None where it was not drawn.
        reward: Newest final outcome of the asked metric; None where unmeasured.
        logging: The distribution drawn from; None as in `DecisionRow`.
        logging_digest: Content hash of a distribution too large to keep.
        mask: Packed feasibility; None where not known.
        n_plans: Plans in the catalog; None where not known.
        context: What was known before choosing.
        keep_prob: Probability that the row was kept in its log.
        policy_id: Policy drawn from; None as in `DecisionRow`.
        policy_version: Version of the logging policy as an imported log names it.
        catalog_hash: Catalog chosen from; None where not known.
        floor: Exploration floor mixed in; None where not known.
        kernel: Numeric fingerprint; None for decisions made elsewhere.
        kind: Real, synthetic or imported.
        reserved: True if the unit belongs to the reserve.
    """

    decision_id: UUID
    unit_id: str
    decided_at: datetime
    plan: str
    action: int | None
    propensity: float | None
    reward: float | None
    logging: bytes | None
    logging_digest: str | None
    mask: bytes | None
    n_plans: int | None
    context: Mapping[str, Any]
    keep_prob: float
    policy_id: str | None
    policy_version: str | None
    catalog_hash: str | None
    floor: float | None
    kernel: str | None
    kind: EpisodeKind
    reserved: bool


@dataclass(frozen=True, slots=True)
class CatalogRow:
    """A stored version of a catalog; `text` is its YAML."""

    tenant_id: str
    catalog_hash: str
    discipline: str
    version: str
    text: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy artifact, whole.

    Attributes:
        policy_id: Content hash of the manifest.
        discipline: The craft it chooses for.
        catalog_hash: Catalog it was trained on.
        feature_hash: Feature schema it reads; None where it reads none.
        manifest: Everything the artifact says of itself.
        archive: The packed folder.
    """

    policy_id: str
    discipline: str
    catalog_hash: str
    feature_hash: str | None
    manifest: Mapping[str, Any]
    archive: bytes


@dataclass(frozen=True, slots=True)
class PolicySummary:
    """A stored policy without its archive; fields as in `PolicyRow`."""

    policy_id: str
    discipline: str
    catalog_hash: str
    feature_hash: str | None
    manifest: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What serves a discipline now.

    Attributes:
        discipline: The craft.
        champion: Policy that serves; None: the doctrine policy.
        candidate: Policy on its way; None without one.
        mode: How far the candidate has come.
        catalog_hash: Catalog to choose from; None where none was set.
        version: Counts the transitions of the owner; 0 before the first.
        tenant_id: Owner of the pointer: the tenant itself, or the fleet; None before the first.
        updated_at: When it was last moved; None before the first.
        canary_salt: Name of the canary, which assigns its units; None outside one.
        canary_share: Share of units that the candidate serves; None outside a canary.
    """

    discipline: str
    champion: str | None
    candidate: str | None
    mode: Mode
    catalog_hash: str | None
    version: int
    tenant_id: str | None = None
    updated_at: datetime | None = None
    canary_salt: str | None = None
    canary_share: float | None = None


@dataclass(frozen=True, slots=True)
class TransitionRow:
    """One change of what serves a discipline, kept for ever; fields as in `PolicyState`.

    Attributes:
        tenant_id: Owner of the pointer.
        discipline: The craft.
        version: Its number, from 1.
        champion: Policy that serves from then on.
        candidate: Candidate from then on.
        mode: Mode from then on.
        catalog_hash: Catalog from then on.
        actor: Who changed it.
        reason: Why, in words.
        evidence_ids: Evidence it rests on.
        action: The command that made it, such as `promote` or `rollback`.
        created_at: When, aware.
        canary_salt: Name of the canary from then on.
        canary_share: Share of the candidate from then on.
    """

    tenant_id: str
    discipline: str
    version: int
    champion: str | None
    candidate: str | None
    mode: Mode
    catalog_hash: str | None
    actor: str
    reason: str
    evidence_ids: Sequence[str]
    action: str
    created_at: datetime
    canary_salt: str | None = None
    canary_share: float | None = None


@dataclass(frozen=True, slots=True)
class CorrectionRow:
    """A plan that a caller served, although the decision had given another; kept for ever."""

    decision_id: UUID
    plan: str
    reported_at: datetime


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """One finding about a policy.

    Attributes:
        evidence_id: Content hash; the same evidence is stored once.
        policy_id: The policy it is about.
        tier: Where it comes from.
        status: What it came to, as its tier words it.
        document: The evidence, whole.
        created_at: When it was found, aware.
    """

    evidence_id: str
    policy_id: str
    tier: str
    status: str
    document: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """A recorded outcome of a decision; fields as in `canopy.domain.episode.Outcome`."""

    decision_id: UUID
    metric: str
    value: float | None
    unit: str | None
    window: float | None
    observed_at: datetime
    final: bool
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a submitted decision.

    Attributes:
        decision_id: The decision that stands for the request.
        is_new: False if the request was answered before; the row handed in was then dropped.
        body_hash: Body hash of the decision that stands: another one than the caller's is a
            conflict.
    """

    decision_id: UUID
    is_new: bool
    body_hash: str | None = None
