"""The numbers of a policy: their names, shapes, finiteness, and their bytes.

Only safetensors: an artifact holds arrays and never code.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from canopy.domain.errors import ArtifactError, ShapeMismatchError
from policy.arrays import FloatArray, read_only


def checked_weights(
    weights: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, FloatArray]:
    """Weights as read-only float64, if they are the ones expected and finite.

    Args:
        weights: Arrays by parameter name.
        shapes: The expected shape of each parameter.

    Returns:
        Copies, in the order of `shapes`.

    Raises:
        ArtifactError: If a parameter is missing, unknown, not real or not finite.
        ShapeMismatchError: If one has another shape.
    """
    if weights.keys() != shapes.keys():
        odd = sorted(set(weights) ^ set(shapes))
        raise ArtifactError(
            "weights", f"lack or add the parameters {odd}.", f"Expected: {sorted(shapes)}."
        )
    result: dict[str, FloatArray] = {}
    for name, shape in shapes.items():
        raw = np.asarray(weights[name])
        if raw.dtype.kind not in "fiu":
            raise ArtifactError(
                f"weights, `{name}`", f"hold {raw.dtype}, expected real numbers.", "Pass floats."
            )
        if raw.shape != shape:
            raise ShapeMismatchError(f"weights, `{name}`", raw.shape, shape)
        values = np.array(raw, dtype=np.float64, order="C", copy=True)
        if not np.isfinite(values).all():
            raise ArtifactError(
                f"weights, `{name}`", "hold NaN or an infinity.", "Train again; it diverged."
            )
        result[name] = read_only(values)
    return result


def weights_to_bytes(weights: Mapping[str, FloatArray]) -> bytes:
    """The weights as a safetensors file; equal weights give equal bytes."""
    return safetensors.numpy.save({name: weights[name] for name in sorted(weights)})


def weights_from_bytes(raw: bytes, source: str) -> dict[str, Any]:
    """The arrays of a safetensors file.

    Raises:
        ArtifactError: If the bytes are no such file.
    """
    try:
        return safetensors.numpy.load(raw)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ArtifactError(
            source, "is no readable safetensors file.", "Export the policy again."
        ) from error


def parameter_shapes(
    levels_per_factor: Sequence[int],
    n_features: int,
    pairs: bool | Sequence[tuple[int, int]],  # noqa: FBT001 - "all or none" is its short form
) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter of a factored head.

    Args:
        levels_per_factor: How many levels each factor has.
        n_features: Width of the encoded context; each parameter has one more column, the bias.
        pairs: Which pairs of factor positions interact: True for all, False for none.

    Returns:
        `factor.<f>` of shape (L_f, n_features + 1) and `pair.<i>.<j>` of shape
        (L_i, L_j, n_features + 1), with i < j.

    Raises:
        ArtifactError: If a pair does not name two factors in ascending order, or comes twice.
    """
    n_factors = len(levels_per_factor)
    everything = [(i, j) for j in range(n_factors) for i in range(j)]
    wanted = everything if pairs is True else [] if pairs is False else list(pairs)
    for pair in wanted:
        if pair not in everything or wanted.count(pair) > 1:
            raise ArtifactError(
                "pairs", f"hold {pair}.", f"Name each pair once, i < j < {n_factors}."
            )
    shapes: dict[str, tuple[int, ...]] = {
        f"factor.{f}": (n_levels, n_features + 1) for f, n_levels in enumerate(levels_per_factor)
    }
    for i, j in sorted(wanted):
        shapes[f"pair.{i}.{j}"] = (levels_per_factor[i], levels_per_factor[j], n_features + 1)
    return shapes
