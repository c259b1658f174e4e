"""`canopy policy mode`: up through the gate, down with a reason, a share while a canary runs."""

import json

import pytest
from click.testing import CliRunner

from canopy.cli import canopy as root
from canopy.domain.errors import CanopyError
from canopy.domain.tenant import FLEET
from policy.artifact import load_artifact
from runtime.registry import register_policy

pytestmark = pytest.mark.integration

GATE = """\
mode: {mode}
requires:
  verifiers:
    max_age_days: 90
    golden: if_present
"""


@pytest.fixture
def canopy(settings):
    environment = {
        "CANOPY_HOME": str(settings.home),
        "CANOPY_DATABASE_URL": settings.database_url,
        "CANOPY_REDIS_URL": settings.redis_url,
        "COLUMNS": "200",
    }

    def run(*arguments):
        ran = CliRunner().invoke(root, [*arguments, "--json"], env=environment)
        if isinstance(ran.exception, CanopyError):
            return ran.exception.exit_code, str(ran.exception)
        assert not isinstance(ran.exception, Exception), ran.output
        return ran.exit_code, json.loads(ran.stdout)

    return run


@pytest.fixture
def registered(good, database):
    register_policy(database, FLEET, good)
    return load_artifact(good)


@pytest.fixture
def gate(tmp_path):
    def write(mode):
        path = tmp_path / f"{mode}.yaml"
        path.write_text(GATE.format(mode=mode))
        return str(path)

    return write


def test_a_policy_climbs_and_comes_down(canopy, registered, gate):
    craft, policy = registered.catalog.discipline, registered.policy_id
    code, message = canopy("policy", "mode", craft, "on")
    assert code == 1
    assert "there is no candidate" in message
    code, found = canopy("policy", "mode", craft, "observation", "--policy", policy)
    assert (code, found["passed"]) == (3, False)
    assert canopy("policy", "evidence", policy, "--tier", "verifiers")[0] == 0
    code, found = canopy("policy", "mode", craft, "observation", "--policy", policy)
    assert (code, found["state"]["mode"]) == (0, "observation")

    canary = ("policy", "mode", craft, "canary", "--gate", gate("canary"))
    assert "begins with a share" in canopy(*canary)[1]
    code, found = canopy(*canary, "--share", "0.05")
    assert (code, found["state"]["canary_share"]) == (0, 0.05)
    salt = found["state"]["canary_salt"]
    assert "no reason" in canopy("policy", "mode", craft, "canary", "--share", "0.2")[1]
    code, found = canopy(
        "policy", "mode", craft, "canary", "--share", "0.2", "--reason", "no harm so far"
    )
    assert (code, found["state"]["canary_share"]) == (0, 0.2)
    assert found["state"]["canary_salt"] == salt

    code, found = canopy("policy", "mode", craft, "on", "--gate", gate("on"))
    assert (code, found["state"]["champion"]) == (0, policy)
    assert found["state"]["canary_salt"] is None
    assert "it is on already" in canopy("policy", "mode", craft, "on", "--reason", "again")[1]
    code, found = canopy("policy", "mode", craft, "none", "--reason", "harm")
    assert (code, found["state"]["champion"], found["state"]["candidate"]) == (0, None, None)


def test_each_canary_has_a_salt_of_its_own(canopy, registered, gate):
    craft, policy = registered.catalog.discipline, registered.policy_id
    canopy("policy", "evidence", policy, "--tier", "verifiers")
    salts = []
    for _ in range(2):
        found = canopy(
            "policy", "mode", craft, "canary", "--policy", policy,
            "--gate", gate("canary"), "--share", "0.1",
        )[1]  # fmt: skip
        salts.append(found["state"]["canary_salt"])
        canopy("policy", "mode", craft, "none", "--reason", "the end")
    assert len(set(salts)) == 2
