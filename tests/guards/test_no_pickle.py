"""Nothing is pickled: artifacts, payloads and logs are JSON, Parquet or safetensors."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("canopy", "policy", "training", "eval", "runtime")
MODULES = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
CALLS = {("torch", "load"), ("torch", "save"), ("np", "load"), ("numpy", "load")}

pytestmark = pytest.mark.guard


def pickling(source):
    """Lines that read or write pickles."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            hit = any(a.name.split(".")[0] in MODULES for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            hit = (node.module or "").split(".")[0] in MODULES
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            hit = (node.value.id, node.attr) in CALLS
        else:
            hit = False
        if hit:
            found.append(node.lineno)
    return found


def test_no_module_pickles():
    found = {
        str(path): lines
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if (lines := pickling(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source", ["import pickle", "from joblib import dump", "torch.save(weights, path)"]
)
def test_the_guard_fires(source):
    assert pickling(source) == [1]
