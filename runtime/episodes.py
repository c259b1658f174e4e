"""Decisions as episodes: the row a selection leaves, and what is read back from it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt

from canopy.domain.decision import Decision
from canopy.domain.episode import EpisodeKind, is_reserved
from canopy.domain.ids import content_hash
from canopy.storage.rows import WHOLE_DISTRIBUTION_PLANS, DecisionRow
from policy.catalog import Catalog
from policy.masks import NOT_ALLOWED, mask_context

SHOWN_PLANS: Final = 256
"""Masked plans listed one by one; the counts by reason cover all."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for a selection, already validated.

    Attributes:
        tenant: Whose decision it is.
        request_id: The caller's key for retries.
        discipline: The craft that asks.
        unit_id: What is randomised and clustered by.
        context: What is known before choosing.
        allowed: Plans possible right now; None leaves it to the catalog's rules.
        override: Plan the caller imposes; None draws.
        kind: Real or synthetic.
        body_hash: Content hash of everything above but tenant and request id.
    """

    tenant: str
    request_id: str
    discipline: str
    unit_id: str
    context: dict[str, Any]
    allowed: tuple[str, ...] | None
    override: str | None
    kind: EpisodeKind
    body_hash: str

    @property
    def key(self) -> str:
        """What the draw is derived from."""
        return draw_key(self.tenant, self.request_id)


def draw_key(tenant: str, request_id: str) -> str:
    """What a draw is derived from; the length keeps two pairs from meeting."""
    return f"{len(tenant)}:{tenant}:{request_id}"


def decision_row(
    ask: Ask, decision: Decision, *, decision_id: UUID, decided_at: datetime
) -> DecisionRow:
    """The row that records a selection.

    Args:
        ask: The request.
        decision: What was chosen for it.
        decision_id: Identity of the row.
        decided_at: When, aware.

    Returns:
        The row, with distributions whole up to 256 plans and as a digest above.
    """
    logging, digest = _stored_distribution(decision.distribution)
    shadow, _ = _stored_distribution(decision.shadow)
    versions = decision.versions
    return DecisionRow(
        tenant_id=ask.tenant,
        decision_id=decision_id,
        decided_at=decided_at,
        request_id=ask.request_id,
        body_hash=ask.body_hash,
        discipline=ask.discipline,
        unit_id=ask.unit_id,
        kind=ask.kind,
        plan=decision.plan,
        action=decision.action,
        propensity=decision.propensity,
        served=decision.served,
        mode=decision.mode,
        arm=decision.arm,
        arm_share=decision.arm_share,
        reasons=[reason.value for reason in decision.reasons],
        catalog_hash=versions.catalog,
        feature_hash=versions.features,
        policy_id=versions.policy,
        kernel=versions.kernel,
        floor=decision.floor,
        u=decision.u,
        logging=logging,
        logging_digest=digest,
        mask=np.packbits(np.asarray(decision.mask, dtype=bool)).tobytes(),
        n_plans=len(decision.mask),
        shadow_plan=decision.shadow_plan,
        shadow=shadow,
        context=ask.context,
        reserved=is_reserved(ask.unit_id),
    )


def _stored_distribution(distribution: Any) -> tuple[bytes | None, str | None]:
    if distribution is None:
        return None, None
    raw = np.asarray(distribution, dtype="<f8").tobytes()
    if len(distribution) <= WHOLE_DISTRIBUTION_PLANS:
        return raw, None
    return None, content_hash(raw)


def stored_vector(raw: bytes | None) -> npt.NDArray[np.float64] | None:
    """A distribution as the record keeps it, shape (n_plans,); None where it keeps none."""
    return None if raw is None else np.frombuffer(raw, dtype="<f8")


def stored_mask(row: DecisionRow) -> npt.NDArray[np.bool_] | None:
    """Which plans were feasible, shape (n_plans,); None where the record does not say."""
    if row.mask is None or row.n_plans is None:
        return None
    bits = np.unpackbits(np.frombuffer(row.mask, dtype=np.uint8), count=row.n_plans)
    return bits.astype(bool)


@dataclass(frozen=True, slots=True)
class MaskedPlans:
    """Which plans could not be served, and why.

    Attributes:
        n_masked: How many.
        shown: Plan id and reason of the first of them, in catalog order.
        by_reason: How many plans each reason masked.
    """

    n_masked: int
    shown: tuple[tuple[str, str], ...]
    by_reason: dict[str, int]


def masked_plans(row: DecisionRow, catalog: Catalog) -> MaskedPlans:
    """Explain the mask of a stored decision by the rules of its catalog.

    Args:
        row: The stored decision.
        catalog: The catalog it was chosen from.

    Returns:
        The masked plans; none where the record holds no mask.
    """
    feasible = stored_mask(row)
    if feasible is None:
        return MaskedPlans(0, (), {})
    ruled = mask_context(catalog, row.context)
    masked = [int(action) for action in np.flatnonzero(~feasible)]
    reasons = [ruled.reason(action) or NOT_ALLOWED for action in masked]
    named = [(catalog.plan_ids[action], why) for action, why in zip(masked, reasons, strict=True)]
    return MaskedPlans(len(masked), tuple(named[:SHOWN_PLANS]), dict(Counter(reasons)))


def by_plan(raw: bytes | None, plan_ids: Sequence[str]) -> dict[str, float] | None:
    """A stored distribution as probability by plan id; None where the record keeps none."""
    vector = stored_vector(raw)
    return None if vector is None else dict(zip(plan_ids, vector.tolist(), strict=True))
