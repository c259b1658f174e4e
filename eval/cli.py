"""Commands about evidence and promotion; `canopy evaluate` is in `eval.evaluate_cli`."""

import getpass
from pathlib import Path
from typing import Any

import click

from canopy.domain.decision import Mode
from canopy.domain.errors import EXIT_REFUSED
from canopy.domain.evidence import Evidence, Gate, GateReport, Tier
from canopy.domain.ids import content_hash
from canopy.domain.tenant import FLEET
from canopy.logs.tabular import read_log
from canopy.output import emit_facts, emit_json, emit_table, json_option
from canopy.settings import load_settings
from canopy.storage.database import Database
from eval.gates import load_gate, shipped_gate
from eval.gathering import GATHERED, Gathered, gather
from eval.promotion import promote as promote_policy
from eval.promotion import stored_evidence
from eval.tiers.backtest import DEFAULT_LEVEL
from policy.artifact import Artifact
from runtime.registry import MANIFEST_NAME, register_policy, resolve_policy

_HIDDEN_FACTS = ("decisions_sketch",)

_tenant_option = click.option(
    "--tenant", default=FLEET, show_default=True, help="On whose behalf; the fleet is everybody."
)
_discipline_option = click.option("--discipline", help="The craft; default: the policy's own.")
_config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="Config file to read."
)


@click.command("evidence")
@click.argument("policy")
@_tenant_option
@_discipline_option
@click.option("--log", type=click.Path(path_type=Path), help="Log whose reserved units to use.")
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    type=click.Choice([tier.value for tier in GATHERED]),
    help="Run this tier only; may be given twice.",
)
@click.option("--seed", default=0, show_default=True, help="Of everything random.")
@_config_option
@json_option
def policy_evidence(
    *,
    policy: str,
    tenant: str,
    discipline: str | None,
    log: Path | None,
    tiers: tuple[str, ...],
    seed: int,
    config: Path | None,
    as_json: bool,
) -> None:
    """Gather evidence about POLICY (a folder or an id) and store it.

    With --log: verifiers and a backtest on the reserved units. With neither --log nor --tier
    nothing is run: what is stored is listed.
    """
    with Database.connect(load_settings(config).settings) as database:
        artifact = _known_policy(database, tenant, policy)
        craft = discipline or artifact.catalog.discipline
        if log is None and not tiers:
            with database.unit_of_work(tenant) as work:
                found = [Gathered(e, False) for e in stored_evidence(work, artifact.policy_id)]
        else:
            found = gather(
                database,
                tenant,
                craft,
                artifact,
                log=None if log is None else read_log(log),
                tiers=[Tier(tier) for tier in tiers] or None,
                level=_gate_level(),
                seed=seed,
            )
    if as_json:
        emit_json({
            "policy_id": artifact.policy_id,
            "tenant": tenant,
            "discipline": craft,
            "evidence": [_document(each) for each in found],
        })  # fmt: skip
        return
    _show_evidence(artifact.policy_id, found)


@click.command("promote")
@click.argument("policy")
@click.option(
    "--to", "mode", required=True, type=click.Choice([mode.value for mode in Mode]),
    help="How far: observation logs its choices, on lets it serve.",
)  # fmt: skip
@_tenant_option
@_discipline_option
@click.option("--share", type=float, help="Share of units that a canary begins with, from 0 to 1.")
@click.option(
    "--gate", "gate_file", type=click.Path(path_type=Path),
    help="Gate file of one's own, named in the record; default: the shipped gate of the mode.",
)  # fmt: skip
@click.option("--reason", default="the gate passed", show_default=True, help="Why, for the record.")
@click.option("--actor", help="Who asks; default: the account's name.")
@_config_option
@json_option
def promote(
    *,
    policy: str,
    mode: str,
    tenant: str,
    discipline: str | None,
    share: float | None,
    gate_file: Path | None,
    reason: str,
    actor: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Raise POLICY (a folder or an id) to a mode if its gate lets it through.

    Prints the gate's table. Ends with 3, and nothing changed, where a demand is not met.

    Raises:
        Exit: With code 3 on a refusal.
    """
    to = Mode(mode)
    gate, reason = chosen_gate(to, gate_file, reason)
    with Database.connect(load_settings(config).settings) as database:
        artifact = _known_policy(database, tenant, policy)
        craft = discipline or artifact.catalog.discipline
        report = promote_policy(
            database, tenant, craft, artifact.policy_id, to, gate, actor or account(), reason, share
        )
        with database.unit_of_work(tenant) as work:
            state = work.states.get(craft)
    if as_json:
        serving = {
            "champion": state.champion,
            "candidate": state.candidate,
            "mode": state.mode.value,
            "version": state.version,
        }
        emit_json(report.document() | {"tenant": tenant, "discipline": craft, "state": serving})
    else:
        show_report(report, craft)
    if not report.passed:
        raise click.exceptions.Exit(EXIT_REFUSED)


def _known_policy(database: Database, tenant: str, name: str) -> Artifact:
    """The policy, registered first where a folder is named."""
    artifact = resolve_policy(database, tenant, name)
    if (Path(name) / MANIFEST_NAME).is_file():
        register_policy(database, tenant, Path(name))
    return artifact


def chosen_gate(mode: Mode, path: Path | None, reason: str) -> tuple[Gate, str]:
    """The gate, and the reason with the name of a gate that is not the shipped one."""
    if path is None:
        return shipped_gate(mode), reason
    gate = load_gate(path)
    return gate, f"{reason} [gate {path.name} {content_hash(path.read_bytes())[:12]}]"


def _gate_level() -> float:
    """The level that the shipped gates ask of a backtest."""
    levels = [
        requirement.level
        for requirement in shipped_gate(Mode.ON).requirements
        if requirement.tier is Tier.BACKTEST and requirement.level is not None
    ]
    return max(levels, default=DEFAULT_LEVEL)


def account() -> str:
    """The name of whoever runs this command, as the record keeps it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "unknown"


def _document(found: Gathered) -> dict[str, Any]:
    return {
        "evidence_id": found.evidence.evidence_id,
        "created_at": found.evidence.created_at.isoformat(),
        "is_new": found.is_new,
        **found.evidence.document(),
    }


def _show_evidence(policy_id: str, found: list[Gathered]) -> None:
    emit_table(
        f"Evidence about policy {policy_id[:12]}",
        ("tier", "status", "gain", "lower bound", "level", "units", "found", "new", "reasons"),
        [_evidence_cells(each) for each in found],
        caption=None if found else "None is stored. Run it with --log LOG.",
    )
    for each in found:
        if each.is_new:
            facts = (*each.evidence.facts, *each.evidence.timings)
            shown = {f.name: f.value for f in facts if f.name not in _HIDDEN_FACTS}
            emit_facts(f"{each.evidence.tier}: facts", shown)


def _evidence_cells(found: Gathered) -> list[Any]:
    evidence: Evidence = found.evidence
    margin = evidence.margin
    return [
        evidence.tier,
        evidence.status,
        None if margin is None else margin.estimate,
        None if margin is None else margin.interval.lower,
        None if margin is None else margin.interval.level,
        None if margin is None else margin.n,
        evidence.created_at.date().isoformat(),
        found.is_new,
        " ".join(evidence.reasons),
    ]


def show_report(report: GateReport, discipline: str) -> None:
    """Print a gate's table."""
    verdict = "passed" if report.passed else "refused, nothing changed"
    emit_table(
        f"Gate `{report.mode}` of {discipline} for policy {report.policy_id[:12]}: {verdict}",
        ("tier", "requires", "found", "passed", "reason"),
        [(row.tier, row.requirement, row.found, row.passed, row.reason) for row in report.rows],
    )
