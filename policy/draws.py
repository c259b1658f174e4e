"""Draws: one at a time, or those of one policy together, with the same bits.

Whatever a policy does wrong while it scores ends here as a reason, because what it was asked
for is answered in any case.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from canopy.domain.decision import Reason
from canopy.domain.errors import FeatureError, NonFiniteScoreError
from policy.arrays import FloatArray, read_only
from policy.artifact import Artifact
from policy.distributions import doctrine, feasible_counts, picked, shared_rows
from policy.masks import Mask
from policy.scoring import blocks, target_row

_log = logging.getLogger(__name__)


class Draw(NamedTuple):
    """One draw to make.

    Attributes:
        artifact: Whose draw it is; None for the doctrine policy.
        floor: Exploration floor.
        features: Encoded context; None for the doctrine policy.
        mask: The feasible plans, at least one.
        u: The uniform number.
    """

    artifact: Artifact | None
    floor: float
    features: FloatArray | None
    mask: Mask
    u: float


class Drawn(NamedTuple):
    """The plan drawn, and the distribution it was drawn from (read-only)."""

    action: int
    row: FloatArray


def encoded(artifact: Artifact, context: Mapping[str, object]) -> FloatArray | Reason:
    """The features that a policy reads from a context; a reason where its schema fails.

    Raises:
        FeatureError: If a context value has a wrong type: that is the caller's fault.
        MemoryError: If there is no memory for them: that is the machine's.
    """
    try:
        return artifact.schema.encode(context)
    except (FeatureError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - a policy's failure never fails whoever asked
        return _failed(artifact)


def _failed(artifact: Artifact) -> Reason:
    """The reason that stands on the decision; what was raised is logged."""
    _log.warning("policy %s failed while scoring", artifact.policy_id, exc_info=True)
    return Reason.POLICY_FAILED


def draw_one(draw: Draw) -> Drawn | Reason:
    """One draw; a reason where the policy gives no distribution.

    Raises:
        MemoryError: If there is no memory for it.
    """
    artifact, mask = draw.artifact, draw.mask
    if artifact is None or draw.features is None:
        catalog = mask.catalog
        row = doctrine(catalog.weights, catalog.default, mask.feasible, draw.floor)
        return Drawn(picked(row, draw.u), read_only(row))
    try:
        row = target_row(
            artifact.head,
            draw.features,
            mask.feasible,
            mask.indicator,
            mask.floor_row(draw.floor),
            temperature=artifact.temperature,
            floor=draw.floor,
            n_feasible=mask.n_feasible,
        )
    except NonFiniteScoreError:
        return Reason.NON_FINITE_SCORES
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a policy's failure never fails whoever asked
        return _failed(artifact)
    return Drawn(picked(row, draw.u), read_only(row))


def draw_all(draws: Sequence[Draw]) -> list[Drawn | Reason]:
    """All draws, those of one policy and floor together; one's failure is nobody else's.

    Raises:
        MemoryError: If there is no memory for them.
    """
    groups: dict[tuple[int, float], list[int]] = {}
    for position, one in enumerate(draws):
        owner = one.mask.catalog if one.artifact is None else one.artifact
        groups.setdefault((id(owner), one.floor), []).append(position)
    drawn: dict[int, Drawn | Reason] = {}
    for members in groups.values():
        for block in blocks(len(members), draws[members[0]].mask.catalog.n_plans):
            results = _draw_group([draws[position] for position in members[block]])
            drawn.update(zip(members[block], results, strict=True))
    return [drawn[position] for position in range(len(draws))]


def _draw_group(draws: Sequence[Draw]) -> list[Drawn | Reason]:
    """Draws of one policy with one floor, vectorised."""
    artifact = draws[0].artifact
    if len(draws) == 1 or artifact is None:
        return [draw_one(draw) for draw in draws]
    rows = _rows(artifact, draws)
    if rows is None:
        return [draw_one(draw) for draw in draws]
    return [
        # A copy: one decision must not keep the rows of all its neighbours in memory.
        Drawn(picked(row, draw.u), read_only(row.copy()))
        for row, draw in zip(rows, draws, strict=True)
    ]


def _rows(artifact: Artifact, draws: Sequence[Draw]) -> FloatArray | None:
    """The distributions, shape (n, n_plans); None where they must be asked for one by one.

    Raises:
        MemoryError: If there is no memory for them.
    """
    try:
        features = np.array([draw.features for draw in draws])
        odds = artifact.head.odds(features, temperature=artifact.temperature)
        if odds is None:
            return None
        feasible = np.array([draw.mask.feasible for draw in draws])
        return shared_rows(odds, feasible, draws[0].floor, feasible_counts(feasible))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - each is asked alone then, and its failure is logged
        return None
