"""The four files of a policy: read, written whole or not at all, packed and unpacked."""

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from canopy.domain.errors import ArtifactError

MANIFEST: Final = "manifest.json"
CATALOG: Final = "catalog.yaml"
FEATURES: Final = "features.json"
WEIGHTS: Final = "weights.safetensors"
FILES: Final = (CATALOG, FEATURES, MANIFEST, WEIGHTS)
"""What a policy's folder holds, in the order of packing."""

_MODE: Final = 0o644


def read_folder(folder: Path) -> dict[str, bytes]:
    """The bytes of a policy's files, each read once.

    Raises:
        ArtifactError: If one is missing or unreadable, or there is another: no hash proves it.
    """
    files = {}
    for name in FILES:
        try:
            files[name] = (folder / name).read_bytes()
        except OSError as error:
            raise ArtifactError(
                str(folder / name), f"cannot be read: {error.strerror}.", "Pass a policy's folder."
            ) from error
    more = sorted(path.name for path in folder.iterdir() if path.name not in FILES)
    if more:
        raise ArtifactError(
            str(folder / more[0]), "is no file of a policy.", "Keep it outside the policy's folder."
        )
    return files


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put a policy's files into a folder, in one step.

    A folder that holds the same bytes already stays as it is.

    Raises:
        ArtifactError: If the folder holds something else, or cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise ArtifactError(
            str(folder), f"cannot be written: {error.strerror}.", "Check the path and its rights."
        ) from error
    try:
        for name, raw in files.items():
            with (scratch / name).open("wb") as stream:
                stream.write(raw)
                stream.flush()
                os.fsync(stream.fileno())
        scratch.chmod(0o755)  # mkdtemp closes it to everybody else
        _move(scratch, folder, files)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _move(scratch: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    """Rename the finished folder into place.

    Raises:
        ArtifactError: If something else lies there.
    """
    try:
        scratch.rename(folder)
    except OSError as error:
        # Somebody may have written the same policy before, or at the same time.
        if folder.is_dir() and all(
            (folder / name).is_file() and (folder / name).read_bytes() == raw
            for name, raw in files.items()
        ):
            return
        raise ArtifactError(
            str(folder), "holds something else already.", "Choose a new folder, or empty this one."
        ) from error


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """A policy's files as an uncompressed tar without owners or times."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in FILES:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(files[name]), _MODE
            archive.addfile(member, io.BytesIO(files[name]))
    return packed.getvalue()


def unpack_files(blob: bytes) -> dict[str, bytes]:
    """The files in a packed policy.

    Nothing but the bytes that packing would give is accepted: no links, paths, other names
    or trailing content.

    Raises:
        ArtifactError: If the bytes are no packed policy.
    """
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(blob), mode="r:") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isreg() else None
                files[member.name] = b"" if stream is None else stream.read()
    except (tarfile.TarError, ValueError, OSError) as error:
        raise ArtifactError(
            "archive", "is no tar of a policy.", "Pack the policy again."
        ) from error
    if sorted(files) != list(FILES) or pack_files(files) != blob:
        raise ArtifactError("archive", "is not exactly a packed policy.", "Pack the policy again.")
    return files
