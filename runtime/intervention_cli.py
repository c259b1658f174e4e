"""`canopy policy stop|resume|pin|unpin`: what people impose, effective within a second."""

import getpass
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from canopy.domain.intervention import EVERY_DISCIPLINE
from canopy.domain.tenant import FLEET
from canopy.output import emit_facts, emit_json, json_option
from canopy.settings import load_settings
from canopy.storage.control_rows import InterventionRow
from canopy.storage.database import Database
from canopy.storage.unit_of_work import UnitOfWork
from runtime.catalog_changes import catalog_in_force
from runtime.inspection import intervention_document

_tenant_option: Callable[[Any], Any] = click.option(
    "--tenant", default=FLEET, show_default=True, help="On whose behalf; the fleet is everybody."
)
_reason_option: Callable[[Any], Any] = click.option(
    "--reason", required=True, help="Why, for the record."
)
_actor_option: Callable[[Any], Any] = click.option(
    "--actor", help="Who asks; default: the account's name."
)
_config_option: Callable[[Any], Any] = click.option(
    "--config", type=click.Path(path_type=Path), help="Config file to read."
)
_every_option: Callable[[Any], Any] = click.option(
    "--discipline", default=EVERY_DISCIPLINE, help="The craft; default: every one."
)
_one_option: Callable[[Any], Any] = click.option("--discipline", required=True, help="The craft.")


def _act(
    config: Path | None,
    tenant: str,
    act: Callable[[UnitOfWork], InterventionRow],
    *,
    as_json: bool,
) -> None:
    with (
        Database.connect(load_settings(config).settings) as database,
        database.unit_of_work(tenant) as work,
    ):
        row = act(work)
    document = intervention_document(row)
    if as_json:
        emit_json(document)
        return
    whose = "everybody" if row.tenant_id == FLEET else row.tenant_id
    craft = row.discipline or "every discipline"
    emit_facts(f"{row.kind} of {craft} for {whose}: {'on' if row.is_on else 'off'}", document)


def account() -> str:
    """The name of whoever runs this command, as the record keeps it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return "unknown"


@click.command("stop")
@_tenant_option
@_every_option
@_reason_option
@_actor_option
@_config_option
@json_option
def policy_stop(
    *,
    tenant: str,
    discipline: str,
    reason: str,
    actor: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Stop all draws: the default plan is served, in every process within a second.

    For everybody and every discipline unless --tenant or --discipline narrows it.
    """
    _act(
        config,
        tenant,
        lambda work: work.interventions.set_stop(
            discipline, is_on=True, actor=actor or account(), reason=reason
        ),
        as_json=as_json,
    )


@click.command("resume")
@_tenant_option
@_every_option
@_reason_option
@_actor_option
@_config_option
@json_option
def policy_resume(
    *,
    tenant: str,
    discipline: str,
    reason: str,
    actor: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Take back the stop of exactly this tenant and discipline; wider stops stay."""
    _act(
        config,
        tenant,
        lambda work: work.interventions.set_stop(
            discipline, is_on=False, actor=actor or account(), reason=reason
        ),
        as_json=as_json,
    )


@click.command("pin")
@click.argument("plan")
@_tenant_option
@_one_option
@_reason_option
@_actor_option
@_config_option
@json_option
def policy_pin(
    *,
    plan: str,
    tenant: str,
    discipline: str,
    reason: str,
    actor: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Serve PLAN to everybody until it is unpinned; its rows carry no propensity."""

    def act(work: UnitOfWork) -> InterventionRow:
        catalog_in_force(work, discipline).index(plan)
        return work.interventions.set_pin(
            discipline, plan=plan, actor=actor or account(), reason=reason
        )

    _act(config, tenant, act, as_json=as_json)


@click.command("unpin")
@_tenant_option
@_one_option
@_reason_option
@_actor_option
@_config_option
@json_option
def policy_unpin(
    *,
    tenant: str,
    discipline: str,
    reason: str,
    actor: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Draw again where a plan was pinned."""
    _act(
        config,
        tenant,
        lambda work: work.interventions.set_pin(
            discipline, plan=None, actor=actor or account(), reason=reason
        ),
        as_json=as_json,
    )
