"""`canopy policy stop|resume|pin|unpin`, and where people see what stands."""

import json

import pytest
import structlog
from click.testing import CliRunner

from canopy.cli import canopy as root
from canopy.domain.errors import CanopyError
from canopy.domain.tenant import FLEET
from policy.catalog import parse_catalog

pytestmark = pytest.mark.integration

CRAFT = "public_copy"
PLAN = "tone=plain,length=medium"
NARROW = """\
discipline: public_copy
version: 2
factors:
  tone: {levels: [warm, cold]}
default: tone=cold
"""


@pytest.fixture
def canopy(settings):
    environment = {
        "CANOPY_HOME": str(settings.home),
        "CANOPY_DATABASE_URL": settings.database_url,
        "CANOPY_REDIS_URL": settings.redis_url,
        "COLUMNS": "200",
    }

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
def reasons(served):
    def ask(request_id, **parts):
        served.runtime.pointers.sweep()
        return served.select(request_id, **parts).json()["reasons"]

    return ask


def test_a_stop_without_narrowing_stops_everybody_until_it_is_resumed(canopy, reasons):
    said = canopy("policy", "stop", "--reason", "an incident")
    assert "stop of every discipline for everybody: on" in said
    assert reasons("one") == ["killed"]
    assert reasons("two", tenant="globex") == ["killed"]
    canopy("policy", "resume", "--reason", "it is over")
    assert reasons("three") == ["doctrine"]


def test_setting_a_stop_twice_changes_nothing(canopy, served, database):
    first = canopy("policy", "stop", "--tenant", "acme", "--reason", "an incident", "--json")
    again = canopy("policy", "stop", "--tenant", "acme", "--reason", "another", "--json")
    assert again == first
    with database.unit_of_work("acme") as work:
        assert len(work.interventions.history()) == 1


def test_resuming_takes_back_exactly_what_it_names(canopy, reasons):
    canopy("policy", "stop", "--reason", "an incident")
    canopy("policy", "stop", "--tenant", "acme", "--discipline", CRAFT, "--reason", "theirs")
    canopy("policy", "resume", "--tenant", "acme", "--discipline", CRAFT, "--reason", "over")
    assert reasons("one") == ["killed"]
    canopy("policy", "resume", "--reason", "over")
    assert reasons("two") == ["doctrine"]


def test_what_was_never_stopped_can_be_resumed(canopy, reasons):
    canopy("policy", "resume", "--discipline", CRAFT, "--reason", "to be sure")
    assert reasons("one") == ["doctrine"]


def test_a_pin_holds_until_it_is_taken_back(canopy, served, reasons):
    canopy("policy", "pin", PLAN, "--discipline", CRAFT, "--reason", "a launch")
    assert reasons("one") == ["pinned"]
    assert served.select("two").json()["plan"] == PLAN
    canopy("policy", "unpin", "--discipline", CRAFT, "--reason", "it is over")
    assert reasons("three") == ["doctrine"]


def test_a_plan_that_the_catalog_in_force_lacks_cannot_be_pinned(canopy, served, reasons):
    said = canopy("policy", "pin", "tone=cold", "--discipline", CRAFT, "--reason", "x", code=1)
    assert "tone=cold" in said
    assert "has no plan" in said
    assert reasons("one") == ["doctrine"]


def test_a_pin_beats_a_champion_and_a_stop_beats_a_pin(canopy, reasons, make_policy, point):
    point(make_policy(seed=1))
    canopy("policy", "pin", PLAN, "--discipline", CRAFT, "--reason", "a launch")
    assert reasons("one") == ["pinned"]
    canopy("policy", "stop", "--discipline", CRAFT, "--reason", "an incident")
    assert reasons("two") == ["killed"]


def test_list_show_and_select_tell_what_stands(canopy, served, make_policy, point):
    policy = make_policy(seed=1)
    point(policy)
    canopy("policy", "pin", PLAN, "--discipline", CRAFT, "--reason", "a launch", "--actor", "kim")
    canopy("policy", "stop", "--tenant", "acme", "--reason", "an incident")
    canopy("policy", "stop", "--discipline", "other", "--reason", "not this one")
    listed = canopy("policy", "list", "--tenant", "acme", "--json")["interventions"]
    assert {(one["kind"], one["tenant"], one["discipline"]) for one in listed} == {
        ("stop", "acme", None), ("stop", FLEET, "other"), ("pin", FLEET, CRAFT),
    }  # fmt: skip
    shown = canopy("policy", "show", policy.policy_id, "--tenant", "acme", "--json")
    chosen = canopy("policy", "select", "--tenant", "acme", "--discipline", CRAFT, "--json")
    for document in (shown, chosen):
        assert {(one["kind"], one["reason"]) for one in document["interventions"]} == {
            ("stop", "an incident"), ("pin", "a launch"),
        }  # fmt: skip
    assert chosen["reasons"] == ["killed"]
    assert "kim" in canopy("policy", "list")
    assert "kim" in canopy("policy", "show", policy.policy_id)
    assert "kim" in canopy("policy", "select", "--discipline", CRAFT)
    assert canopy("policy", "select", str(policy.folder), "--json")["interventions"] == []


def test_a_pin_that_outlived_its_catalog_is_listed_as_such(canopy, served, store_catalog):
    canopy("policy", "pin", PLAN, "--discipline", CRAFT, "--reason", "a launch")
    assert [one["fits"] for one in canopy("policy", "list", "--json")["interventions"]] == [True]
    store_catalog(NARROW)
    assert [one["fits"] for one in canopy("policy", "list", "--json")["interventions"]] == [False]
    served.runtime.pointers.sweep()
    answer = served.select("one").json()
    assert answer["plan"] == parse_catalog(NARROW, "x").plan_ids[1]


@pytest.mark.parametrize("command", ["stop", "resume"])
def test_a_blank_reason_is_refused(canopy, catalog, command):
    assert "blank" in canopy("policy", command, "--reason", "  ", code=1)
