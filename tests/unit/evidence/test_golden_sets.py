"""Golden sets: whole, frozen, or refused."""

import json

import pytest

from canopy.domain.errors import GateFileError
from eval.golden import SHIPPED, find_golden, read_golden, write_manifest

CASE = "cases:\n  - id: one\n    because: it matters\n    context: {a: 1}\n"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "my_craft" / "v2"
    (made / "cases").mkdir(parents=True)
    (made / "cases" / "a.yaml").write_text(CASE)
    write_manifest(made, "my-craft")
    return made


def test_a_frozen_set_is_read_whole(folder):
    found = read_golden(folder)
    assert found.name == "my-craft/v2/cases"
    assert [case.id for case in found.cases] == ["one"]


def test_the_newest_version_is_found_by_number(folder):
    newer = folder.parent / "v10"
    (newer / "cases").mkdir(parents=True)
    (newer / "cases" / "a.yaml").write_text(CASE)
    write_manifest(newer, "my-craft")
    assert find_golden("my-craft", folder.parents[1]).version == "v10"


@pytest.mark.parametrize("name", ["unknown", "..", "../my_craft", ""])
def test_a_discipline_without_a_set_has_none(folder, name):
    assert find_golden(name, folder.parents[1]) is None


def alter(folder):
    (folder / "cases" / "a.yaml").write_text(CASE.replace("1", "2"))


def add(folder):
    (folder / "cases" / "b.yaml").write_text(CASE)


def remove(folder):
    (folder / "cases" / "a.yaml").unlink()


def lose_manifest(folder):
    (folder / "manifest.json").unlink()


def move(folder):
    content = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(content | {"discipline": "other"}))


def repeat(folder):
    add(folder)
    write_manifest(folder, "my-craft")


def no_yaml(folder):
    (folder / "cases" / "a.yaml").write_text("cases: [")
    write_manifest(folder, "my-craft")


def unknown_key(folder):
    (folder / "cases" / "a.yaml").write_text(CASE + "    hope: yes\n")
    write_manifest(folder, "my-craft")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (alter, "altered since"), (add, "not in the manifest"), (remove, "is missing"),
        (lose_manifest, "needs its manifest"), (move, "says other/v2"),
        (repeat, "two cases have this id"), (no_yaml, "not YAML"), (unknown_key, "hope"),
    ],
)  # fmt: skip
def test_a_set_that_is_not_as_frozen_is_refused(folder, harm, says):
    harm(folder)
    with pytest.raises(GateFileError, match=says):
        read_golden(folder)


def test_an_empty_set_cannot_be_frozen(tmp_path):
    with pytest.raises(GateFileError, match="no case file"):
        write_manifest(tmp_path / "d" / "v1", "d")


def test_every_shipped_set_is_as_frozen():
    shipped = sorted(SHIPPED.glob("*/v*"))
    assert shipped
    for folder in shipped:
        assert read_golden(folder).cases
