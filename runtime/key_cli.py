"""`canopy key create|list|revoke`: who may ask over HTTP, for whom, and how often."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from canopy.domain.access import Scope
from canopy.domain.clock import now
from canopy.domain.tenant import FLEET
from canopy.output import emit_facts, emit_json, emit_table, json_option, note
from canopy.settings import load_settings
from canopy.storage.control_rows import KeyRow
from canopy.storage.database import Database
from runtime.intervention_cli import account

_config_option: Callable[[Any], Any] = click.option(
    "--config", type=click.Path(path_type=Path), help="Config file to read."
)
_tenant_option: Callable[[Any], Any] = click.option(
    "--tenant", default=FLEET, show_default=True, help="Whom keys act for; the fleet's for anybody."
)


def key_document(row: KeyRow) -> dict[str, Any]:
    """A key as plain values; there is no secret in it."""
    return {
        "key_id": row.key_id,
        "name": row.name,
        "tenant": row.tenant_id,
        "scopes": [scope.value for scope in row.scopes],
        "rate_per_s": row.rate_per_s,
        "created_by": row.created_by,
        "created_at": row.created_at.isoformat(),
        "expires_at": None if row.expires_at is None else row.expires_at.isoformat(),
        "revoked_at": None if row.revoked_at is None else row.revoked_at.isoformat(),
        "revoked_by": row.revoked_by,
        "revoked_because": row.revoked_because,
    }


@click.command("create")
@click.argument("name")
@_tenant_option
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What it may do; repeat for more. Default: all.",
)
@click.option("--rate", type=float, help="Most asks per second, in each HTTP process.")
@click.option("--expires", type=click.FloatRange(min=0, min_open=True), help="Days until it ends.")
@click.option("--actor", help="Who asks; default: the account's name.")
@_config_option
@json_option
def key_create(
    *,
    name: str,
    tenant: str,
    scopes: tuple[str, ...],
    rate: float | None,
    expires: float | None,
    actor: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Make a key called NAME and print it; it is shown once and kept nowhere."""
    with (
        Database.connect(load_settings(config).settings) as database,
        database.unit_of_work(tenant) as work,
    ):
        made = work.keys.create(
            name,
            [Scope(scope) for scope in scopes] or list(Scope),
            rate_per_s=rate,
            expires_at=None if expires is None else now() + timedelta(days=expires),
            actor=actor or account(),
        )
    document = key_document(made.row) | {"token": made.token}
    if as_json:
        emit_json(document)
    else:
        emit_facts(f"Key {made.row.key_id}", document)
    note("The token is shown this once. Send it as `Authorization: Bearer <token>`.")


@click.command("list")
@_tenant_option
@_config_option
@json_option
def key_list(*, tenant: str, config: Path | None, as_json: bool) -> None:
    """List the keys of a tenant, revoked ones included; never what they are."""
    with (
        Database.connect(load_settings(config).settings) as database,
        database.unit_of_work(tenant) as work,
    ):
        rows = work.keys.list()
    if as_json:
        emit_json({"tenant": tenant, "keys": [key_document(row) for row in rows]})
        return
    emit_table(
        f"Keys of {tenant}",
        ("key", "name", "scopes", "per second", "made", "ends", "revoked", "because"),
        [
            (
                row.key_id,
                row.name,
                " ".join(row.scopes),
                row.rate_per_s,
                row.created_at.isoformat(timespec="seconds"),
                row.expires_at and row.expires_at.isoformat(timespec="seconds"),
                row.revoked_at and row.revoked_at.isoformat(timespec="seconds"),
                row.revoked_because,
            )
            for row in rows
        ],
        caption=None if rows else "There is none. `canopy key create` makes one.",
    )


@click.command("revoke")
@click.argument("key_id")
@_tenant_option
@click.option("--reason", required=True, help="Why, for the record.")
@click.option("--actor", help="Who asks; default: the account's name.")
@_config_option
@json_option
def key_revoke(
    *,
    key_id: str,
    tenant: str,
    reason: str,
    actor: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Take the key KEY_ID back for good; every process refuses it within a second."""
    with (
        Database.connect(load_settings(config).settings) as database,
        database.unit_of_work(tenant) as work,
    ):
        row = work.keys.revoke(key_id, actor=actor or account(), reason=reason)
    if as_json:
        emit_json(key_document(row))
    else:
        emit_facts(f"Key {row.key_id}: revoked", key_document(row))
