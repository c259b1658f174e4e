"""The umbrella command: groups from dotted names, one line and an exit code per error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CANOPY = Path(sys.executable).parent / "canopy"


def run(*arguments, cwd=None, env=None):
    return subprocess.run(
        [CANOPY, *arguments], capture_output=True, text=True, check=False, cwd=cwd, env=env
    )


def test_help_lists_commands_and_groups():
    found = run("--help")
    assert found.returncode == 0
    for name in ("demo", "log", "policy", "evaluate"):
        assert name in found.stdout


def test_a_group_lists_its_commands():
    found = run("log", "--help")
    assert found.returncode == 0
    assert {"import", "check", "export", "stats", "template"} <= set(found.stdout.split())


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("log", "nonsense"), ("settings", "show", "--x")]
)
def test_bad_usage_exits_one(arguments):
    found = run(*arguments)
    assert found.returncode == 1
    assert found.stdout == ""
    assert found.stderr


def test_settings_show_names_the_source_of_each_value(tmp_path):
    found = run("settings", "show", "--json", env={"CANOPY_HOME": str(tmp_path)})
    assert json.loads(found.stdout)["home"] == {"value": str(tmp_path), "source": "environment"}


def test_an_error_of_ours_is_one_line_without_a_traceback(tmp_path):
    (tmp_path / "config.yaml").write_text("http_prot: 1\n")
    found = run("settings", "show", env={"CANOPY_HOME": str(tmp_path)})
    assert found.returncode == 1
    assert len(found.stderr.strip().splitlines()) == 1
    assert "http_prot" in found.stderr
