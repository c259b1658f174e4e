"""Changes of what serves that need a reason and no gate: less exposure, and a canary's share.

Raising a mode is promotion and goes through its gate, which is not here.
"""

from dataclasses import replace

from canopy.domain.decision import Mode
from canopy.domain.errors import InputError
from canopy.storage.rows import PolicyState
from canopy.storage.unit_of_work import UnitOfWork
from policy.modes import Change, transition

LOWER = "lower"
"""How transitions to less exposure are named."""

RAMP = "ramp"
"""How changes of a canary's share are named."""


def mode_of(state: PolicyState) -> Mode | None:
    """How far the candidate has come, or the champion without one; None where neither is."""
    if state.candidate is not None:
        return state.mode
    return None if state.champion is None else Mode.ON


def lower(
    work: UnitOfWork, discipline: str, to: Mode | None, *, actor: str, reason: str
) -> PolicyState:
    """Expose the candidate, or the champion where there is none, less than now.

    A champion that is lowered becomes a candidate again (or goes), and the champion before it
    serves; where there was none, the doctrine policy does.

    Args:
        work: The tenant whose pointer it is.
        discipline: The craft.
        to: The mode; None takes the candidate out.
        actor: Who does it.
        reason: Why, in words.

    Returns:
        The new state.

    Raises:
        InputError: If that is no less than now, there is nothing to lower, the mode would be a
            canary, or the lowered policy chooses from another catalog than what would serve.
    """
    state = work.states.get(discipline)
    current = mode_of(state)
    place = f"mode of {discipline}"
    if transition(current, to).change is not Change.LOWER:
        now = "there is no policy to lower" if current is None else f"it is {current} now"
        raise InputError(place, f"{to or 'none'} is not less: {now}.", "See `canopy policy list`.")
    if to is Mode.CANARY:
        raise InputError(
            place,
            "a policy that serves everybody cannot go back into a canary.",
            "Lower it to observation, then raise it to a canary again.",
        )
    target = state if state.candidate is not None else _without_champion(work, state)
    target = replace(target, mode=to or Mode.ON, canary_salt=None, canary_share=None)
    if to is None:
        target = replace(target, candidate=None)
    return _moved(work, state, target, actor=actor, reason=reason, action=LOWER)


def _without_champion(work: UnitOfWork, state: PolicyState) -> PolicyState:
    """The state with the champion as candidate and the one before it serving.

    Raises:
        InputError: If the two choose from different catalogs.
    """
    before = next(
        (
            row.champion
            for row in reversed(work.states.transitions(state.discipline))
            if row.tenant_id == state.tenant_id and row.champion != state.champion
        ),
        None,
    )
    lowered = work.policies.get(state.champion or "").catalog_hash
    serving = lowered if before is None else work.policies.get(before).catalog_hash
    if serving != lowered:
        raise InputError(
            f"mode of {state.discipline}",
            "the champion before it chooses from another catalog, so that the two cannot be "
            "compared.",
            "Lower it to none.",
        )
    return replace(state, champion=before, candidate=state.champion, catalog_hash=serving)


def set_share(
    work: UnitOfWork, discipline: str, share: float, *, actor: str, reason: str
) -> PolicyState:
    """Change the share of a canary that runs; its salt stays.

    Each unit keeps its own number, so that a growing share only adds units to the treatment.

    Args:
        work: The tenant whose pointer it is.
        discipline: The craft.
        share: Share of units that the candidate serves, from 0 to 1.
        actor: Who does it.
        reason: Why, in words.

    Returns:
        The new state.

    Raises:
        InputError: If no canary runs, or the share is none.
    """
    state = work.states.get(discipline)
    if state.mode is not Mode.CANARY or state.candidate is None:
        raise InputError(
            f"share of {discipline}", "no canary runs.", "Raise a candidate to canary first."
        )
    target = replace(state, canary_share=share)
    return _moved(work, state, target, actor=actor, reason=reason, action=RAMP)


def _moved(
    work: UnitOfWork,
    state: PolicyState,
    target: PolicyState,
    *,
    actor: str,
    reason: str,
    action: str,
) -> PolicyState:
    return work.states.transition(
        state.discipline,
        champion=target.champion,
        candidate=target.candidate,
        mode=target.mode,
        catalog_hash=target.catalog_hash,
        actor=actor,
        reason=reason,
        action=action,
        expected_version=state.version,
        canary_salt=target.canary_salt,
        canary_share=target.canary_share,
    )
