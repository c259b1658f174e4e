"""A policy's folder and its archive: written whole, never over another, byte for byte."""

import io
import tarfile

import pytest

from canopy.domain.errors import ArtifactError
from policy.archive import FILES, pack_files, unpack_files
from policy.artifact import load_artifact, pack_artifact, unpack_artifact


@pytest.fixture
def artifact(make_artifact):
    return make_artifact()


CONTENT = {name: name.encode() * 3 for name in FILES}


def tar(members, *, mode="w", tail=b""):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for member, raw in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return packed.getvalue() + tail


def link(name, target):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def test_a_policy_round_trips_through_its_archive():
    blob = pack_files(CONTENT)
    assert unpack_files(blob) == CONTENT
    assert pack_files(dict(reversed(CONTENT.items()))) == blob


def others():
    content = list(CONTENT.items())
    yield "empty", b""
    yield "no tar", b"x" * 2048
    yield "cut short", pack_files(CONTENT)[:-10_000]
    yield "trailing bytes", pack_files(CONTENT) + b"\0" * 512
    yield "compressed", tar(content, mode="w:gz")
    yield "a file missing", tar(content[1:])
    yield "a file more", tar([*content, ("run.py", b"x")])
    yield "a file twice", tar([*content, content[0]])
    yield "an absolute path", tar([*content[1:], ("/" + FILES[0], b"x")])
    yield "a path upwards", tar([*content[1:], ("../" + FILES[0], b"x")])
    yield "a link", tar([*content[1:], (link(FILES[0], "/etc/passwd"), b"")])
    yield "owners and times", tar(content)[:100] + b"0000755" + tar(content)[107:]


@pytest.mark.parametrize("name", [name for name, _ in others()])
def test_anything_else_is_refused(name):
    with pytest.raises(ArtifactError, match="archive: is n"):
        unpack_files(dict(others())[name])


def test_saving_the_same_policy_again_changes_nothing(make_artifact, tmp_path):
    first = make_artifact(folder=tmp_path / "p")
    before = {path.name: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    assert make_artifact(folder=tmp_path / "p").policy_id == first.policy_id
    assert {path.name: path.stat().st_mtime_ns for path in first.folder.iterdir()} == before


def test_another_policy_is_not_overwritten(make_artifact, tmp_path):
    first = make_artifact(folder=tmp_path / "p")
    with pytest.raises(ArtifactError, match="holds something else already"):
        make_artifact(folder=tmp_path / "p", seed=1)
    assert load_artifact(tmp_path / "p").policy_id == first.policy_id
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p"]


def test_an_empty_folder_or_a_new_path_is_filled(make_artifact, tmp_path):
    (tmp_path / "empty").mkdir()
    assert make_artifact(folder=tmp_path / "empty").folder == tmp_path / "empty"
    assert make_artifact(folder=tmp_path / "a" / "b").folder.is_dir()


def test_a_folder_that_cannot_be_written_is_named(make_artifact, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArtifactError, match="cannot be written"):
        make_artifact(folder=tmp_path / "file" / "p")
    with pytest.raises(ArtifactError, match="holds something else"):
        make_artifact(folder=tmp_path / "file")


def test_a_written_folder_can_be_read_by_others(artifact):
    assert artifact.folder.stat().st_mode & 0o777 == 0o755


def test_packing_is_deterministic_and_unpacking_gives_the_same_policy(artifact, tmp_path):
    blob = pack_artifact(artifact.folder)
    assert pack_artifact(artifact.folder) == blob
    again = unpack_artifact(blob, tmp_path / "elsewhere")
    assert again.policy_id == artifact.policy_id
    assert pack_artifact(again.folder) == blob
    assert unpack_artifact(blob, tmp_path / "elsewhere").policy_id == artifact.policy_id


def test_an_altered_policy_is_not_packed(artifact):
    (artifact.folder / "features.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"features\.json"):
        pack_artifact(artifact.folder)
