"""A policy as a folder: catalog, feature schema, weights, and a manifest that proves them.

Nothing in it is code. Loading verifies every hash and the probe batch before anything is
served; a policy is named by the content of its manifest, and the manifest by its bytes.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canopy.domain.errors import ArtifactError, CatalogError, FeatureError, InputError
from policy.archive import (
    CATALOG,
    FEATURES,
    MANIFEST,
    WEIGHTS,
    pack_files,
    read_folder,
    unpack_files,
    write_folder,
)
from policy.catalog import Catalog, parse_catalog
from policy.distributions import check_floor
from policy.features import FeatureSchema
from policy.heads import FactoredHead
from policy.kernel import kernel_facts, kernel_fingerprint
from policy.manifest import (
    AGAIN,
    FORMAT_VERSION,
    checked_facts,
    identity,
    read_manifest,
    rendered,
)
from policy.probe import answers, check_answers, expected_rows, probe_contexts
from policy.scoring import check_temperature
from policy.weights import checked_weights, weights_from_bytes, weights_to_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Artifact:
    """A verified policy.

    Attributes:
        policy_id: Hash of the manifest, and with it of everything else.
        catalog: The plans it chooses from.
        schema: The features it reads.
        head: Its scorer.
        temperature: What scores are divided by.
        floor: Exploration floor it is served with.
        manifest: The manifest as read.
        folder: Where it lies.
        parity: `bits` if the probe agreed to the bit, `tolerance` if to 1e-12 on another
            numeric kernel.
    """

    policy_id: str
    catalog: Catalog
    schema: FeatureSchema
    head: FactoredHead
    temperature: float
    floor: float
    manifest: Mapping[str, Any]
    folder: Path
    parity: str


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def save_artifact(
    folder: Path | str,
    *,
    catalog: Catalog,
    schema: FeatureSchema,
    weights: Mapping[str, Any],
    temperature: float,
    floor: float,
    facts: Mapping[str, Any],
) -> Artifact:
    """Write a policy, whole or not at all, and load it back.

    Args:
        folder: Where to; must not hold anything but the same policy.
        catalog: The plans it chooses from.
        schema: The features it reads.
        weights: Parameters of the head by name.
        temperature: What scores are divided by.
        floor: Exploration floor to serve with, from 0 to 1.
        facts: How it was made: at least the names in `manifest.FACTS`; more are kept as they are.

    Returns:
        The artifact, verified as any reader would.

    Raises:
        ArtifactError: If weights are not finite, a fact is missing or no plain value, or the
            folder holds something else.
        NonFiniteScoreError: If the policy scores a probe context with NaN or an infinity.
        RangeError: If temperature or floor is out of range.
        ShapeMismatchError: If the weights fit neither catalog nor schema.
    """
    check_floor(floor)
    head = _head(catalog, schema, weights)
    contexts = probe_contexts(catalog, schema)
    mask, rows = answers(
        catalog, schema, head, temperature=check_temperature(temperature), floor=floor,
        contexts=contexts,
    )  # fmt: skip
    files = {
        CATALOG: catalog.to_yaml().encode(),
        FEATURES: rendered(schema.document()),
        WEIGHTS: weights_to_bytes(head.weights),
    }
    manifest: dict[str, Any] = {
        **checked_facts(facts),
        "format_version": FORMAT_VERSION,
        "discipline": catalog.discipline,
        "catalog_version": catalog.version,
        "catalog_hash": catalog.content_hash,
        "feature_hash": schema.content_hash,
        "n_plans": catalog.n_plans,
        "files": {name: _sha256(raw) for name, raw in files.items()},
        "parameters": {name: list(array.shape) for name, array in head.weights.items()},
        "temperature": float(temperature),
        "floor": float(floor),
        "kernel": {"fingerprint": kernel_fingerprint(), **kernel_facts()},
        "probe": {"contexts": contexts, "expected": expected_rows(mask, rows)},
    }
    manifest["policy_id"] = identity(manifest)
    files[MANIFEST] = rendered(manifest)
    write_folder(Path(folder), files)
    return load_artifact(folder)


def _head(catalog: Catalog, schema: FeatureSchema, weights: Mapping[str, Any]) -> FactoredHead:
    """The scorer that the weights make of a catalog and a schema.

    Raises:
        ArtifactError: If the weights are of another catalog or schema, or not finite.
    """
    head = FactoredHead(catalog.levels, weights)
    sizes = tuple(len(factor.levels) for factor in catalog.factors)
    if head.sizes != sizes:
        raise ArtifactError(WEIGHTS, f"score {head.sizes} levels, the catalog has {sizes}.", AGAIN)
    if head.n_features != schema.width:
        raise ArtifactError(
            WEIGHTS, f"read {head.n_features} features, the schema gives {schema.width}.", AGAIN
        )
    return head


def load_artifact(folder: Path | str) -> Artifact:
    """The policy in a folder, verified: hashes, shapes, and its own probe batch.

    Raises:
        ArtifactError: If a file is missing or altered, the format is unknown, or the policy
            does not answer its probe as it did where it was made.
    """
    place = Path(folder)
    files = read_folder(place)
    manifest = read_manifest(files[MANIFEST], str(place / MANIFEST))
    for name in (CATALOG, FEATURES, WEIGHTS):
        if manifest["files"].get(name) != _sha256(files[name]):
            raise ArtifactError(
                str(place / name), "is not the file that the manifest names.", AGAIN
            )
    catalog, schema = _described(place, files, manifest)
    weights = weights_from_bytes(files[WEIGHTS], str(place / WEIGHTS))
    shapes = {name: tuple(shape) for name, shape in manifest["parameters"].items()}
    try:
        head = _head(catalog, schema, checked_weights(weights, shapes))
        artifact = Artifact(
            policy_id=manifest["policy_id"],
            catalog=catalog,
            schema=schema,
            head=head,
            temperature=check_temperature(manifest["temperature"]),
            floor=manifest["floor"],
            manifest=manifest,
            folder=place,
            parity=(
                "bits"
                if manifest["kernel"].get("fingerprint") == kernel_fingerprint()
                else "tolerance"
            ),
        )
        _check_probe(artifact)
    except ArtifactError:
        raise
    except (InputError, ArithmeticError, ValueError) as error:
        raise ArtifactError(str(place), f"does not fit together: {error}", AGAIN) from error
    return artifact


def _described(
    place: Path, files: Mapping[str, bytes], manifest: Mapping[str, Any]
) -> tuple[Catalog, FeatureSchema]:
    """The catalog and the schema, if they are the ones the manifest names.

    Raises:
        ArtifactError: If one of them is another, or malformed.
    """
    try:
        catalog = parse_catalog(files[CATALOG].decode(), str(place / CATALOG))
        schema = FeatureSchema.from_document(json.loads(files[FEATURES]))
    except (CatalogError, FeatureError, ValueError) as error:
        raise ArtifactError(str(place), f"does not parse: {error}", AGAIN) from error
    for name, found, wanted in (
        (CATALOG, catalog.content_hash, manifest["catalog_hash"]),
        (FEATURES, schema.content_hash, manifest["feature_hash"]),
        (CATALOG, catalog.n_plans, manifest["n_plans"]),
    ):
        if found != wanted:
            raise ArtifactError(
                str(place / name), f"reads as {found}, the manifest says {wanted}.", AGAIN
            )
    return catalog, schema


def _check_probe(artifact: Artifact) -> None:
    """Let the policy answer its own probe batch."""
    probe = artifact.manifest["probe"]
    mask, rows = answers(
        artifact.catalog,
        artifact.schema,
        artifact.head,
        temperature=artifact.temperature,
        floor=artifact.floor,
        contexts=probe["contexts"],
    )
    check_answers(
        probe.get("expected"),
        mask,
        rows,
        is_same_kernel=artifact.parity == "bits",
        source=str(artifact.folder / MANIFEST),
    )


def pack_artifact(folder: Path | str) -> bytes:
    """A verified policy as one byte string; the same policy gives the same bytes.

    Raises:
        ArtifactError: If the policy does not verify.
    """
    load_artifact(folder)
    return pack_files(read_folder(Path(folder)))


def unpack_artifact(blob: bytes, folder: Path | str) -> Artifact:
    """Write a packed policy into a folder and verify it.

    Args:
        blob: What `pack_artifact` gave.
        folder: Where to; must not hold anything but the same policy.

    Returns:
        The verified artifact.

    Raises:
        ArtifactError: If the bytes are no packed policy, it does not verify, or the folder
            holds something else.
    """
    write_folder(Path(folder), unpack_files(blob))
    return load_artifact(folder)
