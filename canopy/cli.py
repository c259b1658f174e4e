"""The umbrella command: finds every sub-command through the entry-point group.

Packages add commands under dotted names (`log.import` is `canopy log import`), so the
kernel imports none of them; a command's module is loaded only when it runs.
"""

import sys
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from typing import Any, Final

import click

from canopy.domain.errors import EXIT_BAD_INPUT, CanopyError
from canopy.output import emit_json, emit_table, fail, json_option
from canopy.settings import load_settings

COMMAND_GROUP: Final = "canopy.commands"


class EntryPointGroup(click.Group):
    """A click group whose members are entry points below a dotted prefix."""

    def __init__(self, prefix: str = "", **attributes: Any) -> None:
        super().__init__(**attributes)
        self.prefix = prefix

    def members(self) -> dict[str, EntryPoint | None]:
        """Names at this level; None stands for a group."""
        found: dict[str, EntryPoint | None] = {}
        for point in entry_points(group=COMMAND_GROUP):
            if not point.name.startswith(self.prefix):
                continue
            name, dot, _ = point.name.removeprefix(self.prefix).partition(".")
            found[name] = None if dot else point
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Sub-command names in alphabetical order."""
        return sorted(self.members())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the sub-command, and its module, on demand.

        Raises:
            TypeError: If the entry point names something that is no command.
        """
        members = self.members()
        if cmd_name not in members:
            return None
        point = members[cmd_name]
        if point is None:
            return EntryPointGroup(
                prefix=f"{self.prefix}{cmd_name}.",
                name=cmd_name,
                help=f"Commands about {cmd_name}.",
            )
        command = point.load()
        if not isinstance(command, click.Command):
            raise TypeError(f"{point.value} is not a click command; fix the entry point.")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List names without importing their modules: help stays quick."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, "") for name in self.list_commands(ctx)])


@click.group(cls=EntryPointGroup, help="Learn which discrete plan to choose, and serve it.")
@click.version_option(version("canopy-platform"), prog_name="canopy")
def canopy() -> None:
    """Root of all commands."""


@click.command("show")
@click.option("--config", type=click.Path(path_type=Path), help="Config file to read.")
@json_option
def settings_show(*, config: Path | None, as_json: bool) -> None:
    """Show every setting and where its value comes from."""
    loaded = load_settings(config)
    values = loaded.settings.model_dump(mode="json")
    if as_json:
        emit_json({n: {"value": v, "source": loaded.sources[n]} for n, v in values.items()})
        return
    emit_table(
        "Settings",
        ("name", "value", "source"),
        [(name, value, loaded.sources[name]) for name, value in values.items()],
    )


def main() -> None:
    """Run the command line; Canopy's own errors become one line and an exit code."""
    try:
        # Outside standalone mode click hands `ctx.exit(code)` back as the return value.
        code = canopy.main(standalone_mode=False)
    except CanopyError as error:
        fail(error)
    except click.Abort:
        click.echo("canopy: stopped.", err=True)
        sys.exit(EXIT_BAD_INPUT)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_BAD_INPUT)
    if isinstance(code, int):
        sys.exit(code)
