"""A selection is answered by an installation that has the slim lock's packages and no other."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from canopy.storage.embedded import processes

pytestmark = [pytest.mark.acceptance, pytest.mark.integration]

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements-slim.lock"
ABSENT = ("torch", "mlflow", "pandas", "sklearn", "duckdb", "pyarrow", "scipy", "matplotlib")


def run(*command, **parts):
    return subprocess.run(command, capture_output=True, text=True, check=False, **parts)


@pytest.fixture(scope="module")
def slim(tmp_path_factory):
    """The interpreter of a fresh virtual environment made from the slim lock."""
    folder = tmp_path_factory.mktemp("slim") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    locked = run(*pip, "-r", LOCK)
    if locked.returncode:
        pytest.skip(f"the package index did not give the locked packages: {locked.stderr[-300:]}")
    built = run(*pip, "hatchling", "editables")
    if built.returncode:
        pytest.skip(f"the package index did not give the build tool: {built.stderr[-300:]}")
    own = run(*pip, "--no-deps", "--no-build-isolation", ROOT)
    assert own.returncode == 0, own.stderr
    return python


def test_it_answers_a_selection_and_has_none_of_what_learns(
    slim, settings, stored_catalog, tmp_path
):
    missing = run(
        slim, "-c",
        "import importlib.util, json, sys; "
        "print(json.dumps([n for n in sys.argv[1:] if importlib.util.find_spec(n)]))",
        *ABSENT, cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(missing.stdout) == []
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CANOPY_HOME": str(settings.home),
        "CANOPY_DATABASE_URL": settings.database_url,
        "CANOPY_REDIS_URL": settings.redis_url,
    }
    started = run(
        slim.parent / "canopy", "http", "--background", "--json", env=environment, cwd=tmp_path
    )
    assert started.returncode == 0, started.stderr
    try:
        answer = httpx.post(
            json.loads(started.stdout)["address"] + "/v1/selections",
            json={
                "request_id": "r-1",
                "tenant": "acme",
                "discipline": stored_catalog.discipline,
                "unit_id": "u-1",
                "context": {},
            },
            trust_env=False,
        )
    finally:
        found = processes.find(settings.home, "http")
        os.kill(found.pid, 15)
    assert answer.status_code == 200, answer.text
    assert answer.json()["reasons"] == ["doctrine"]
    assert 0 < answer.json()["propensity"] <= 1
