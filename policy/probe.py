"""The probe batch: contexts with the answers a policy gave where it was made.

An artifact carries its own proof. Contexts cover every field and rule, the empty context and
values never seen; answers are kept exactly. Where the numeric kernel is the one that made
them the bits must agree, elsewhere probabilities to 1e-12 with the same mask and best plan.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from canopy.domain.errors import ArtifactError
from canopy.domain.ids import content_hash
from policy.arrays import BoolArray, FloatArray, IntArray
from policy.catalog import Catalog
from policy.features import FeatureSchema
from policy.fields import Category, Field, Members, Number
from policy.heads import FactoredHead
from policy.masks import mask_context
from policy.predicates import Compare, Kind, comparisons
from policy.scoring import target_rows

TOLERANCE: Final = 1e-12
"""Largest difference of a probability between two numeric kernels."""

MOST_PLANS: Final = 256
"""Probabilities kept per context; of larger catalogs an even sample beside a digest of all."""

_SEED: Final = 20
_N_DRAWN: Final = 9
_UNSEEN: Final = "(never seen)"


def probe_contexts(catalog: Catalog, schema: FeatureSchema) -> list[dict[str, Any]]:
    """Contexts to probe with: drawn ones, one with everything missing, one never seen."""
    rng = np.random.default_rng(_SEED)
    contexts = [
        {field.name: _drawn(field, rng) for field in schema.fields} for _ in range(_N_DRAWN)
    ]
    choices = _literals(catalog, {field.name for field in schema.fields})
    for context in contexts:
        for key, values in choices.items():
            context[key] = values[int(rng.integers(len(values)))]
    unseen = {field.name: _unseen(field) for field in schema.fields}
    empty: dict[str, Any] = dict.fromkeys([*unseen, *choices])
    return [*contexts, {**unseen, **{key: values[-1] for key, values in choices.items()}}, empty]


def _drawn(field: Field, rng: np.random.Generator) -> Any:
    """A value that the field knows."""
    if isinstance(field, Number):
        return field.mean + field.scale * round(float(rng.normal()), 3)
    if isinstance(field, Category):
        return str(rng.choice(field.levels)) if field.levels else None
    if isinstance(field, Members):
        return [level for level in field.levels if rng.random() < 0.5]  # noqa: PLR2004 - a coin
    return " ".join(f"word{int(rng.integers(1000))}" for _ in range(5))


def _unseen(field: Field) -> Any:
    """A value that the field does not know."""
    if isinstance(field, Number):
        return field.mean - 7.0 * field.scale
    if isinstance(field, Members):
        return [_UNSEEN, *field.levels[:1]]
    return _UNSEEN


def _literals(catalog: Catalog, fields: set[str]) -> dict[str, list[Any]]:
    """Values on both sides of every comparison that a rule makes, by context key."""
    choices: dict[str, list[Any]] = {}
    for rule in catalog.rules:
        for leaf in comparisons(rule.predicate):
            values = choices.setdefault(leaf.key, [])
            if isinstance(leaf, Compare):
                values.extend(leaf.literals)
    for key, values in choices.items():
        kind = catalog.kinds[key]
        if kind is Kind.NUMBER:
            values.extend([float(values[0]) - 1.0, float(values[0]) + 1.0])
        elif kind is Kind.TEXT:
            values.append(_UNSEEN)
        elif kind is Kind.BOOL:
            values.extend([True, False])
        elif key not in fields:
            values.extend([True, None])
    return {key: values for key, values in choices.items() if values}


def positions(n_plans: int) -> IntArray:
    """Actions whose probabilities are kept, ascending."""
    if n_plans <= MOST_PLANS:
        return np.arange(n_plans)
    return np.unique(np.linspace(0, n_plans - 1, MOST_PLANS).astype(np.intp))


def answers(
    catalog: Catalog,
    schema: FeatureSchema,
    head: FactoredHead,
    *,
    temperature: float,
    floor: float,
    contexts: list[dict[str, Any]],
) -> tuple[BoolArray, FloatArray]:
    """Masks and served distributions of the probe contexts, each of shape (n, n_plans)."""
    features = np.array([schema.encode(context) for context in contexts])
    mask = np.array([mask_context(catalog, context).feasible for context in contexts])
    rows = target_rows(
        head, features.reshape(len(contexts), -1), mask, temperature=temperature, floor=floor
    )
    return mask, rows


def expected_rows(mask: BoolArray, rows: FloatArray) -> list[dict[str, Any]]:
    """What a manifest keeps of the answers, as plain values."""
    kept = positions(rows.shape[1])
    return [
        {
            "argmax": int(np.argmax(row)),
            "mask": content_hash(np.packbits(feasible).tobytes()),
            "bits": content_hash(row.astype("<f8").tobytes()),
            "probabilities": row[kept].tolist(),
        }
        for feasible, row in zip(mask, rows, strict=True)
    ]


def check_answers(
    expected: object, mask: BoolArray, rows: FloatArray, *, is_same_kernel: bool, source: str
) -> None:
    """Refuse a policy that does not answer its own probe as it did where it was made.

    Raises:
        ArtifactError: If a mask, a best plan or a probability differs.
    """
    found = expected_rows(mask, rows)
    if not isinstance(expected, list) or len(expected) != len(found):
        raise ArtifactError(source, "holds no complete probe batch.", "Export the policy again.")
    for number, (want, have) in enumerate(zip(expected, found, strict=True), start=1):
        problem = _difference(want, have, is_same_kernel=is_same_kernel)
        if problem is not None:
            raise ArtifactError(
                source,
                f"fails its probe: context {number} {problem}.",
                "Export the policy again; this code does not compute what it was tested with.",
            )


def _difference(
    want: Mapping[str, Any], have: Mapping[str, Any], *, is_same_kernel: bool
) -> str | None:
    """How one answer differs; None where it agrees."""
    if want.get("mask") != have["mask"]:
        return "has another mask"
    if is_same_kernel:
        return None if want == have else "has other bits on the same numeric kernel"
    if want.get("argmax") != have["argmax"]:
        return "has another best plan"
    before, after = np.array(want.get("probabilities")), np.array(have["probabilities"])
    if before.shape != after.shape or not np.abs(before - after).max() <= TOLERANCE:
        return f"has probabilities that differ by more than {TOLERANCE}"
    return None
