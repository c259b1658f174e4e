"""Policies by name: stored whole in the database, unpacked and verified before use."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from canopy.domain.errors import ArtifactError, NotFoundError
from canopy.storage.database import Database
from canopy.storage.rows import PolicyRow
from policy.artifact import Artifact, load_artifact, pack_artifact, unpack_artifact

MANIFEST_NAME: Final = "manifest.json"


def register_policy(database: Database, tenant: str, folder: Path) -> PolicyRow:
    """Verify an artifact and store it, with its catalog, so that every process can serve it.

    Registering the same artifact again changes nothing.

    Args:
        database: Where to.
        tenant: Who may use it; the fleet's policies serve every tenant.
        folder: The artifact's folder.

    Returns:
        The stored row.

    Raises:
        ArtifactError: If the folder is incomplete, altered, or fails its own probe batch.
    """
    artifact = load_artifact(folder)
    catalog = artifact.catalog
    row = PolicyRow(
        policy_id=artifact.policy_id,
        discipline=catalog.discipline,
        catalog_hash=catalog.content_hash,
        feature_hash=artifact.schema.content_hash,
        manifest=dict(artifact.manifest),
        archive=pack_artifact(folder),
    )
    with database.unit_of_work(tenant) as work:
        work.catalogs.put(
            catalog.content_hash, catalog.discipline, catalog.version, catalog.to_yaml()
        )
        work.policies.put(row)
    return row


def is_artifact_folder(name: str) -> bool:
    """True if the name is that of a folder that holds an artifact."""
    return (Path(name) / MANIFEST_NAME).is_file()


def resolve_policy(
    database: Database | None, tenant: str, name: str, cache: Path | None = None
) -> Artifact:
    """Load a policy by the folder it lies in, its id, or the beginning of its id.

    Args:
        database: Where registered policies are; None where only a folder may be meant.
        tenant: Whose policies to look among, the fleet's included.
        name: Folder, id or unique beginning of an id.
        cache: Folder of unpacked policies; None unpacks into a temporary one.

    Returns:
        The verified artifact.

    Raises:
        ArtifactError: If the artifact is incomplete or altered.
        NotFoundError: If nothing of that name is there.
    """
    if is_artifact_folder(name):
        return load_artifact(Path(name))
    if database is None:
        raise NotFoundError("artifact folder", name, f"Name a folder with a {MANIFEST_NAME}.")
    with database.unit_of_work(tenant) as work:
        row = work.policies.get(name)
    if cache is not None:
        return open_archived(row, cache)
    with tempfile.TemporaryDirectory(prefix="canopy-policy-") as scratch:
        return open_archived(row, Path(scratch))


def open_archived(row: PolicyRow, cache: Path) -> Artifact:
    """Load a stored policy through a folder of unpacked ones.

    A folder that no longer verifies is thrown away and unpacked again: the database holds
    the truth, the cache only saves the unpacking.

    Args:
        row: The stored policy.
        cache: Folder that holds one folder per policy id.

    Returns:
        The verified artifact.

    Raises:
        ArtifactError: If the archive itself does not verify, or is another policy's.
        OSError: If the cache cannot be written.
    """
    folder = cache / row.policy_id
    if folder.is_dir():
        try:
            return _verified(load_artifact(folder), row)
        except (ArtifactError, OSError):
            shutil.rmtree(folder, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{row.policy_id}.", dir=cache))
    try:
        _verified(unpack_artifact(row.archive, scratch / row.policy_id), row)
        try:
            (scratch / row.policy_id).rename(folder)
        except OSError:
            # Another process was quicker; its folder is verified like any other.
            if not folder.is_dir():
                raise
        return _verified(load_artifact(folder), row)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _verified(artifact: Artifact, row: PolicyRow) -> Artifact:
    if artifact.policy_id != row.policy_id:
        raise ArtifactError(
            f"policy {row.policy_id}",
            f"its archive holds policy {artifact.policy_id}.",
            "Register the artifact again from its folder.",
        )
    return artifact
