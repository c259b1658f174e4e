"""The manifest of a policy: what it says, how it is named, and how it is read back.

The file has one rendering and carries a hash of its own content, so that no byte of it can
change unseen.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from canopy.domain.errors import ArtifactError
from canopy.domain.ids import canonical_json, content_hash

FORMAT_VERSION: Final = 1

FACTS: Final = (
    "training_run_id",
    "data_hash",
    "objective",
    "reward_spec",
    "lineage",
    "n_rows",
    "synthetic",
)
"""What a manifest must say of a policy's making; None where it is unknown, but for `lineage`
(by which evidence is judged independent) and `synthetic`."""

AGAIN: Final = "Export the policy again, or fetch an unaltered copy."

RESERVED: Final = frozenset(
    {
        "format_version", "discipline", "catalog_version", "catalog_hash", "feature_hash",
        "n_plans", "files", "parameters", "temperature", "floor", "kernel", "probe", "policy_id",
    }
)  # fmt: skip


def rendered(document: Mapping[str, Any]) -> bytes:
    """The one rendering of a JSON document; a file with other bytes was altered."""
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def identity(manifest: Mapping[str, Any]) -> str:
    """The id of a policy: a hash of its manifest without the id itself."""
    return content_hash(
        canonical_json({key: value for key, value in manifest.items() if key != "policy_id"})
    )


def checked_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as plain values.

    Raises:
        ArtifactError: If one is missing, misnamed, or no plain value.
    """
    missing = [name for name in FACTS if name not in facts]
    if missing:
        raise ArtifactError(
            "facts", f"lack {', '.join(missing)}.", "State them; None where unknown."
        )
    taken = sorted(RESERVED & facts.keys())
    if taken:
        raise ArtifactError("facts", f"may not set {', '.join(taken)}.", "Use other names.")
    lineage = facts["lineage"]
    if not isinstance(lineage, Mapping) or not all(_is_names(names) for names in lineage.values()):
        raise ArtifactError(
            "facts, lineage", "is no mapping of kinds to names.", "Pass e.g. {'judges': []}."
        )
    if not isinstance(facts["synthetic"], bool):
        raise ArtifactError("facts, synthetic", "is not true or false.", "Pass a bool.")
    plain = {**facts, "lineage": {kind: sorted(names) for kind, names in lineage.items()}}
    try:
        checked: dict[str, Any] = json.loads(canonical_json(plain))
    except (TypeError, ValueError) as error:
        raise ArtifactError(
            "facts", f"hold something that JSON cannot carry: {error}.", "Pass plain values."
        ) from error
    return checked


def _is_names(names: object) -> bool:
    return (
        isinstance(names, Iterable)
        and not isinstance(names, str | bytes | Mapping)
        and all(isinstance(name, str) for name in names)
    )


def read_manifest(raw: bytes, source: str) -> dict[str, Any]:
    """A manifest whose bytes are the ones written.

    Raises:
        ArtifactError: If it is no manifest of this format, or was altered.
    """
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(source, "is no JSON.", AGAIN) from error
    if not isinstance(manifest, dict):
        raise ArtifactError(source, "is no manifest.", AGAIN)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise ArtifactError(
            source,
            f"has format version {version!r}, this code reads {FORMAT_VERSION}.",
            "Use the Canopy that wrote it, or a newer one.",
        )
    try:
        is_original = rendered(manifest) == raw and manifest["policy_id"] == identity(manifest)
    except (ValueError, KeyError) as error:
        raise ArtifactError(source, "is no complete manifest.", AGAIN) from error
    if not is_original:
        raise ArtifactError(source, "was altered after it was written.", AGAIN)
    missing = sorted((RESERVED | set(FACTS)) - manifest.keys())
    if missing:
        raise ArtifactError(source, f"lacks {', '.join(missing)}.", AGAIN)
    mistyped = sorted(name for name, is_typed in _TYPED.items() if not is_typed(manifest[name]))
    if mistyped:
        raise ArtifactError(source, f"has wrong types in {', '.join(mistyped)}.", AGAIN)
    return manifest


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_shapes(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(shape, list) for shape in value.values())


def _is_probe(value: object) -> bool:
    contexts = value.get("contexts") if isinstance(value, dict) else None
    return isinstance(contexts, list) and all(isinstance(context, dict) for context in contexts)


_TYPED: Final[Mapping[str, Callable[[object], bool]]] = {
    "files": lambda value: isinstance(value, dict),
    "parameters": _is_shapes,
    "temperature": _is_number,
    "floor": _is_number,
    "kernel": lambda value: isinstance(value, dict),
    "probe": _is_probe,
}
