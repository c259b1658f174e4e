import json
import subprocess
import sys

import psycopg
import pytest
from click.testing import CliRunner

from canopy.settings import Settings
from canopy.storage import cli, migrate
from canopy.storage.embedded.processes import register, running
from canopy.storage.servers import mlflow_url, stop_servers
from canopy.storage.tables import REVISION

pytestmark = pytest.mark.integration


@pytest.fixture
def command(monkeypatch, settings):
    """Runs a command on the test's installation; gives exit code and JSON."""
    for name, value in settings.model_dump(mode="json", exclude_none=True).items():
        monkeypatch.setenv(f"CANOPY_{name.upper()}", str(value))

    def run(which, *options):
        ended = CliRunner().invoke(which, ["--json", *options])
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return ended.exit_code, json.loads(ended.stdout)

    return run


def test_up_migrates_and_doctor_agrees(command, settings):
    migrate.downgrade(settings, "base")
    code, found = command(cli.doctor)
    assert code == 2
    assert [c["remedy"] for c in found["checks"] if c["status"] == "fail"] != []
    code, found = command(cli.up)
    assert (code, found["schema"], found["embedded"]) == (0, REVISION, [])
    settings.home.mkdir(exist_ok=True)
    code, found = command(cli.doctor)
    assert code == 0, found
    names = {check["name"]: check["status"] for check in found["checks"]}
    assert names["tenant isolation"] == names["schema"] == names["application role"] == "ok"
    assert names["record guard"] == names["Redis keeps data"] == names["extensions"] == "ok"


def test_migrate_says_where_the_schema_is(command, settings):
    migrate.downgrade(settings, "0001")
    assert command(cli.migrate) == (0, {"schema": REVISION})


def test_doctor_sees_a_role_that_row_security_does_not_bind(command, settings, servers):
    settings.home.mkdir()
    loosen = "alter table requests disable row level security"
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute(loosen)
    code, found = command(cli.doctor)
    failed = {check["name"] for check in found["checks"] if check["status"] == "fail"}
    assert (code, failed) == (2, {"tenant isolation"})


def test_doctor_of_a_machine_where_nothing_answers(command, monkeypatch):
    monkeypatch.setenv("CANOPY_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv("CANOPY_REDIS_URL", "redis://127.0.0.1:1")
    code, found = command(cli.doctor)
    failed = {check["name"] for check in found["checks"] if check["status"] == "fail"}
    assert (code, failed) == (2, {"data folder", "Postgres", "Redis"})
    assert all(check["remedy"] for check in found["checks"] if check["status"] != "ok")


def test_down_stops_registered_processes_and_leaves_named_servers_alone(command, settings):
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    register(settings.home, "http", sleeper.pid, "http://127.0.0.1:1")
    assert [entry.name for entry in running(settings.home)] == ["http"]
    assert command(cli.down) == (0, {"stopped": ["http"]})
    assert sleeper.wait(5) != 0
    assert command(cli.down) == (0, {"stopped": []})


def test_down_where_nothing_ever_ran_is_fine(tmp_path):
    assert stop_servers(Settings(home=tmp_path / "nowhere")) == ()


def test_mlflow_gets_a_database_of_its_own(settings):
    url = mlflow_url(settings)
    assert mlflow_url(settings) == url
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        (name,) = connection.execute("select current_database()").fetchone()
    own = psycopg.conninfo.conninfo_to_dict(settings.database_url)["dbname"]
    assert name == f"{own}_mlflow"


def test_mlflow_elsewhere_stays_elsewhere(settings):
    given = settings.model_copy(update={"mlflow_url": "http://127.0.0.1:5000"})
    assert mlflow_url(given) == "http://127.0.0.1:5000"
