"""A module that outgrew 400 lines is two modules."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("canopy", "policy", "training", "eval", "runtime", "docs", "tests")
LIMIT = 400

pytestmark = pytest.mark.guard


def oversized(paths):
    return [
        f"{path}: {n} lines"
        for path in paths
        if (n := path.read_text(encoding="utf-8").count("\n")) > LIMIT
    ]


def test_no_module_is_longer_than_the_limit():
    assert oversized(p for package in PACKAGES for p in (ROOT / package).rglob("*.py")) == []


def test_the_guard_fires_on_a_long_module(tmp_path):
    long = tmp_path / "long.py"
    long.write_text("x = 1\n" * (LIMIT + 1))
    assert oversized([long]) == [f"{long}: {LIMIT + 1} lines"]
