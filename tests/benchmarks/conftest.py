"""One recorder for all benchmarks: `make bench` ends with the figures on file and in the README.

A budget that is missed fails its test and is recorded as missed. Nothing is recorded from a
machine that others keep busy.
"""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.benchmarks.figures import (
    FIGURES,
    ROOT,
    SETTLE_S,
    Row,
    is_measured_anyway,
    patience_s,
    rows_of,
    save,
    wait_until_quiet,
)

HERE = Path(__file__).parent.relative_to(ROOT).as_posix()

_rows: dict[str, list[Row]] = {}


@pytest.fixture(autouse=True)
def _quiet(request):
    """Measure on a quiet machine, and keep nothing where it did not stay so."""
    if request.node.get_closest_marker("benchmark") is None or is_measured_anyway():
        yield
        return
    busy = wait_until_quiet(patience_s())
    if busy is not None:
        pytest.skip(busy)
    yield
    busy = wait_until_quiet(SETTLE_S)
    if busy is not None:
        request.node.user_properties.append(("disturbed", busy))


@pytest.fixture
def record(record_property):
    """Keeps one figure: takes what `Row.of` takes, gives the row to assert on."""

    def keep(name: str, **facts) -> Row:
        row = Row.of(name, **facts)
        record_property("row", asdict(row))
        print(f"\n{row}")
        return row

    return keep


def pytest_runtest_logreport(report):
    if not report.nodeid.startswith(HERE):
        return
    if report.when == "call":
        found = rows_of(report.user_properties, report.nodeid, passed=report.passed)
        if found:
            _rows[report.nodeid] = found
    if report.when == "teardown" and "disturbed" in dict(report.user_properties):
        _rows.pop(report.nodeid, None)


def pytest_terminal_summary(terminalreporter):
    if not _rows:
        return
    terminalreporter.section("benchmarks")
    for rows in _rows.values():
        for row in rows:
            terminalreporter.write_line(str(row))
    if is_measured_anyway():
        terminalreporter.write_line("Measured on a machine that may be busy: not recorded.")
        return
    save(_rows)
    subprocess.run([sys.executable, ROOT / "docs" / "benchmarks.py"], check=True)
    terminalreporter.write_line(f"Recorded in {FIGURES.relative_to(ROOT)} and in the README.")
