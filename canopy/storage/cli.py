"""Commands about the servers and the schema: up, down, migrate, doctor."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from canopy.domain.errors import EXIT_UNREACHABLE
from canopy.output import emit_facts, emit_json, emit_table, json_option, note
from canopy.settings import load_settings
from canopy.storage.doctor import CheckStatus, examine
from canopy.storage.embedded.processes import stop_all
from canopy.storage.migrate import upgrade
from canopy.storage.servers import ensure_servers, stop_servers

config_option: Callable[[Any], Any] = click.option(
    "--config", type=click.Path(path_type=Path), help="Config file to read."
)


@click.command("up")
@config_option
@json_option
def up(*, config: Path | None, as_json: bool) -> None:
    """Start the servers that no address is set for, and bring the schema up."""
    settings = load_settings(config).settings
    endpoints = ensure_servers(settings)
    for remark in endpoints.notes:
        note(remark)
    facts = {
        "home": str(settings.home),
        "database": _without_password(endpoints.database_url),
        "redis": _without_password(endpoints.redis_url),
        "embedded": list(endpoints.embedded),
        "schema": upgrade(settings),
    }
    if as_json:
        emit_json(facts)
    else:
        emit_facts("Up", facts | {"embedded": ", ".join(endpoints.embedded) or None})


@click.command("down")
@config_option
@json_option
def down(*, config: Path | None, as_json: bool) -> None:
    """Stop what runs here: Canopy's processes first, then the embedded servers."""
    settings = load_settings(config).settings
    stopped = [*stop_all(settings.home), *stop_servers(settings)]
    if as_json:
        emit_json({"stopped": stopped})
    else:
        click.echo(f"Stopped {', '.join(stopped)}." if stopped else "Nothing was running.")


@click.command("migrate")
@config_option
@json_option
def migrate(*, config: Path | None, as_json: bool) -> None:
    """Bring the database schema to this version of Canopy."""
    revision = upgrade(load_settings(config).settings)
    if as_json:
        emit_json({"schema": revision})
    else:
        click.echo(f"The schema is at {revision}.")


@click.command("doctor")
@config_option
@json_option
def doctor(*, config: Path | None, as_json: bool) -> None:
    """Check the installation; says what to do about each fault.

    Raises:
        Exit: With code 2 if a check fails.
    """
    checks = examine(load_settings(config))
    if as_json:
        emit_json({"checks": [asdict(check) for check in checks]})
    else:
        rows = [(c.name, c.status.value, c.found, c.remedy) for c in checks]
        emit_table("Doctor", ("check", "status", "found", "remedy"), rows)
    if any(check.status is CheckStatus.FAIL for check in checks):
        raise click.exceptions.Exit(EXIT_UNREACHABLE)


def _without_password(address: str) -> str:
    before, at, rest = address.rpartition("@")
    if at and ":" in before.partition("//")[2]:
        return f"{before.rpartition(':')[0]}:***@{rest}"
    words = ["password=***" if w.startswith("password=") else w for w in address.split(" ")]
    return " ".join(words)
