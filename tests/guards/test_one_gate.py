"""The demonstration promotes through the shipped gate, with no setting of its own."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.guard


def gate_choices(source):
    """Ways a source could bring a gate of its own."""
    return [word for word in ("--gate", "gates/", "min_unit", "superiority") if word in source]


def test_the_demo_names_no_gate():
    sources = list((ROOT / "canopy" / "demo").rglob("*.py"))
    assert len(sources) > 2
    assert {str(p): w for p in sources if (w := gate_choices(p.read_text()))} == {}


def test_no_second_gate_file_exists():
    shipped = {p.relative_to(ROOT).as_posix() for p in ROOT.glob("*/**/gates/*.yaml")}
    shipped = {p for p in shipped if not p.startswith((".venv/", ".canopy/", "tests/"))}
    assert shipped
    assert all(p.startswith("configs/gates/") for p in shipped)


def test_the_guard_fires():
    assert gate_choices('stage.run("policy", "promote", p, "--gate", easy)') == ["--gate"]
