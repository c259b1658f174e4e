"""No secret stands in a tracked file, and none may enter through a config file."""

import re
import subprocess
from pathlib import Path

import pytest

from canopy.domain.errors import SettingError
from canopy.settings import load_settings

ROOT = Path(__file__).parents[2]
KEY_LIKE = re.compile(
    r"sk-[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|xox[abprs]-[A-Za-z0-9-]{10,}"
)

pytestmark = pytest.mark.guard


def secrets(paths):
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, IsADirectoryError, FileNotFoundError):
            continue
        if KEY_LIKE.search(text):
            found.append(str(path))
    return found


def test_no_tracked_file_holds_a_key():
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert names
    assert secrets(ROOT / name for name in names) == []


def test_the_guard_fires_on_a_key(tmp_path):
    leak = tmp_path / "config.yaml"
    leak.write_text("api_key: sk-" + "a1b2c3d4e5" * 3)
    assert secrets([leak]) == [str(leak)]


def test_a_password_in_a_config_file_is_refused_with_the_remedy(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("database_url: postgresql://app:hunter2@db/canopy\n")
    with pytest.raises(SettingError, match="CANOPY_DATABASE_URL"):
        load_settings(config, environment={})
