"""Commands of the serving side: the HTTP process, and looking at policies and decisions."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from canopy.domain.tenant import FLEET
from canopy.output import emit_facts, emit_json, emit_table, json_option, note
from canopy.settings import Settings, load_settings
from canopy.storage.database import Database
from runtime.bootstrap import POLICY_CACHE
from runtime.inspection import (
    Described,
    describe_policy,
    list_policies,
    standing_documents,
    state_document,
)
from runtime.preview import DecisionDocument, Preview, preview, read_context
from runtime.registry import is_artifact_folder, resolve_policy
from runtime.replay import replay, stored_decision
from runtime.telemetry import configure_logging

__all__ = ["http", "policy_list", "policy_replay", "policy_select", "policy_show", "policy_verify"]

SHOWN_PLANS: Final = 20
"""Plans of a distribution that a table lists; JSON holds all."""

_config_option: Callable[[Any], Any] = click.option(
    "--config", type=click.Path(path_type=Path), help="Config file to read."
)
_tenant_option: Callable[[Any], Any] = click.option(
    "--tenant", default=FLEET, show_default=True, help="On whose behalf; the fleet is everybody."
)


def _cache(settings: Settings) -> Path:
    return settings.home.joinpath(*POLICY_CACHE)


@click.command("http")
@click.option("--host", help="Address to bind to; loopback unless told.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to bind to; 0 takes a free one.")
@click.option("--background", is_flag=True, help="Start it on its own and return once it is ready.")
@_config_option
@json_option
def http(
    *,
    host: str | None,
    port: int | None,
    background: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """Serve selections, outcomes and decisions over HTTP.

    The address is written to run/http.json in the home folder. SIGTERM lets what is in flight
    finish, writes what waits, and ends with 0.
    """
    # Only here: the policy commands need no web framework, which takes long to import.
    from runtime.http.server import serve, serve_in_background  # noqa: PLC0415

    settings = load_settings(config).settings
    at, on = host or settings.http_host, settings.http_port if port is None else port
    if not background:
        serve(settings, at, on, announce=lambda address: _announce(address, as_json=as_json))
        return
    address = serve_in_background(settings, at, on, config)
    _announce(address, as_json=as_json)


def _announce(address: str, *, as_json: bool) -> None:
    if as_json:
        emit_json({"address": address})
    else:
        click.echo(f"Serving at {address}")


@click.command("list")
@_tenant_option
@click.option("--discipline", help="Only policies of this discipline.")
@_config_option
@json_option
def policy_list(*, tenant: str, discipline: str | None, config: Path | None, as_json: bool) -> None:
    """List registered policies, newest first, and what each serves."""
    with (
        Database.connect(load_settings(config).settings) as database,
        database.unit_of_work(tenant) as work,
    ):
        rows = list_policies(work, discipline)
        states = [state_document(state) for state in work.states.all()]
        standing = standing_documents(work)
    if as_json:
        emit_json({
            "tenant": tenant,
            "policies": [row.document() for row in rows],
            "states": states,
            "interventions": standing,
        })
        return
    emit_table(
        f"Policies of {tenant}",
        ("policy", "discipline", "role", "objective", "synthetic", "registered"),
        [
            (
                row.policy_id[:12],
                row.discipline,
                row.role,
                _objective(row.manifest.get("objective")),
                row.manifest.get("synthetic"),
                row.created_at.isoformat(timespec="seconds"),
            )
            for row in rows
        ],
        caption=None if rows else "None is registered. `canopy policy promote` registers one.",
    )
    if states:
        _show_rows("Serves", states)
    if standing:
        _show_rows("Stops and pins", standing)


def _show_rows(title: str, rows: list[dict[str, Any]]) -> None:
    emit_table(title, list(rows[0]), [list(row.values()) for row in rows])


def _objective(stated: Any) -> Any:
    """The objective's name; what it was set to is `policy show`'s to tell."""
    return stated.get("name") if isinstance(stated, dict) else stated


@click.command("show")
@click.argument("policy")
@_tenant_option
@_config_option
@json_option
def policy_show(*, policy: str, tenant: str, config: Path | None, as_json: bool) -> None:
    """Show POLICY (a folder, an id or its beginning): manifest, state and transitions."""
    described = describe_policy(load_settings(config).settings, tenant, policy)
    if as_json:
        emit_json(described.document())
    else:
        _show_policy(described)


def _show_policy(described: Described) -> None:
    shown = {
        name: value
        for name, value in described.manifest.items()
        if not isinstance(value, dict | list)
    }
    emit_facts(f"Policy {described.policy_id[:12]}", shown)
    if described.states is None:
        note("The servers do not run here, so the record was not asked what it serves.")
        return
    emit_table(
        "Serves",
        ("discipline", "owner", "role", "mode", "share", "version", "since"),
        [
            (
                s.discipline,
                s.tenant_id,
                described.role(s),
                s.mode,
                s.canary_share,
                s.version,
                s.updated_at,
            )
            for s in described.states
        ],
        caption=None if described.states else "Nothing.",
    )
    if described.standing:
        _show_rows("Stops and pins", list(described.standing))
    emit_table(
        "Transitions that name it",
        ("when", "discipline", "action", "champion", "candidate", "mode", "actor", "reason"),
        [
            (
                t.created_at.isoformat(timespec="seconds"),
                t.discipline,
                t.action,
                t.champion and t.champion[:12],
                t.candidate and t.candidate[:12],
                t.mode,
                t.actor,
                t.reason,
            )
            for t in described.transitions
        ],
    )


@click.command("verify")
@click.argument("policy")
@_tenant_option
@_config_option
@json_option
def policy_verify(*, policy: str, tenant: str, config: Path | None, as_json: bool) -> None:
    """Verify POLICY (a folder, an id or its beginning): every hash, and its own probe batch.

    Says whether the probe agreed to the bit, or to 1e-12 on another numeric kernel.
    """
    settings = load_settings(config).settings
    if is_artifact_folder(policy):
        artifact = resolve_policy(None, tenant, policy)
    else:
        with Database.connect(settings) as database:
            artifact = resolve_policy(database, tenant, policy, _cache(settings))
    facts = {
        "policy_id": artifact.policy_id,
        "verified": True,
        "parity": artifact.parity,
        "discipline": artifact.catalog.discipline,
        "n_plans": artifact.catalog.n_plans,
        "n_features": artifact.schema.width,
        "catalog_hash": artifact.catalog.content_hash,
        "feature_hash": artifact.schema.content_hash,
        "temperature": artifact.temperature,
        "floor": artifact.floor,
    }
    if as_json:
        emit_json(facts)
    else:
        emit_facts("Verified", facts)


@click.command("select")
@click.argument("policy", required=False)
@_tenant_option
@click.option("--discipline", help="Choose as this discipline is served now; instead of POLICY.")
@click.option("--context", default="{}", help="A JSON object, or a file that holds one.")
@click.option("--request-id", help="What the draw is derived from; default: a fresh one.")
@click.option("--allowed", multiple=True, help="A plan that is possible now; repeat for more.")
@click.option("--override", help="A plan to impose.")
@click.option("--unit", default="", help="Whom it is for: decides the side of a canary.")
@_config_option
@json_option
def policy_select(
    *,
    policy: str | None,
    tenant: str,
    discipline: str | None,
    context: str,
    request_id: str | None,
    allowed: tuple[str, ...],
    override: str | None,
    unit: str,
    config: Path | None,
    as_json: bool,
) -> None:
    """Choose as POLICY, or a discipline, would, and say why; nothing is recorded.

    Prints the distribution, the reason of every masked plan, and what each factor adds to the
    score of the plan drawn.
    """
    configure_logging(logging.WARNING)
    decision = preview(
        load_settings(config).settings,
        Preview(
            tenant=tenant,
            policy=policy,
            discipline=discipline,
            context=read_context(context),
            request_id=request_id,
            allowed=allowed or None,
            override=override,
            unit_id=unit,
        ),
    )
    if as_json:
        emit_json(decision.document)
    else:
        _show_decision(decision)


def _show_decision(decision: DecisionDocument) -> None:
    facts = decision.document
    whole = ("distribution", "shadow", "masked", "versions", "contributions", "interventions")
    shown = {name: value for name, value in facts.items() if name not in whole}
    emit_facts("Decision (not recorded)", shown | facts["versions"])
    if facts["interventions"]:
        _show_rows("Stops and pins", facts["interventions"])
    distribution: dict[str, float] = facts["distribution"] or {}
    likeliest = sorted(distribution.items(), key=lambda pair: -pair[1])[:SHOWN_PLANS]
    emit_table(
        "Distribution",
        ("plan", "probability"),
        likeliest,
        caption=f"{len(likeliest)} likeliest of {facts['n_plans']} plans; --json prints all.",
    )
    if facts["contributions"]:
        emit_table(
            f"What the choice of {facts['plan']} gains, against the mean of the feasible plans",
            ("factors", "levels", "logit", "against the mean"),
            [
                (" x ".join(c["factors"]), " x ".join(c["levels"]), c["logit"], c["against_mean"])
                for c in sorted(facts["contributions"], key=lambda c: -abs(c["against_mean"]))
            ],
        )
    if facts["masked"]:
        emit_table("Masked", ("plan", "because"), list(facts["masked"].items())[:SHOWN_PLANS])


@click.command("replay")
@click.argument("decision_id")
@_tenant_option
@_config_option
@json_option
def policy_replay(*, decision_id: str, tenant: str, config: Path | None, as_json: bool) -> None:
    """Draw a stored decision again: the same plan to the bit, and the drift of a fresh one."""
    settings = load_settings(config).settings
    with Database.connect(settings) as database:
        with database.unit_of_work(tenant) as work:
            row = stored_decision(work, decision_id)
        found = replay(database, tenant, row, _cache(settings))
    if as_json:
        emit_json(found.document())
    else:
        emit_facts(f"Replay of {decision_id}", found.document())
