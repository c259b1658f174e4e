"""What benchmarks leave behind: rows of figures, the machine they hold for, and when to measure.

`make bench` merges the rows of the tests it ran into `docs/benchmarks.json`: a test that ran
replaces all of its earlier rows, and rows of another machine go, because ratios of two machines
do not belong in one table.
"""

import datetime as dt
import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from policy.kernel import kernel_facts

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "benchmarks.json"

ANYWAY = "CANOPY_BENCH_ANYWAY"
"""Set: measure on a busy machine too, and leave the figures on file as they are."""

WAIT = "CANOPY_BENCH_WAIT_S"
"""Seconds to wait for a quiet machine before a benchmark is skipped."""

DEFAULT_WAIT_S = 300.0
QUIET_IDLE = 0.90
OBSERVED_S = 1.0
SETTLE_S = 10.0
"""What we ourselves started may take so long to end after a measurement."""


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        name: What was measured.
        peer: What it is measured against; None for a bare limit.
        ours: Our figure; None where only the ratio was kept.
        against: The peer's figure; None without a peer.
        unit: Unit of both; None for plain numbers.
        ratio: What the budget limits; None where it limits `ours`.
        budget: The limit in words; None without one.
        holds: Whether it was held.
    """

    name: str
    peer: str | None
    ours: float | None
    against: float | None
    unit: str | None
    ratio: float | None
    budget: str | None
    holds: bool

    @classmethod
    def of(
        cls,
        name: str,
        *,
        ours: float,
        unit: str,
        peer: str | None = None,
        against: float | None = None,
        ratio: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> "Row":
        """A row whose ratio, or figure where it has none, is held to a limit."""
        limited = ours if ratio is None else ratio
        mark = f" {unit}" if ratio is None else "x"
        budget, holds = None, True
        if at_least is not None:
            budget, holds = f"≥ {at_least:g}{mark}", limited >= at_least
        elif at_most is not None:
            budget, holds = f"≤ {at_most:g}{mark}", limited <= at_most
        return cls(name, peer, ours, against, unit, ratio, budget, holds)

    @classmethod
    def of_properties(cls, properties: dict[str, Any], test: str, *, passed: bool) -> "Row":
        """A row out of what a test kept by `record_property`; its assertion judged it."""
        budget = properties.get("budget")
        if isinstance(budget, int | float):
            budget = f"≤ {budget:g}x"
        return cls(
            name=properties.get("name", test),
            peer=properties.get("peer"),
            ours=properties.get("ours"),
            against=properties.get("against"),
            unit=properties.get("unit"),
            ratio=properties["ratio"],
            budget=budget,
            holds=passed,
        )

    def __str__(self) -> str:
        parts = [self.name]
        if self.ours is not None:
            parts.append(f"{self.ours:,.4g} {self.unit or ''}".rstrip())
        if self.peer is not None:
            parts.append(f"against {self.peer}")
        if self.against is not None:
            parts.append(f"{self.against:,.4g} {self.unit or ''}".rstrip())
        if self.ratio is not None:
            parts.append(f"ratio {self.ratio:.3g}")
        if self.budget is not None:
            parts.append(f"budget {self.budget}: {'held' if self.holds else 'MISSED'}")
        return ", ".join(parts)


def rows_of(properties: Iterable[tuple[str, Any]], test: str, *, passed: bool) -> list[Row]:
    """The rows of one test, by either of the two ways to leave them."""
    kept = list(properties)
    found = [Row(**value) for name, value in kept if name == "row"]
    plain = {name: value for name, value in kept if name != "row"}
    if not found and "ratio" in plain:
        found.append(Row.of_properties(plain, test.rpartition("::")[2], passed=passed))
    return found


def merged(earlier: dict[str, Any] | None, rows: dict[str, list[Row]]) -> dict[str, Any]:
    """The figures on file after a run.

    Args:
        earlier: The figures on file; None without any.
        rows: Rows by the test that left them.
    """
    machine = machine_facts()
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    kept = []
    if earlier is not None and earlier["machine"] == machine:
        kept = [
            row
            for row in earlier["rows"]
            if row["test"] not in rows and (ROOT / row["test"].partition("::")[0]).exists()
        ]
    new = [
        {"test": test, **asdict(row), "measured": today}
        for test, found in rows.items()
        for row in found
    ]
    # By test, so that a part measured again keeps its place.
    return {"machine": machine, "rows": sorted(kept + new, key=lambda row: row["test"])}


def save(rows: dict[str, list[Row]], path: Path = FIGURES) -> None:
    """Merge the rows of a run into the figures on file."""
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    text = json.dumps(merged(earlier, rows), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def machine_facts() -> dict[str, Any]:
    """What the figures depend on beside the code."""
    facts = dict(
        line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line
    )
    by_name = {name.strip(): value.strip() for name, value in facts.items()}
    return {
        "cpu": by_name.get("model name", platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "has_avx512": has_avx512(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def has_avx512() -> bool:
    """True where numpy computes in the widest vector registers."""
    return any(name.startswith(("X86_V4", "AVX512")) for name in kernel_facts()["simd"])


def is_measured_anyway() -> bool:
    """True where a busy machine is no reason to wait, nor a quiet one to record."""
    return os.environ.get(ANYWAY, "") not in {"", "0"}


def patience_s() -> float:
    """Seconds to wait for a quiet machine before measuring."""
    return float(os.environ.get(WAIT, DEFAULT_WAIT_S))


def wait_until_quiet(patience_s: float) -> str | None:
    """Wait for the machine to be idle but for us; the reason where it does not come to that."""
    deadline_s = time.monotonic() + patience_s
    while (idle := idle_share()) < QUIET_IDLE:
        if time.monotonic() > deadline_s:
            return (
                f"the machine is {idle:.0%} idle, {QUIET_IDLE:.0%} are needed, for "
                f"{patience_s:.0f} s by now: stop other work, or set {ANYWAY}=1 to look at "
                "figures that are not recorded."
            )
    return None


def idle_share(seconds: float = OBSERVED_S) -> float:
    """Share of all cores' time in which nothing ran, over the next seconds.

    Time that the host gave to other machines counts as busy.
    """
    before = _ticks()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(_ticks(), before, strict=True)]
    return (spent[3] + spent[4]) / max(1, sum(spent))


def _ticks() -> list[int]:
    """Ticks of all cores: user, nice, system, idle, waiting, interrupts, soft ones, stolen."""
    return [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
