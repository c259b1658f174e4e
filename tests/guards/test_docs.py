"""Docs: generated pages are current, and every public word has its heading."""

import importlib.util
import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from canopy.domain.decision import Reason
from canopy.settings import Settings

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"

pytestmark = pytest.mark.guard


@pytest.fixture
def generator(monkeypatch):
    """The script as a module, with the one beside it that it imports."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def undocumented(words, page):
    """Words that stand nowhere on the page between backticks."""
    return sorted(set(words) - set(re.findall(r"`([^`\n]+)`", page)))


def test_generated_pages_are_current():
    found = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr


def test_the_check_fires_on_a_stale_page(generator, tmp_path, monkeypatch, capsys):
    module = generator
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "PAGES", {"settings.md": module.settings})
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert module.main() == 1
    assert "settings.md" in capsys.readouterr().err


def test_the_check_fires_on_a_stale_table_of_figures(generator, tmp_path, monkeypatch):
    benchmarks = generator.benchmarks
    row = {
        "name": "a | b", "peer": "c", "ours": 12.0, "against": 3456.0, "unit": "us",
        "ratio": 0.00347, "budget": "≤ 2x", "holds": False, "measured": "2026-01-01",
    }  # fmt: skip
    machine = {"cores": 2, "cpu": "x", "has_avx512": False, "python": "3", "numpy": "2"}
    figures, readme = tmp_path / "benchmarks.json", tmp_path / "README.md"
    monkeypatch.setattr(benchmarks, "FIGURES", figures)
    monkeypatch.setattr(benchmarks, "README", readme)
    readme.write_text(f"before\n{benchmarks.BEGIN}\n{benchmarks.END}\nafter\n")
    assert benchmarks.is_current(rewrite=False), "without figures there is nothing to show"
    figures.write_text(json.dumps({"machine": machine, "rows": [row]}))
    assert not benchmarks.is_current(rewrite=False)
    assert not benchmarks.is_current(rewrite=True)
    assert benchmarks.is_current(rewrite=False)
    text = readme.read_text()
    assert "| a \\| b | 12 us | c: 3,456 us | 0.00347x | ≤ 2x | **missed** |" in text
    assert "1 figures, 1 missed. 2 cores of x, without AVX-512" in text
    assert (text.startswith("before\n"), text.endswith("\nafter\n")) == (True, True)


def test_every_setting_command_and_reason_is_documented():
    commands = ["canopy " + p.name.replace(".", " ") for p in entry_points(group="canopy.commands")]
    assert commands
    assert undocumented(commands, (REFERENCE / "commands.md").read_text()) == []
    assert undocumented(Settings.model_fields, (REFERENCE / "settings.md").read_text()) == []
    assert undocumented((r.value for r in Reason), (REFERENCE / "words.md").read_text()) == []


def test_the_guard_fires_on_an_undocumented_word():
    assert undocumented(["a", "b"], "only `a` is here") == ["b"]


def test_every_shipped_gate_is_documented():
    page = (REFERENCE / "gates.md").read_text()
    gates = [path.stem for path in (ROOT / "configs" / "gates").glob("*.yaml")]
    assert gates
    assert [name for name in gates if f"## {name}" not in page] == []


def missing_paths(text, root):
    """Paths between backticks that lead nowhere."""
    named = re.findall(r"`([a-z_]+/[a-z_./]*)`", text)
    return sorted({path for path in named if not (root / path).exists()})


def test_every_path_named_in_the_documents_exists():
    pages = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
    assert [p for page in pages for p in missing_paths(page.read_text(), ROOT)] == []


def test_the_path_guard_fires(tmp_path):
    assert missing_paths("see `policy/nowhere.py`", tmp_path) == ["policy/nowhere.py"]
