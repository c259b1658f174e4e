"""Golden sets: contexts with expectations, frozen by a manifest of hashes.

A set lies at `golden_sets/<discipline>/<version>/` as `manifest.json` and `cases/*.yaml`. It is
read only whole and unaltered: every file of the manifest with its hash, and no file beside.
"""

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from canopy.domain.decision import Reason
from canopy.domain.errors import GateFileError
from canopy.domain.ids import canonical_json, content_hash

SHIPPED: Final = Path(str(files("golden_sets")))
"""Folder of the golden sets, one folder per discipline."""

MANIFEST: Final = "manifest.json"
CASES: Final = "cases"
_VERSION: Final = re.compile(r"v(\d+)\Z")

Group = dict[str, str | list[str]] | list[str]
"""Plans by their levels (each factor named must have the level, or one of the levels), or by id."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Share(_Strict):
    """A limit on the probability of a group of plans.

    Attributes:
        plans: The group.
        at_least: Least probability; None for no such limit.
        at_most: Greatest probability; None for no such limit.
    """

    plans: Group
    at_least: float | None = Field(default=None, ge=0, le=1)
    at_most: float | None = Field(default=None, ge=0, le=1)


class Expectation(_Strict):
    """What must come out.

    Attributes:
        reason: Why the decision must have come out as it did; None for any.
        plan: Group in which the served plan must lie; None for any.
        shares: Limits on the distribution.
    """

    reason: Reason | None = None
    plan: Group | None = None
    shares: tuple[Share, ...] = ()


class GoldenCase(_Strict):
    """One context and what must come out.

    Attributes:
        id: Its name, unique in the set.
        because: What the case stands for.
        context: What is known before choosing.
        allowed: Groups of plans that the caller says are possible; None for all, an empty list
            for none.
        catalogs: Versions of the catalog that the case speaks of; None for every version.
        expect: What must come out; the structural checks hold for every case besides.
    """

    id: str = Field(min_length=1)
    because: str = Field(min_length=1)
    context: dict[str, JsonValue]
    allowed: tuple[Group, ...] | None = None
    catalogs: tuple[str, ...] | None = None
    expect: Expectation = Expectation()


class _CaseFile(_Strict):
    cases: tuple[GoldenCase, ...] = Field(min_length=1)


class _Manifest(_Strict):
    discipline: str
    version: str
    files: dict[str, str] = Field(min_length=1)


class GoldenSet(_Strict):
    """A golden set, whole and unaltered.

    Attributes:
        discipline: The craft it is for.
        version: Its version, `v` and a number.
        content_hash: Identity of its content.
        cases: The cases, by file and order of writing.
    """

    discipline: str
    version: str
    content_hash: str
    cases: tuple[GoldenCase, ...]

    @property
    def name(self) -> str:
        """Its name in a lineage: the part that training must not have seen."""
        return f"{self.discipline}/{self.version}/{CASES}"


def folder_name(discipline: str) -> str:
    """Folder of a discipline's golden sets: hyphens become underscores, as in crafts' folders."""
    return discipline.replace("-", "_")


def find_golden(discipline: str, root: Path = SHIPPED) -> GoldenSet | None:
    """The newest golden set of a discipline; None where it has none.

    Raises:
        GateFileError: If it is malformed or not what its manifest says.
    """
    folder = root / folder_name(discipline)
    if folder.parent != root or not folder.is_dir():
        return None
    versions = {
        int(found[1]): path
        for path in folder.iterdir()
        if path.is_dir() and (found := _VERSION.match(path.name))
    }
    return read_golden(versions[max(versions)]) if versions else None


def read_golden(folder: Path) -> GoldenSet:
    """Read a golden set, verifying every file against the manifest.

    Raises:
        GateFileError: If a file is missing, altered, malformed or not listed; if a case stands
            twice; or if the manifest is another folder's.
    """
    manifest = _manifest(folder)
    lies_in = (folder.parent.name, folder.name)
    if (folder_name(manifest.discipline), manifest.version) != lies_in:
        raise GateFileError(
            f"{folder / MANIFEST}:discipline",
            f"says {manifest.discipline}/{manifest.version}, lies in "
            f"{folder.parent.name}/{folder.name}.",
            "Write it anew with `eval.golden.write_manifest`.",
        )
    _verify(folder, manifest)
    cases: list[GoldenCase] = []
    for name in sorted(manifest.files):
        cases += _cases(folder / name)
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise GateFileError(
                f"{folder}:{case.id}", "two cases have this id.", "Rename one of them."
            )
        seen.add(case.id)
    return GoldenSet(
        discipline=manifest.discipline,
        version=manifest.version,
        content_hash=content_hash(canonical_json(manifest.files)),
        cases=tuple(cases),
    )


def write_manifest(folder: Path, discipline: str) -> Path:
    """Freeze the cases of a golden set as they are now.

    Args:
        folder: `<discipline>/<version>`, with its cases written.
        discipline: The craft, as its catalog names it.

    Returns:
        The manifest's path.

    Raises:
        GateFileError: If there is no case.
    """
    hashes = {name: _hash(folder / name) for name in _case_files(folder)}
    if not hashes:
        raise GateFileError(f"{folder / CASES}", "holds no case file.", "Write cases first.")
    content = {"discipline": discipline, "version": folder.name, "files": hashes}
    path = folder / MANIFEST
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path


def _case_files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix()
        for path in (folder / CASES).rglob("*")
        if path.is_file()
    )


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _manifest(folder: Path) -> _Manifest:
    path = folder / MANIFEST
    try:
        return _Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise GateFileError(
            f"{path}", f"cannot be read: {error.strerror}.", "A golden set needs its manifest."
        ) from error
    except ValidationError as error:
        raise _malformed(path, error) from error


def _verify(folder: Path, manifest: _Manifest) -> None:
    present = set(_case_files(folder))
    for name in sorted(present ^ set(manifest.files)):
        problem = "is not in the manifest." if name in present else "is missing."
        raise GateFileError(f"{folder / name}", problem, "Restore the set, or make a new version.")
    for name, expected in manifest.files.items():
        if _hash(folder / name) != expected:
            raise GateFileError(
                f"{folder / name}",
                "was altered since the set was frozen.",
                "Restore it, or make a new version of the set.",
            )


def _cases(path: Path) -> tuple[GoldenCase, ...]:
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return _CaseFile.model_validate(content).cases
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise GateFileError(f"{path}", f"not YAML: {problem}.", "Correct the file.") from error
    except ValidationError as error:
        raise _malformed(path, error) from error


def _malformed(path: Path, error: ValidationError) -> GateFileError:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) or "the whole file"
    return GateFileError(f"{path}:{key}", f"{first['msg']}.", "Correct the file.")
