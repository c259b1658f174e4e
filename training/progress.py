"""Progress of a run on standard error; silent where that is no terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Tick: TypeAlias = Callable[[str, int, int], None]
"""Called with what is under way, passes done, and passes planned."""


def silent(what: str, done: int, planned: int) -> None:
    """Say nothing."""


@contextmanager
def progress_bar(*, is_wanted: bool) -> Iterator[Tick]:
    """A bar that appears with the first tick and vanishes at the end."""
    console = Console(stderr=True)
    if not (is_wanted and console.is_terminal):
        yield silent
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def tick(what: str, done: int, planned: int) -> None:
            bar.update(task, description=what, completed=done, total=planned)

        yield tick
