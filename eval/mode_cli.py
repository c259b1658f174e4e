"""`canopy policy mode`: raising a mode runs its gate, lowering it needs a reason."""

from pathlib import Path

import click

from canopy.domain.decision import Mode
from canopy.domain.errors import EXIT_REFUSED, InputError
from canopy.domain.evidence import GateReport
from canopy.domain.tenant import FLEET
from canopy.output import emit_facts, emit_json, json_option
from canopy.settings import load_settings
from canopy.storage.database import Database
from canopy.storage.rows import PolicyState
from eval.cli import account, chosen_gate, show_report
from eval.promotion import promote
from policy.modes import Change, transition
from runtime.inspection import state_document
from runtime.transitions import lower, mode_of, set_share

NONE = "none"
"""Takes the candidate out."""


@click.command("mode")
@click.argument("discipline")
@click.argument("mode", type=click.Choice([NONE, *(mode.value for mode in Mode)]))
@click.option(
    "--tenant", default=FLEET, show_default=True, help="On whose behalf; the fleet is everybody."
)
@click.option("--policy", help="Policy to raise; default: the candidate.")
@click.option("--share", type=float, help="Share of units that a canary serves, from 0 to 1.")
@click.option(
    "--gate", "gate_file", type=click.Path(path_type=Path),
    help="Gate file of one's own, named in the record; default: the shipped gate of the mode.",
)  # fmt: skip
@click.option("--reason", help="Why, for the record; needed to lower, and to move a share.")
@click.option("--actor", help="Who asks; default: the account's name.")
@click.option("--config", type=click.Path(path_type=Path), help="Config file to read.")
@json_option
def policy_mode(
    *,
    discipline: str,
    mode: str,
    tenant: str,
    policy: str | None,
    share: float | None,
    gate_file: Path | None,
    reason: str | None,
    actor: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Set how far the candidate of DISCIPLINE has come: none, observation, canary or on.

    Raising it is promotion: the gate of the mode is asked, and the command ends with 3 where a
    demand is not met. Lowering it, or moving the share of a canary that runs, needs a reason.

    Raises:
        Exit: With code 3 on a refusal.
        InputError: If there is no candidate to raise, or a reason is missing.
    """
    to = None if mode == NONE else Mode(mode)
    who = actor or account()
    report: GateReport | None = None
    with Database.connect(load_settings(config).settings) as database:
        with database.unit_of_work(tenant) as work:
            state = work.states.get(discipline)
            change = transition(None if policy else mode_of(state), to).change
            if change is not Change.RAISE:
                why = _required(reason, discipline)
                state = (
                    set_share(work, discipline, _share(state, share), actor=who, reason=why)
                    if change is Change.STAY
                    else lower(work, discipline, to, actor=who, reason=why)
                )
        if change is Change.RAISE and to is not None:
            gate, why = chosen_gate(to, gate_file, reason or "the gate passed")
            raised = policy or _candidate(state)
            report = promote(database, tenant, discipline, raised, to, gate, who, why, share)
            with database.unit_of_work(tenant) as work:
                state = work.states.get(discipline)
    if as_json:
        emit_json({"discipline": discipline, "tenant": tenant, "state": state_document(state)}
                  | (report.document() if report else {}))  # fmt: skip
    else:
        if report is not None:
            show_report(report, discipline)
        emit_facts(f"{discipline} of {tenant}", state_document(state))
    if report is not None and not report.passed:
        raise click.exceptions.Exit(EXIT_REFUSED)


def _candidate(state: PolicyState) -> str:
    if state.candidate is None:
        raise InputError(
            f"mode of {state.discipline}",
            "there is no candidate to raise.",
            "Name one with --policy, or run `canopy policy promote POLICY --to observation`.",
        )
    return state.candidate


def _required(reason: str | None, discipline: str) -> str:
    if reason is None:
        raise InputError(f"mode of {discipline}", "no reason is given.", "Say why with --reason.")
    return reason


def _share(state: PolicyState, share: float | None) -> float:
    if share is None:
        raise InputError(
            f"mode of {state.discipline}",
            f"it is {mode_of(state) or NONE} already.",
            "Name another mode, or --share while a canary runs.",
        )
    return share
