"""The serving commands, from outside: the process, and looking at policies and decisions."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest
import structlog
from click.testing import CliRunner

from canopy.cli import canopy as root
from canopy.domain.decision import Mode
from canopy.domain.errors import CanopyError
from canopy.storage.embedded import processes

pytestmark = pytest.mark.integration

CANOPY = Path(sys.executable).parent / "canopy"


@pytest.fixture
def environment(settings):
    """Variables that name this test's installation."""
    return {
        "CANOPY_HOME": str(settings.home),
        "CANOPY_DATABASE_URL": settings.database_url,
        "CANOPY_REDIS_URL": settings.redis_url,
        "COLUMNS": "200",
    }


@pytest.fixture
def canopy(environment):
    """Runs a command of this test's installation in this process."""

    def run(*arguments, code=0):
        ran = CliRunner().invoke(root, arguments, env=environment, standalone_mode=False)
        structlog.reset_defaults()  # the command's own stream is gone with it
        if code:
            assert isinstance(ran.exception, CanopyError), ran.output
            assert ran.exception.exit_code == code
            return str(ran.exception)
        assert ran.exception is None, ran.output
        return json.loads(ran.stdout) if "--json" in arguments else ran.output

    return run


@pytest.fixture
def process(settings, environment, tmp_path):
    """Runs a command in a process of its own; whatever it started is stopped at the end."""

    def run(*arguments, code=0):
        ran = subprocess.run(
            [CANOPY, *arguments], env=os.environ | environment, cwd=tmp_path, check=False,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert ran.returncode == code, ran.stdout + ran.stderr
        return json.loads(ran.stdout) if not code else ran.stderr

    yield run
    processes.stop_all(settings.home)


def test_the_process_starts_once_answers_and_ends_cleanly(process, settings, catalog, asking):
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: process("http", "--background", "--json"), range(2)))
    assert both[0] == both[1]
    address = both[0]["address"]
    entry = processes.find(settings.home, "http")
    assert entry.address == address
    assert address.startswith("http://127.0.0.1:")
    answer = httpx.post(f"{address}/v1/selections", json=asking(), trust_env=False)
    assert answer.status_code == 200
    assert process("http", "--background", "--json")["address"] == address
    assert "already served" in process("http", code=1)
    os.kill(entry.pid, signal.SIGTERM)
    deadline = time.monotonic() + 10
    while processes.is_alive(entry) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not processes.is_alive(entry)
    assert processes.registered(settings.home) == []
    log = (settings.home / "logs" / "http.log").read_text()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith('{"')]
    assert any(line.get("path") == "/v1/selections" for line in lines)
    assert "Traceback" not in log


def test_a_clean_stop_ends_with_zero_and_finishes_what_is_in_flight(
    settings, environment, catalog, tmp_path, asking, database
):
    with (
        (tmp_path / "log").open("wb") as sink,
        subprocess.Popen(
            [CANOPY, "http", "--json"], env=os.environ | environment, stdout=subprocess.PIPE,
            stderr=sink,
        ) as server,
    ):  # fmt: skip
        deadline = time.monotonic() + 30
        while processes.find(settings.home, "http") is None and time.monotonic() < deadline:
            time.sleep(0.02)
        address = processes.find(settings.home, "http").address
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask, address, asking(f"r-{number}")) for number in range(64)]
            asked[8].result()
            server.send_signal(signal.SIGTERM)
            answered = [one.result() for one in asked if one.exception() is None]
        out, _ = server.communicate(timeout=30)
    assert server.returncode == 0
    assert json.loads(out) == {"address": address}
    assert len(answered) >= 9
    with database.unit_of_work("acme") as work:
        for answer in answered:
            assert work.decisions.get(answer["decision_id"]).plan == answer["plan"]


def ask(address, body):
    answer = httpx.post(f"{address}/v1/selections", json=body, trust_env=False, timeout=30)
    return answer.raise_for_status().json()


def test_a_schema_that_is_behind_is_refused_with_the_remedy(canopy, fresh_database):
    with psycopg.connect(fresh_database.admin) as admin:
        admin.execute("update alembic_version set version_num = '0001'")
    assert "canopy migrate" in canopy("http", code=2)
    assert "canopy migrate" in canopy("http", "--background", code=2)


def test_a_port_in_use_is_refused_by_name(canopy, served):
    taken = served.address.rpartition(":")[2]
    assert "cannot be bound" in canopy("http", "--port", taken, code=1)


def test_policies_are_listed_with_their_roles(canopy, make_policy, point):
    champion, candidate = make_policy(seed=1), make_policy(seed=2)
    point(champion, candidate, Mode.OBSERVATION)
    listed = canopy("policy", "list", "--json")["policies"]
    assert {row["policy_id"]: row["role"] for row in listed} == {
        champion.policy_id: "champion of public_copy",
        candidate.policy_id: "candidate (observation) of public_copy",
    }
    assert canopy("policy", "list", "--discipline", "other", "--json")["policies"] == []
    assert champion.policy_id[:12] in canopy("policy", "list")


def test_a_policy_is_shown_by_the_beginning_of_its_id(canopy, make_policy, point):
    policy = make_policy(seed=1)
    point(policy)
    shown = canopy("policy", "show", policy.policy_id[:10], "--json")
    assert shown["policy_id"] == policy.policy_id
    assert shown["manifest"]["objective"] == "bc"
    assert [state["role"] for state in shown["states"]] == ["champion"]
    assert [change["reason"] for change in shown["transitions"]] == ["a test"]
    assert "champion" in canopy("policy", "show", str(policy.folder))
    assert "canopy policy list" in canopy("policy", "show", "ffff", code=1)


def test_verify_says_parity_and_refuses_an_altered_folder(canopy, make_policy):
    policy = make_policy(seed=1)
    assert canopy("policy", "verify", str(policy.folder), "--json")["parity"] == "bits"
    weights = policy.folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert "weights.safetensors" in canopy("policy", "verify", str(policy.folder), code=1)


def test_select_prints_what_the_service_would_draw_and_records_nothing(
    canopy, served, database, make_policy, point, tmp_path
):
    policy = make_policy(seed=1)
    point(policy)
    served.runtime.pointers.sweep()
    context = tmp_path / "context.json"
    context.write_text('{"budget": 1, "channel": "chat"}')
    chosen = canopy(
        "policy", "select", "--tenant", "acme", "--discipline", "public_copy",
        "--context", str(context), "--request-id", "r-77", "--json",
    )  # fmt: skip
    with database.unit_of_work("acme") as work:
        assert work.decisions.count() == 0
    answer = served.select("r-77", context={"budget": 1, "channel": "chat"}).json()
    for name in ("plan", "propensity", "reasons", "versions"):
        assert chosen[name] == answer[name]
    assert sum(chosen["distribution"].values()) == pytest.approx(1, abs=1e-12)
    assert chosen["masked"] == dict.fromkeys(
        ("tone=warm,length=long", "tone=plain,length=long"), "long texts need a budget of 3"
    )
    by_folder = canopy(
        "policy", "select", str(policy.folder), "--tenant", "acme", "--context",
        '{"budget": 1, "channel": "chat"}', "--request-id", "r-77", "--json",
    )  # fmt: skip
    assert by_folder["distribution"] == chosen["distribution"]
    assert chosen["plan"] in canopy("policy", "select", str(policy.folder))
    assert "--discipline" in canopy("policy", "select", code=1)


def test_replay_redraws_to_the_bit(canopy, served, make_policy, point):
    doctrine = served.select("r-1").json()["decision_id"]
    point(make_policy(seed=1))
    served.runtime.pointers.sweep()
    drawn = served.select("r-2").json()["decision_id"]
    imposed = served.select("r-3", override="tone=warm,length=short").json()["decision_id"]
    for decision_id in (doctrine, drawn):
        found = canopy("policy", "replay", decision_id, "--tenant", "acme", "--json")
        assert found["is_same"] is True
        assert found["source"] == "stored"
        assert found["drift"] == 0.0
        assert found["is_same_kernel"] is True
    found = canopy("policy", "replay", imposed, "--tenant", "acme", "--json")
    assert (found["was_drawn"], found["is_same"]) == (False, None)
    assert "overridden" in found["because"]
    assert "no decision" in canopy("policy", "replay", drawn, "--tenant", "globex", code=1)
    assert "UUID" in canopy("policy", "replay", "nope", "--tenant", "acme", code=1)


def test_replay_over_many_plans_recomputes_and_checks_the_digest(
    canopy, served, make_policy, point
):
    levels = ", ".join(f"l{n}" for n in range(300))
    text = (
        f"discipline: public_copy\nversion: 5\nfactors:\n  f: {{levels: [{levels}]}}\n"
        "default: f=l0\n"
    )
    point(make_policy(seed=1, text=text))
    served.runtime.pointers.sweep()
    decision_id = served.select().json()["decision_id"]
    found = canopy("policy", "replay", decision_id, "--tenant", "acme", "--json")
    assert found["source"] == "recomputed"
    assert found["digest_matches"] is True
    assert found["is_same"] is True


def test_served_episodes_come_back_as_a_log(canopy, served, make_policy, point, tmp_path):
    point(make_policy(seed=1))
    served.runtime.pointers.sweep()
    for number in range(30):
        answer = served.select(f"r-{number}", unit_id=f"u-{number}").json()
        served.client.post(
            "/v1/outcomes",
            json={
                "tenant": "acme", "decision_id": answer["decision_id"],
                "value": None if number % 3 == 0 else float(number % 2),
            },
        ).raise_for_status()  # fmt: skip
    log = tmp_path / "log.parquet"
    canopy(
        "log", "export", "--tenant", "acme", "--discipline", "public_copy", "--out", str(log),
        "--json",
    )  # fmt: skip
    checked = canopy("log", "check", str(log), "--json")
    assert checked["n_rows"] == 30
