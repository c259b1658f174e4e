"""From a fitted head to an artifact that serving reads, kept only if both compute the same."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import numpy as np
import torch

from canopy.domain.errors import ArtifactError
from policy.arrays import BoolArray, FloatArray
from policy.artifact import Artifact, load_artifact, save_artifact
from policy.catalog import Catalog
from policy.features import FeatureSchema
from policy.selector import probabilities
from training.head import TorchFactoredHead
from training.likelihood import masked_log_softmax

PARITY_RTOL: Final = 1e-5
"""Largest relative difference of a logit between torch and serving."""

_PARITY_ATOL: Final = 1e-9
_ID_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class ProbeBatch:
    """Contexts that both sides must agree on.

    Attributes:
        context: Columns by key, each of shape (n,).
        feasible: Shape (n, n_plans) bool.
    """

    context: Mapping[str, Any]
    feasible: BoolArray


def export_policy(
    head: TorchFactoredHead,
    folder: Path,
    *,
    name: str,
    catalog: Catalog,
    schema: FeatureSchema,
    temperature: float,
    floor: float,
    facts: Mapping[str, Any],
    probe: ProbeBatch,
) -> Artifact:
    """Write a policy below a folder and prove that serving computes what was trained.

    Args:
        head: The fitted head.
        folder: The artifact gets a folder of its own in here, named after it.
        name: First part of that folder's name.
        catalog: The plans.
        schema: The features.
        temperature: What scores are divided by.
        floor: Exploration floor to serve with.
        facts: How it was made, see `policy.artifact.FACTS`.
        probe: Contexts of the log to compare on.

    Returns:
        The artifact, loaded from where it lies.

    Raises:
        ArtifactError: If both sides differ; nothing is left behind then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(mkdtemp(prefix=".draft-", dir=folder))
    try:
        artifact = save_artifact(
            draft / "policy", catalog=catalog, schema=schema, weights=head.named_weights(),
            temperature=temperature, floor=floor, facts=facts,
        )  # fmt: skip
        check_parity(artifact, head, probe)
        place = folder / f"{name}-{artifact.policy_id[:_ID_SHOWN]}"
        if not place.exists():
            (draft / "policy").rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return load_artifact(place)


def check_parity(artifact: Artifact, head: TorchFactoredHead, probe: ProbeBatch) -> None:
    """Refuse an artifact whose numpy side computes something else than the head in torch.

    Args:
        artifact: What serving would load.
        head: What was fitted.
        probe: Contexts to compare on.

    Raises:
        ArtifactError: Naming the row and what differs: a logit, a mask, or the best plan.
    """
    n = len(probe.feasible)
    features = artifact.schema.encode_many(probe.context, n_rows=n)
    served = artifact.head.scores(features, temperature=artifact.temperature)
    distribution = probabilities(artifact, probe.context, probe.feasible, n_rows=n)
    logits, log_probability = _in_torch(head, features, probe.feasible, artifact.temperature)
    differs = ~np.isclose(served, logits, rtol=PARITY_RTOL, atol=_PARITY_ATOL)
    problems = {
        "a logit": differs.any(axis=1),
        "the mask": ((distribution > 0) & ~np.isfinite(log_probability)).any(axis=1)
        | ((distribution > 0) & ~probe.feasible).any(axis=1),
        "the best plan": _misses_best(served, log_probability, probe.feasible),
    }
    for what, rows in problems.items():
        if rows.any():
            raise ArtifactError(
                f"{artifact.folder}, probe row {int(rows.argmax()) + 1}",
                f"torch and serving differ in {what}.",
                "Train again; the artifact was not kept.",
            )


def _misses_best(served: FloatArray, log_probability: FloatArray, feasible: BoolArray) -> BoolArray:
    """Shape (n,): True where the best plan in torch is not a best one in serving.

    Equal scores summed in another order differ in their last bits, and are both best.
    """
    masked = np.where(feasible, served, -np.inf)
    top = masked.max(axis=1)
    found = np.take_along_axis(masked, log_probability.argmax(axis=1)[:, None], axis=1)[:, 0]
    misses: BoolArray = ~np.isclose(found, top, rtol=PARITY_RTOL, atol=_PARITY_ATOL)
    return misses


def _in_torch(
    head: TorchFactoredHead, features: FloatArray, feasible: BoolArray, temperature: float
) -> tuple[FloatArray, FloatArray]:
    """Logits and masked log probabilities, each of shape (n, n_plans), in double precision.

    In the single precision of the fit a near tie could fall either way.
    """
    double = TorchFactoredHead(head.shape)
    double.load_state_dict({name: value.cpu() for name, value in head.state_dict().items()})
    double.to(torch.float64)
    with torch.no_grad():
        logits = double(torch.from_numpy(features)) / temperature
        log_probability = masked_log_softmax(logits, torch.from_numpy(feasible))
    return logits.numpy(), log_probability.numpy()
