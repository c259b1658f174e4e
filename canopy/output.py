"""What commands print: a table for people, JSON for scripts, one line for an error.

Every command takes `--json`; standard output then holds one JSON document and nothing
else. Progress, notes and errors go to standard error.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.table import Table

from canopy.domain.errors import CanopyError

json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of tables."
)
"""The option every command carries."""


def emit_json(document: Any) -> None:
    """Print one JSON document; NaN is refused because missing is null."""
    click.echo(json.dumps(document, indent=2, allow_nan=False, default=str))


def emit_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, caption: str | None = None
) -> None:
    """Print a table; None shows as an en dash, floats with six significant digits."""
    table = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    out = Console()
    out.print(table)


def emit_facts(title: str, facts: Mapping[str, Any]) -> None:
    """Print named facts, one per line, as a two-column table."""
    emit_table(title, ("what", "value"), list(facts.items()))


def cell(value: Any) -> str:
    """One value as a table shows it."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash for "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def note(message: str) -> None:
    """Say something to the person without touching standard output."""
    click.echo(message, err=True)


def fail(error: CanopyError) -> NoReturn:
    """End the command with the error's own words and exit code.

    Raises:
        SystemExit: Always, with the code of the error's class.
    """
    click.echo(f"canopy: {error}", err=True)
    raise SystemExit(error.exit_code)
