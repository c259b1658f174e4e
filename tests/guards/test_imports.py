"""Import rules: the arrows hold, `eval` is never shadowed, packages are our own."""

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("canopy", "policy", "training", "eval", "runtime")

pytestmark = pytest.mark.guard


def lint_imports(root):
    script = Path(sys.executable).parent / "lint-imports"
    return subprocess.run(
        [script, "--no-cache"], cwd=root, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": str(root)},
    )  # fmt: skip


def copy_of_tree(folder):
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_the_dependency_contracts_hold():
    found = lint_imports(ROOT)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("canopy/domain/clock.py", "import policy.selector", "training | eval -> runtime"),
        ("eval/report.py", "import training.config", "training | eval -> runtime"),
        ("runtime/bootstrap.py", "import torch", "Nothing that learns below"),
        ("policy/selector.py", "import httpx", "do no I/O"),
        ("canopy/domain/clock.py", "import numpy", "standard library alone"),
        ("canopy/storage/rows.py", "import duckdb", "duckdb and pyarrow only"),
        ("training/config.py", "import mlflow", "mlflow only through"),
        ("runtime/bootstrap.py", "import canopy.tracking", "Only training and eval"),
        ("eval/tiers/backtest.py", "import eval.tiers.verifiers", "No tier of evidence"),
        ("canopy/settings.py", "import canopy.storage", "Layers of the kernel"),
    ],
)
def test_each_contract_fires_on_a_violation(tmp_path, module, line, contract):
    tree = copy_of_tree(tmp_path)
    path = tree / module
    path.write_text(path.read_text() + f"\n{line}\n")
    found = lint_imports(tree)
    assert found.returncode != 0
    assert any(contract in row and "BROKEN" in row for row in found.stdout.splitlines()), (
        found.stdout
    )


def test_an_undeclared_part_of_the_kernel_is_reported(tmp_path):
    tree = copy_of_tree(tmp_path)
    (tree / "canopy" / "extras.py").write_text('"""Nobody declared this layer."""\n')
    assert lint_imports(tree).returncode != 0


def dotted_eval_imports(source):
    """Line numbers that bind the package `eval` over the builtin."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import)
        and any(a.name.split(".")[0] == "eval" and a.asname is None for a in node.names)
    ]


def test_no_module_shadows_the_builtin_eval():
    found = {
        str(path): lines
        for package in (*PACKAGES, "tests")
        for path in (ROOT / package).rglob("*.py")
        if (lines := dotted_eval_imports(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_the_eval_guard_fires():
    source = "from eval.tiers import backtest\nimport eval.tiers\nimport eval.report as r\n"
    assert dotted_eval_imports(source) == [2]


def foreign(packages, root):
    """Packages that resolve to somebody else's code."""
    found = []
    for package in packages:
        spec = importlib.util.find_spec(package)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or root not in origin.parents:
            found.append(package)
    return found


def test_our_packages_resolve_inside_the_checkout():
    assert foreign((*PACKAGES, "configs", "golden_sets"), ROOT) == []


def test_the_resolution_guard_fires():
    assert foreign(("json",), ROOT) == ["json"]
