"""Preferences as a folder: scores, what they rest on, and who judged; named by its content."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from canopy.domain.errors import ArtifactError
from canopy.domain.evidence import Lineage
from canopy.domain.ids import canonical_json, content_hash
from policy.archive import write_folder
from policy.arrays import FloatArray
from policy.manifest import rendered
from training.preferences.bradley_terry import FitStatus
from training.preferences.comparisons import ScaleKind
from training.preferences.tally import JudgeTally, Tally

FORMAT_VERSION: Final = 1
DOCUMENT: Final = "preferences.json"
ARRAYS: Final = "arrays.safetensors"

TABLES: Final = (
    "wins",
    "swap_ties",
    "judge_ties",
    "scores",
    "difference_variance",
    "clustered_difference_variance",
    "prior_dominated",
)
"""Arrays that every artifact holds; NaN where there is no number."""

_AGAIN: Final = "Fit the verdicts again, or fetch an unaltered copy."


@dataclass(frozen=True, slots=True)
class Preferences:
    """Fitted preferences.

    Attributes:
        document: Everything but the arrays, as JSON carries it.
        arrays: By name: those of `TABLES`, and `order_effect_scores` and `factored_scores` where
            they were fitted.
    """

    document: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray[Any, Any]]

    @property
    def artifact_id(self) -> str:
        """Content hash of everything."""
        return str(self.document["artifact_id"])

    @property
    def status(self) -> FitStatus:
        """Whether all items stand on one scale."""
        found: FitStatus = self.document["status"]
        return found

    @property
    def scale_kind(self) -> ScaleKind:
        """What a difference of scores means."""
        return ScaleKind(self.document["scale_kind"])

    @property
    def items(self) -> tuple[str, ...]:
        """The items, in the order of the arrays."""
        return tuple(self.document["item_names"])

    @property
    def scores(self) -> FloatArray:
        """Shape (n,). NaN where an item has none."""
        return np.asarray(self.arrays["scores"])

    @property
    def lineage(self) -> Lineage:
        """Everything that touched the verdicts."""
        return Lineage.from_document(self.document["lineage"])

    @property
    def tally(self) -> Tally:
        """The counts it was fitted to."""
        return Tally(
            scale_kind=self.scale_kind,
            items=self.items,
            wins=np.asarray(self.arrays["wins"]),
            swap_ties=np.asarray(self.arrays["swap_ties"]),
            judge_ties=np.asarray(self.arrays["judge_ties"]),
            judges=tuple(JudgeTally.from_document(d) for d in self.document["judges"]),
            sources=tuple(self.document["sources"]),
        )

    @classmethod
    def of(
        cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]
    ) -> "Preferences":
        """Preferences named by their content.

        Args:
            document: Everything but the arrays and the names that hashes give.
            arrays: By name.
        """
        plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        whole = {
            **document,
            "format_version": FORMAT_VERSION,
            "files": {ARRAYS: _sha256(save_arrays(plain))},
        }
        return cls({**whole, "artifact_id": _identity(whole)}, plain)


def save_preferences(preferences: Preferences, folder: Path | str) -> None:
    """Write preferences into a folder, whole or not at all.

    Args:
        preferences: What to write.
        folder: Where to; must not hold anything but the same preferences.

    Raises:
        ArtifactError: If the folder holds something else, or cannot be written.
    """
    write_folder(
        Path(folder),
        {
            DOCUMENT: rendered(preferences.document),
            ARRAYS: save_arrays(dict(preferences.arrays)),
        },
    )


def load_preferences(folder: Path | str) -> Preferences:
    """The preferences in a folder, every hash verified.

    Args:
        folder: Of `save_preferences`.

    Raises:
        ArtifactError: If a file is missing or altered, or the format is unknown.
    """
    place = Path(folder)
    raw = {}
    for name in (DOCUMENT, ARRAYS):
        try:
            raw[name] = (place / name).read_bytes()
        except OSError as error:
            raise ArtifactError(
                str(place / name), f"cannot be read: {error.strerror}.",
                "Pass a folder that `canopy judge fit` wrote.",
            ) from error  # fmt: skip
    source = str(place / DOCUMENT)
    try:
        document = json.loads(raw[DOCUMENT])
        version = document["format_version"]
        is_original = rendered(document) == raw[DOCUMENT] and document["artifact_id"] == _identity(
            document
        )
        arrays_hash = document["files"][ARRAYS]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(source, "holds no preferences.", _AGAIN) from error
    if version != FORMAT_VERSION:
        raise ArtifactError(
            source, f"has format version {version!r}, this code reads {FORMAT_VERSION}.",
            "Use the Canopy that wrote it, or a newer one.",
        )  # fmt: skip
    if not is_original:
        raise ArtifactError(source, "was altered after it was written.", _AGAIN)
    if arrays_hash != _sha256(raw[ARRAYS]):
        raise ArtifactError(str(place / ARRAYS), "is not the file that the document names.", _AGAIN)
    return Preferences(document, load_arrays(raw[ARRAYS]))


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _identity(document: Mapping[str, Any]) -> str:
    return content_hash(
        canonical_json({name: fact for name, fact in document.items() if name != "artifact_id"})
    )
