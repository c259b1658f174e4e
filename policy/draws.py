"""Draws: one at a time, or those of one policy together, with the same bits."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from canopy.domain.errors import NonFiniteScoreError
from policy.arrays import FloatArray, read_only
from policy.artifact import Artifact
from policy.distributions import distribution, doctrine, pick, running_sums, served_row
from policy.masks import Mask
from policy.scoring import blocks


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


def draw_one(draw: Draw) -> Drawn | None:
    """One draw; None where the policy's scores give no distribution."""
    artifact, feasible = draw.artifact, draw.mask.feasible
    if artifact is None or draw.features is None:
        catalog = draw.mask.catalog
        row = doctrine(catalog.weights, catalog.default, feasible, draw.floor)
    else:
        scores = artifact.head.scores(draw.features[None], temperature=artifact.temperature)[0]
        try:
            row = served_row(scores, feasible, draw.floor, draw.mask.n_feasible)
        except NonFiniteScoreError:
            return None
    return Drawn(pick(row, running_sums(row), draw.u), read_only(row))


def draw_all(draws: Sequence[Draw]) -> list[Drawn | None]:
    """All draws, those of one policy and floor together."""
    groups: dict[tuple[int, float], list[int]] = {}
    for position, one in enumerate(draws):
        owner = one.mask.catalog if one.artifact is None else one.artifact
        groups.setdefault((id(owner), one.floor), []).append(position)
    drawn: list[Drawn | None] = [None] * len(draws)
    for members in groups.values():
        for block in blocks(len(members), draws[members[0]].mask.catalog.n_plans):
            results = _draw_group([draws[position] for position in members[block]])
            for position, result in zip(members[block], results, strict=True):
                drawn[position] = result
    return drawn


def _draw_group(draws: Sequence[Draw]) -> list[Drawn | None]:
    """Draws of one policy with one floor, vectorised."""
    artifact = draws[0].artifact
    if len(draws) == 1 or artifact is None:
        return [draw_one(draw) for draw in draws]
    scores = artifact.head.scores(
        np.array([draw.features for draw in draws]), temperature=artifact.temperature
    )
    feasible = np.array([draw.mask.feasible for draw in draws])
    try:
        rows = distribution(scores, feasible, draws[0].floor)
    except NonFiniteScoreError:
        # One row that has no distribution must not fail its neighbours.
        return [draw_one(draw) for draw in draws]
    return [
        # A copy: one decision must not keep the rows of all its neighbours in memory.
        Drawn(pick(row, cumulated, draw.u), read_only(row.copy()))
        for row, cumulated, draw in zip(rows, running_sums(rows), draws, strict=True)
    ]
