"""Serving imports nothing that learns: every module of it is loaded, and sys.modules looked at."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.guard

SERVING = ("canopy.domain", "canopy.storage", "policy", "runtime")
HEAVY = (
    "torch", "mlflow", "pandas", "sklearn", "duckdb", "pyarrow", "scipy", "matplotlib", "hydra",
    "datasets", "training", "eval",
)  # fmt: skip
SCRIPT = """
import importlib, json, pkgutil, sys
from importlib import import_module
names = json.loads(sys.argv[1])
for name in names:
    package = import_module(name)
    for found in pkgutil.walk_packages(getattr(package, "__path__", []), name + "."):
        if ".migrations" not in found.name:
            import_module(found.name)
heavy = json.loads(sys.argv[2])
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} & set(heavy))))
"""


def loaded(names, heavy):
    """Which of the heavy packages are loaded once all modules of the named ones are."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(names), json.dumps(heavy)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(ran.stdout)


def test_serving_loads_nothing_that_learns():
    assert loaded(SERVING, HEAVY) == []


def test_the_guard_fires_on_a_module_that_loads_one():
    assert loaded(["eval.intervals.unit_t"], HEAVY) == ["eval", "scipy"]
