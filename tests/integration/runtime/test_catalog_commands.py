"""`canopy catalog`: what may be chosen, from outside, and what changing it would touch."""

import json

import pytest
from click.testing import CliRunner

from canopy.cli import canopy as root
from canopy.domain.decision import Mode
from canopy.domain.errors import CanopyError

pytestmark = pytest.mark.integration

OLD = """\
discipline: public_copy
version: 1
factors:
  tone:
    levels:
      warm: {doctrine: Speak like a neighbour., weight: 3}
      plain: {doctrine: Say it once., weight: 1}
  length: {levels: [short, medium, long]}
feasibility:
  - mask: {length: long}
    unless: {ge: {budget: 3}}
    because: long texts need a budget of 3
default: tone=warm,length=short
"""
NEW = OLD.replace("version: 1", "version: 2").replace("medium, long", "medium, brief").replace(
    "mask: {length: long}", "mask: {length: brief}"
)  # fmt: skip


@pytest.fixture
def environment(settings):
    return {
        "CANOPY_HOME": str(settings.home),
        "CANOPY_DATABASE_URL": settings.database_url,
        "CANOPY_REDIS_URL": settings.redis_url,
        "COLUMNS": "200",
    }


@pytest.fixture
def canopy(environment):
    def run(*arguments):
        ran = CliRunner().invoke(root, arguments, env=environment, standalone_mode=False)
        if isinstance(ran.exception, CanopyError):
            return ran.exception.exit_code, str(ran.exception)
        assert ran.exception is None, ran.output
        code = ran.return_value if isinstance(ran.return_value, int) else 0
        return code, json.loads(ran.stdout) if "--json" in arguments else ran.output

    return run


@pytest.fixture
def files(tmp_path):
    made = {}
    for name, text in (("old", OLD), ("new", NEW)):
        made[name] = tmp_path / f"{name}.yaml"
        made[name].write_text(text)
    return made


def test_check_counts_what_is_sound_and_places_what_is_not(canopy, files, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(OLD.replace("length=short", "length=tiny"))
    code, found = canopy("catalog", "check", str(files["old"]), str(wrong), "--json")
    assert code == 1
    sound, faulty = found["files"]
    assert (sound["ok"], sound["n_plans"], sound["has_doctrine_weights"]) == (True, 6, True)
    assert faulty["fault"]["place"].startswith(f"{wrong}:13:default")


def test_check_says_that_a_log_without_weights_has_no_overlap(canopy, tmp_path):
    plain = tmp_path / "plain.yaml"
    plain.write_text(OLD.replace(", weight: 3", "").replace(", weight: 1", ""))
    _, text = canopy("catalog", "check", str(plain))
    assert "Give the levels `weight`s" in text


def test_check_finds_plans_that_no_context_allows(canopy, tmp_path):
    never = tmp_path / "never.yaml"
    rule = "  - mask: {length: long}\n    when: {ge: {budget: 3}}\n    because: never\n"
    never.write_text(OLD.replace("default:", rule + "default:"))
    _, found = canopy("catalog", "check", str(never), "--json")
    assert found["files"][0]["n_never_feasible"] == 2


def test_show_explains_the_mask_of_a_context(canopy, files):
    context = '{"budget": 1}'
    _, found = canopy("catalog", "show", str(files["old"]), "--context", context, "--json")
    assert found["n_feasible"] == 4
    assert found["masked_by"] == {"long texts need a budget of 3": 2}
    assert found["factors"][0]["levels"][0]["doctrine"] == "Speak like a neighbour."
    _, text = canopy("catalog", "show", str(files["old"]), "--context", context)
    assert "long texts need a budget of 3" in text


def test_an_added_catalog_serves_and_is_named_by_the_beginning_of_its_hash(canopy, files):
    code, added = canopy("catalog", "add", str(files["old"]), "--json")
    assert (code, added["is_new"], added["is_in_force"]) == (0, True, True)
    assert not canopy("catalog", "add", str(files["old"]), "--json")[1]["is_new"]
    prefix = added["content_hash"][:8]
    assert canopy("catalog", "show", prefix, "--json")[1]["content_hash"] == added["content_hash"]
    _, found = canopy("catalog", "show", "--discipline", "public_copy", "--json")
    assert found["content_hash"] == added["content_hash"]
    code, message = canopy("catalog", "show", "ffffffff")
    assert code == 1
    assert "Name a file, or a stored hash" in message


def test_a_version_name_stands_for_one_content(canopy, files, tmp_path):
    canopy("catalog", "add", str(files["old"]))
    other = tmp_path / "other.yaml"
    other.write_text(NEW.replace("version: 2", "version: 1"))
    code, message = canopy("catalog", "add", str(other))
    assert code == 1
    assert "version '1' is taken" in message


def test_diff_says_which_episodes_and_policies_a_change_touches(
    canopy, files, served, make_policy, point
):
    policy = make_policy(seed=1)
    point(policy, mode=Mode.ON)
    served.runtime.pointers.sweep()
    plans = [served.select(f"r-{n}", unit_id=f"u-{n}").json()["plan"] for n in range(40)]
    gone = sum(plan.endswith("length=long") for plan in plans)
    assert 0 < gone < 40
    code, found = canopy(
        "catalog", "diff", "--discipline", "public_copy", str(files["new"]),
        "--tenant", "acme", "--json",
    )  # fmt: skip
    assert code == 0
    assert found["levels"] == {"added": ["length=brief"], "removed": ["length=long"]}
    assert (found["plans"]["n_kept"], found["plans"]["n_removed"]) == (4, 2)
    impact = found["impact"]
    assert (impact["n_episodes"], impact["n_episodes_gone"]) == (40, gone)
    (touched,) = impact["policies"]
    assert touched["policy_id"] == policy.policy_id
    assert (touched["n_known"], touched["n_unseen"], touched["n_gone"]) == (4, 2, 2)
    assert "goes on choosing" in impact["serves"]


def test_diff_of_two_files_needs_no_server(canopy, files):
    _, found = canopy("catalog", "diff", str(files["old"]), str(files["old"]), "--json")
    assert found["is_empty"]
    code, message = canopy("catalog", "diff", str(files["old"]))
    assert code == 1
    assert "Name OLD and NEW" in message


def test_diff_reads_well_at_a_hundred_thousand_plans(canopy, tmp_path):
    def text(version, last):
        factors = "\n".join(
            f"  f{i}: {{levels: [{', '.join(f'l{j}' for j in range(10))}]}}" for i in range(4)
        )
        levels = ", ".join(f"l{j}" for j in range(last))
        return (
            f"discipline: wide\nversion: {version}\nfactors:\n{factors}\n"
            f"  f4: {{levels: [{levels}]}}\ndefault: f0=l0,f1=l0,f2=l0,f3=l0,f4=l0\n"
        )

    for name, version, last in (("a", 1, 10), ("b", 2, 11)):
        (tmp_path / f"{name}.yaml").write_text(text(version, last))
    _, found = canopy(
        "catalog", "diff", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"), "--json"
    )
    assert (found["plans"]["n_kept"], found["plans"]["n_added"]) == (100_000, 10_000)
    assert len(found["plans"]["added"]) == 20
    assert found["plans"]["is_renumbered"]
