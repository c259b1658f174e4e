"""Running the product's own commands and showing what they said."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from canopy.domain.errors import EXIT_DONE, DemoStepError
from canopy.output import cell


@dataclass(frozen=True, slots=True)
class Ran:
    """What one command did.

    Attributes:
        command: As a person would type it.
        code: Its exit code.
        document: The JSON it printed.
        seconds: How long it took.
    """

    command: str
    code: int
    document: Any
    seconds: float


@dataclass(slots=True)
class Stage:
    """Where the demonstration plays: the folder it writes to and the console it speaks on.

    Attributes:
        home: Canopy's home folder.
        tenant: Whose rows this run writes; a new one each time, so that it can be run again.
        console: Where people read.
        ran: Every command so far, in order.
    """

    home: Path
    tenant: str
    console: Console
    ran: list[Ran] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The demonstration's own folder below home."""
        return self.home / "demo"

    def act(self, title: str, *sentences: str) -> None:
        """Open a new act."""
        self.console.print()
        self.console.rule(f"[bold]{title}", align="left")
        for sentence in sentences:
            self.console.print(sentence)

    def run(
        self,
        *arguments: str | Path | int,
        expect: Sequence[int] = (EXIT_DONE,),
        script: str = "canopy",
    ) -> Ran:
        """Run one command with `--json`, show it with its time, and hand back what it said.

        Args:
            arguments: Words after the script's name.
            expect: Exit codes that are fine here; a refusal (3) is one where it is the point.
            script: `canopy` or `canopy-train`.

        Returns:
            The command's JSON document and exit code.

        Raises:
            DemoStepError: If it ends with a code not expected, or prints no JSON.
        """
        words = [str(a) for a in arguments]
        shown = " ".join([script, *(self._short(w) for w in words)])
        machine = ["print=json"] if script == "canopy-train" else ["--json"]
        path = Path(sys.executable).parent / script
        started = time.perf_counter()
        with self.console.status(shown):
            finished = subprocess.run(
                [path, *words, *machine],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"CANOPY_HOME": str(self.home)},
            )
        seconds = time.perf_counter() - started
        if finished.returncode not in expect:
            raise DemoStepError(shown, finished.returncode, finished.stderr)
        try:
            document = json.loads(finished.stdout)
        except json.JSONDecodeError as error:
            raise DemoStepError(shown, finished.returncode, finished.stderr) from error
        self.console.print(f"[dim]{seconds:5.1f} s[/]  [cyan]$ {shown}[/]", soft_wrap=True)
        result = Ran(shown, finished.returncode, document, seconds)
        self.ran.append(result)
        return result

    def evaluations(self) -> list[dict[str, Any]]:
        """Every evaluation so far: its command and its verdicts."""
        return [
            {"command": ran.command, "verdicts": ran.document["verdicts"]}
            for ran in self.ran
            if ran.command.startswith("canopy evaluate")
        ]

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Show a table."""
        table = Table(title=title, title_justify="left", min_width=min(len(title) + 4, 76))
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(cell(value) for value in row))
        self.console.print(table)

    def _short(self, word: str) -> str:
        return word.replace(f"{self.home}/", f"{self.home.name}/")


def verdict_rows(verdicts: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Verdicts of `canopy evaluate` as rows of a table."""
    rows = []
    for verdict in verdicts:
        interval = verdict["interval"]
        ends = None if interval is None else f"[{interval[0]:.6g}, {interval[1]:.6g}]"
        rows.append([
            verdict["estimator"], verdict["status"], verdict["value"], ends,
            verdict["ess"], verdict["reason"],
        ])  # fmt: skip
    return rows


VERDICT_COLUMNS = ("estimator", "status", "value", "95 % interval", "ESS", "reason")
