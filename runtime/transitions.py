"""Changes of what serves that need a reason and no gate: less exposure, and a canary's share.

Raising a mode is promotion and goes through its gate, which is not here.
"""

from collections.abc import Iterable
from dataclasses import replace

from canopy.domain.decision import Mode
from canopy.domain.errors import InputError
from canopy.domain.tenant import FLEET
from canopy.storage.rows import PolicyState, TransitionRow
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
    serves; where there was none, the fleet's does, and else the doctrine policy.

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
            canary, or a champion would become the candidate of one with another catalog.
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
    target = state
    if state.candidate is None:
        target = _without_champion(work, state)
        if to is not None:
            _check_same_catalog(work, target)
    if to is None:
        target = replace(target, candidate=None)
    target = replace(target, mode=to or Mode.ON, canary_salt=None, canary_share=None)
    return _moved(work, state, target, actor=actor, reason=reason, action=LOWER)


def _without_champion(work: UnitOfWork, state: PolicyState) -> PolicyState:
    """The state with the champion as candidate and the one before it serving."""
    before = champion_before(work.states.transitions(state.discipline), state.tenant_id or FLEET)
    serving = work.policies.get(before or state.champion or "").catalog_hash
    return replace(state, champion=before, candidate=state.champion, catalog_hash=serving)


def champion_before(transitions: Iterable[TransitionRow], owner: str) -> str | None:
    """Who served before the champion that serves now.

    A champion that was lowered is none to come back to, so that lowering again and again goes
    back step by step and ends.

    Args:
        transitions: Changes of one discipline, oldest first; the fleet's before the owner's.
        owner: Whose pointer it is.

    Returns:
        The champion before; for the first one of a tenant the fleet's of today; None where there
        was none.
    """
    standing: list[str] = []
    fleets: str | None = None
    for row in transitions:
        if row.tenant_id != owner:
            fleets = row.champion if row.tenant_id == FLEET else fleets
        elif row.action == LOWER or row.champion is None:
            while standing and standing[-1] != row.champion:
                standing.pop()
            if row.champion is not None and not standing:
                standing.append(row.champion)
        elif standing[-1:] != [row.champion]:
            standing.append(row.champion)
    before = standing[-2] if len(standing) > 1 else fleets
    return None if standing and before == standing[-1] else before


def _check_same_catalog(work: UnitOfWork, target: PolicyState) -> None:
    """A candidate is compared with what serves, so the two choose from one catalog.

    Raises:
        InputError: If they do not.
    """
    if work.policies.get(target.candidate or "").catalog_hash != target.catalog_hash:
        raise InputError(
            f"mode of {target.discipline}",
            "the champion before it chooses from another catalog, so that the two cannot be "
            "compared.",
            "Lower it to none.",
        )


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
