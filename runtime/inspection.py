"""Looking at policies: what is registered, what each says of itself, and what it serves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from canopy.domain.errors import NotFoundError
from canopy.domain.intervention import EVERY_DISCIPLINE, InterventionKind
from canopy.settings import Settings
from canopy.storage.control_rows import InterventionRow
from canopy.storage.database import Database
from canopy.storage.rows import PolicyState, TransitionRow
from canopy.storage.servers import endpoints_if_running
from canopy.storage.unit_of_work import UnitOfWork
from runtime.catalog_changes import catalog_in_force
from runtime.registry import is_artifact_folder, resolve_policy

_BULKY: Final = ("probe", "kernel", "parameters")
"""Parts of a manifest that prove it and tell a reader little."""


@dataclass(frozen=True, slots=True)
class ListedPolicy:
    """A registered policy.

    Attributes:
        policy_id: Its id.
        discipline: The craft it was trained for.
        role: What it serves as; None where it serves nothing.
        manifest: What it says of itself.
        created_at: When it was registered.
    """

    policy_id: str
    discipline: str
    role: str | None
    manifest: Mapping[str, Any]
    created_at: datetime

    def document(self) -> dict[str, Any]:
        """The policy as JSON."""
        return {
            "policy_id": self.policy_id,
            "discipline": self.discipline,
            "role": self.role,
            "created_at": self.created_at.isoformat(),
            "manifest": _brief(self.manifest),
        }


def list_policies(work: UnitOfWork, discipline: str | None = None) -> list[ListedPolicy]:
    """Registered policies that the tenant sees, newest first, with the role of each."""
    states = work.states.all()
    return [
        ListedPolicy(
            policy_id=row.policy_id,
            discipline=row.discipline,
            role=_roles(states, row.policy_id),
            manifest=row.manifest,
            created_at=row.created_at,
        )
        for row in work.policies.list(discipline)
    ]


def _roles(states: Sequence[PolicyState], policy_id: str) -> str | None:
    found = [
        f"{role} of {state.discipline}"
        for state in states
        if (role := role_in(state, policy_id)) is not None
    ]
    return ", ".join(found) or None


def role_in(state: PolicyState, policy_id: str) -> str | None:
    """What a policy is in a state: `champion`, `candidate (mode)`, or None."""
    if state.champion == policy_id:
        return "champion"
    if state.candidate == policy_id:
        return f"candidate ({state.mode})"
    return None


def state_document(state: PolicyState) -> dict[str, Any]:
    """What serves a discipline, as plain values."""
    return {
        "discipline": state.discipline,
        "owner": state.tenant_id,
        "champion": state.champion,
        "candidate": state.candidate,
        "mode": state.mode.value,
        "canary_share": state.canary_share,
        "canary_salt": state.canary_salt,
        "version": state.version,
    }


def intervention_document(row: InterventionRow) -> dict[str, Any]:
    """An intervention as plain values."""
    return {
        "kind": row.kind.value,
        "tenant": row.tenant_id,
        "discipline": row.discipline or None,
        "is_on": row.is_on,
        "plan": row.plan,
        "version": row.version,
        "actor": row.actor,
        "reason": row.reason,
        "created_at": row.created_at.isoformat(),
    }


def standing_documents(work: UnitOfWork, discipline: str | None = None) -> list[dict[str, Any]]:
    """The stops and pins that concern a tenant, its own and the fleet's, as plain values.

    Args:
        work: The tenant whose selections they concern.
        discipline: Only those on its selections of this craft; None for all.

    Returns:
        One document each; `fits` is False for a pin whose plan the catalog in force lacks: it is
        passed over.
    """
    return [
        intervention_document(row) | {"fits": _fits(work, row)}
        for row in work.interventions.standing()
        if discipline is None or row.discipline in {discipline, EVERY_DISCIPLINE}
    ]


def _fits(work: UnitOfWork, row: InterventionRow) -> bool:
    if row.kind is not InterventionKind.PIN:
        return True
    try:
        return catalog_in_force(work, row.discipline).find(row.plan) is not None
    except NotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class Described:
    """Everything there is to say about one policy.

    Attributes:
        policy_id: Its id.
        manifest: What it says of itself.
        parity: How its probe batch agreed: `bits` or `tolerance`.
        states: Where it serves now; None where the record was not asked.
        transitions: Changes that name it, oldest first.
        standing: Stops and pins on selections of its discipline, as plain values.
    """

    policy_id: str
    manifest: Mapping[str, Any]
    parity: str
    states: tuple[PolicyState, ...] | None
    transitions: tuple[TransitionRow, ...]
    standing: tuple[dict[str, Any], ...] = ()

    def role(self, state: PolicyState) -> str | None:
        """What it is in a state."""
        return role_in(state, self.policy_id)

    def document(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "policy_id": self.policy_id,
            "parity": self.parity,
            "manifest": _brief(self.manifest),
            "states": None
            if self.states is None
            else [
                {
                    "discipline": state.discipline,
                    "owner": state.tenant_id,
                    "role": self.role(state),
                    "mode": state.mode.value,
                    "canary_share": state.canary_share,
                    "version": state.version,
                    "since": None if state.updated_at is None else state.updated_at.isoformat(),
                }
                for state in self.states
            ],
            "transitions": [
                {
                    "created_at": change.created_at.isoformat(),
                    "discipline": change.discipline,
                    "owner": change.tenant_id,
                    "version": change.version,
                    "action": change.action,
                    "champion": change.champion,
                    "candidate": change.candidate,
                    "mode": change.mode.value,
                    "canary_share": change.canary_share,
                    "actor": change.actor,
                    "reason": change.reason,
                    "evidence_ids": list(change.evidence_ids),
                }
                for change in self.transitions
            ],
            "interventions": list(self.standing),
        }


def describe_policy(settings: Settings, tenant: str, name: str) -> Described:
    """A policy by folder, id or beginning of an id; a folder needs no server to be running.

    Args:
        settings: The installation's.
        tenant: Whose record to ask.
        name: Folder, id or unique beginning of an id.

    Raises:
        ArtifactError: If the artifact does not verify.
        NotFoundError: If nothing of that name is registered.
    """
    if is_artifact_folder(name) and endpoints_if_running(settings) is None:
        artifact = resolve_policy(None, tenant, name)
        return Described(artifact.policy_id, artifact.manifest, artifact.parity, None, ())
    with Database.connect(settings) as database:
        artifact = resolve_policy(database, tenant, name)
        with database.unit_of_work(tenant) as work:
            states, transitions = _history(work, artifact.policy_id)
            standing = tuple(standing_documents(work, artifact.catalog.discipline))
    return Described(
        artifact.policy_id, artifact.manifest, artifact.parity, states, transitions, standing
    )


def _history(
    work: UnitOfWork, policy_id: str
) -> tuple[tuple[PolicyState, ...], tuple[TransitionRow, ...]]:
    states = work.states.all()
    serving = tuple(state for state in states if role_in(state, policy_id))
    changes = [
        change
        for state in states
        for change in work.states.transitions(state.discipline)
        if policy_id in {change.champion, change.candidate}
    ]
    return serving, tuple(changes)


def _brief(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name not in _BULKY}
