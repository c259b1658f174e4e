"""Promotion: stored evidence against a gate, and on a pass one audited transition.

Everything is decided in one transaction: the evidence that was read is the evidence that the
transition names, and a state that moves meanwhile stops it.
"""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from canopy.domain.clock import now
from canopy.domain.decision import Mode
from canopy.domain.errors import ArtifactError, InputError
from canopy.domain.evidence import (
    Evidence,
    EvidenceStatus,
    Gate,
    GateReport,
    Lineage,
    Tier,
    judge_gate,
)
from canopy.storage.database import Database
from canopy.storage.rows import EvidenceRow, PolicyRow, PolicyState
from canopy.storage.unit_of_work import UnitOfWork
from eval.gates import gate_for, shipped_gate
from eval.golden import find_golden
from eval.tiers.verifiers import verifier_inputs
from policy.modes import Change, transition

ACTION: Final = "promote"
"""How transitions made here are named."""

_SALT_BYTES: Final = 8


def promote(
    database: Database,
    tenant: str,
    discipline: str,
    policy: str,
    to: Mode,
    gate: Gate | None = None,
    actor: str = "canopy",
    reason: str = "the gate passed",
    canary_share: float | None = None,
) -> GateReport:
    """Raise a policy to a mode if the gate of that mode lets it through.

    Args:
        database: Where policies, evidence and pointers are.
        tenant: Whose pointer to move; the fleet's serves every tenant without its own.
        discipline: The craft to serve.
        policy: Id of a registered policy, or the unique beginning of one.
        to: The mode: `on` makes it the champion, else it becomes the candidate.
        gate: The demands; None takes the shipped gate of the mode.
        actor: Who asks.
        reason: Why, in words.
        canary_share: Share of units that a canary begins with; needed for `canary`, and None
            for every other mode.

    Returns:
        The gate's verdict. Where it did not pass nothing has changed; where the policy already
        is what it was to become, nothing needed to.

    Raises:
        InputError: If there is no gate for the mode, the gate is another mode's, the mode would
            be lowered, a canary lacks its share, the candidate chooses from another catalog than
            the champion, or the state moved meanwhile.
        NotFoundError: If no such policy is registered.
    """
    gate = gate or shipped_gate(to)
    if gate.mode is not to:
        raise InputError(
            f"--to {to}", f"the gate is one for {gate.mode}.", f"Name a gate whose mode is {to}."
        )
    _check_share(to, canary_share)
    with database.unit_of_work(tenant) as work:
        row = work.policies.get(policy)
        state = work.states.get(discipline)
        report = judge_gate(
            gate_for(gate, discipline),
            stored_evidence(work, row.policy_id),
            training_lineage(row.manifest),
            row.policy_id,
            now(),
            inputs=todays_inputs(row),
        )
        target = _target(work, state, row, to, canary_share)
        if report.passed and (target != state or state.tenant_id != tenant):
            work.states.transition(
                discipline,
                champion=target.champion,
                candidate=target.candidate,
                mode=to,
                catalog_hash=target.catalog_hash,
                actor=actor,
                reason=reason,
                evidence_ids=report.evidence_ids,
                action=ACTION,
                expected_version=state.version,
                canary_salt=target.canary_salt,
                canary_share=target.canary_share,
            )
    return report


def _check_share(to: Mode, share: float | None) -> None:
    """A share belongs to a canary and to nothing else.

    Raises:
        InputError: If it is missing, none, or named for another mode.
    """
    if to is Mode.CANARY and (share is None or not 0.0 <= share <= 1.0):
        raise InputError(
            "--share", f"a canary begins with a share of units, got {share}.", "Such as 0.05."
        )
    if to is not Mode.CANARY and share is not None:
        raise InputError("--share", f"{to} has no share.", "Leave it out.")


def stored_evidence(work: UnitOfWork, policy_id: str) -> list[Evidence]:
    """All stored evidence about a policy, oldest first."""
    return [
        Evidence.from_document(row.document, row.created_at)
        for row in work.evidence.for_policy(policy_id)
    ]


def evidence_row(evidence: Evidence) -> EvidenceRow:
    """Evidence as storage keeps it."""
    return EvidenceRow(
        evidence_id=evidence.evidence_id,
        policy_id=evidence.policy_id,
        tier=evidence.tier.value,
        status=EvidenceStatus(evidence.status).value,
        document=evidence.document(),
        created_at=evidence.created_at,
    )


def training_lineage(manifest: Mapping[str, Any]) -> Lineage | None:
    """What touched a policy's training, as its manifest states it; None if it does not.

    Raises:
        ArtifactError: If it names a kind of thing that no lineage has.
    """
    stated = manifest.get("lineage")
    if not isinstance(stated, Mapping):
        return None
    try:
        return Lineage.from_document(stated)
    except TypeError as error:
        raise ArtifactError(
            "manifest, lineage",
            f"names a kind that no lineage has: {error}.",
            "Export the policy again with the kinds of `canopy.domain.evidence.Lineage`.",
        ) from error


def todays_inputs(row: PolicyRow) -> dict[Tier, str]:
    """What evidence must have been computed from to speak of the policy as it would serve now."""
    return {Tier.VERIFIERS: verifier_inputs(row.policy_id, find_golden(row.discipline))}


def _target(
    work: UnitOfWork, state: PolicyState, row: PolicyRow, to: Mode, share: float | None
) -> PolicyState:
    """The state that a pass leads to.

    Raises:
        InputError: If it would expose the policy less than now, or the candidate's catalog is
            not the champion's.
    """
    current = None
    if state.champion == row.policy_id:
        current = Mode.ON
    elif state.candidate == row.policy_id:
        current = state.mode
    if transition(current, to).change is Change.LOWER:
        raise InputError(
            f"--to {to}", f"the policy is {current} already.", "Promotion never lowers a mode."
        )
    if to is Mode.ON:
        return replace(
            state,
            champion=row.policy_id,
            candidate=None,
            mode=to,
            catalog_hash=row.catalog_hash,
            canary_salt=None,
            canary_share=None,
        )
    catalog_hash = state.catalog_hash or row.catalog_hash
    if state.champion is not None:
        catalog_hash = work.policies.get(state.champion).catalog_hash
    if catalog_hash != row.catalog_hash:
        raise InputError(
            f"policy {row.policy_id[:12]}",
            "chooses from another catalog than what serves now, so that their choices cannot be "
            "compared.",
            "Train a candidate on the catalog that serves.",
        )
    salt = None
    if to is Mode.CANARY:
        # Fresh for each canary: who was in the last one's treatment says nothing of this one.
        is_running = current is Mode.CANARY
        salt = state.canary_salt if is_running else secrets.token_hex(_SALT_BYTES)
    return replace(
        state,
        candidate=row.policy_id,
        mode=to,
        catalog_hash=catalog_hash,
        canary_salt=salt,
        canary_share=share,
    )
