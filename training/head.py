"""The factored head in torch: the same parameters as `policy.heads`, fitted here, served there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from canopy.domain.errors import ConfigError
from policy.arrays import FloatArray, IntArray
from policy.catalog import Catalog
from policy.features import FeatureSchema
from policy.fields import Category
from policy.heads import parameter_shapes
from training.config import HeadConfig, Pairs

DENSE_CELLS: Final = 2_000_000
"""Above this a matrix that spreads cells over plans costs more than gathering them."""


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Everything that decides a head's parameters.

    Attributes:
        levels: Shape (n_plans, n_factors). Level position of each plan in each factor.
        sizes: How many levels each factor has.
        n_features: Width of the encoded context.
        pairs: Pairs of factor positions that interact, i < j.
        tenant_columns: Columns of the context that say whose it is; they have a penalty of their
            own, so that a tenant of few rows is served by what all tenants share.
    """

    levels: IntArray
    sizes: tuple[int, ...]
    n_features: int
    pairs: tuple[tuple[int, int], ...]
    tenant_columns: tuple[int, ...] = ()


class Penalty(NamedTuple):
    """Penalties of a fit, on squared parameters, beside a mean loss.

    Attributes:
        l2: On every parameter.
        pair_l2: On the pairs' context part, instead.
        tenant_l2: On the tenants' part, in addition.
    """

    l2: float
    pair_l2: float
    tenant_l2: float = 0.0


def tenant_columns(schema: FeatureSchema, key: str | None) -> tuple[int, ...]:
    """The columns of an encoded context that say which tenant it is.

    Args:
        schema: The features.
        key: The context key of tenants; None where there are none.

    Raises:
        ConfigError: If the context has no such category.
    """
    if key is None:
        return ()
    start = 0
    for field in schema.fields:
        if field.name == key and isinstance(field, Category):
            return tuple(range(start, start + field.width))
        start += field.width
    categories = [field.name for field in schema.fields if isinstance(field, Category)]
    raise ConfigError(
        "head.tenant", f"{key!r} is no category of the context.",
        f"Categories: {', '.join(categories) or 'none'}.",
    )  # fmt: skip


def head_shape(
    catalog: Catalog, n_features: int, config: HeadConfig, tenants: tuple[int, ...] = ()
) -> HeadShape:
    """The shape of the head for a catalog; pairs as configured.

    Args:
        catalog: The plans.
        n_features: Width of the encoded context.
        config: Which pairs interact.
        tenants: Of `tenant_columns`.
    """
    sizes = tuple(len(factor.levels) for factor in catalog.factors)
    everything = tuple((i, j) for j in range(len(sizes)) for i in range(j))
    n_parameters = sum(sizes[i] * sizes[j] for i, j in everything) * (n_features + 1)
    is_small = n_parameters <= config.most_pair_parameters
    wanted = config.pairs is Pairs.all or (config.pairs is Pairs.auto and is_small)
    return HeadShape(catalog.levels, sizes, n_features, everything if wanted else (), tenants)


class TorchFactoredHead(nn.Module):
    """A scorer of every plan, to be fitted.

    All parameters are rows of one table, so that they meet a batch in one product; what
    `policy.heads` calls `factor.<f>` and `pair.<i>.<j>` are slices of it. It starts at zero,
    where every plan scores the same: the objectives are convex and need no random start.
    """

    rows: Tensor
    spread: Tensor | None
    is_pair_context: Tensor
    is_tenant: Tensor

    def __init__(self, shape: HeadShape, *, dense_cells: int = DENSE_CELLS) -> None:
        super().__init__()
        self.shape = shape
        self._slices: dict[str, tuple[slice, tuple[int, ...]]] = {}
        shapes = parameter_shapes(shape.sizes, shape.n_features, list(shape.pairs))
        start = 0
        for name, dimensions in shapes.items():
            stop = start + int(np.prod(dimensions[:-1]))
            self._slices[name] = (slice(start, stop), dimensions)
            start = stop
        self.table = nn.Parameter(torch.zeros(start, shape.n_features + 1))
        rows = torch.from_numpy(self._rows())
        self.register_buffer("rows", rows)
        self.register_buffer("spread", _spread(rows, start, dense_cells))
        penalised = torch.zeros(start, shape.n_features + 1, dtype=torch.bool)
        penalised[sum(shape.sizes) :, :-1] = True
        self.register_buffer("is_pair_context", penalised)
        of_tenants = torch.zeros(shape.n_features + 1, dtype=torch.bool)
        of_tenants[list(shape.tenant_columns)] = True
        self.register_buffer("is_tenant", of_tenants)

    def _rows(self) -> IntArray:
        """Row of the table that each plan reads, per term: shape (n_terms, n_plans)."""
        levels, sizes = self.shape.levels, self.shape.sizes
        rows = []
        for name, (place, _) in self._slices.items():
            _, *positions = name.split(".")
            index = levels[:, int(positions[0])]
            for position in positions[1:]:
                index = index * sizes[int(position)] + levels[:, int(position)]
            rows.append(index + place.start)
        return np.array(rows, dtype=np.int64)

    def cells(self, features: Tensor) -> Tensor:
        """What each row of the table gives in each context, shape (n, n_rows)."""
        return torch.addmm(self.table[:, -1], features, self.table[:, :-1].T)

    def forward(self, features: Tensor) -> Tensor:
        """The score of every plan.

        Args:
            features: Shape (n, d): encoded contexts.

        Returns:
            Shape (n, n_plans).
        """
        cells = self.cells(features)
        if self.spread is not None:
            return cells @ self.spread
        total = cells.index_select(1, self.rows[0])
        for rows in self.rows[1:]:
            total = total + cells.index_select(1, rows)
        return total

    def taken(self, features: Tensor, action: Tensor) -> Tensor:
        """The score of the plan taken in each context, shape (n,)."""
        if self.spread is not None:
            return (self.cells(features) * self.spread.T[action]).sum(dim=1)
        return self.cells(features).gather(1, self.rows[:, action].T).sum(dim=1)

    def penalty(self, penalty: Penalty) -> Tensor:
        """Squared parameters, each weighed by its penalty."""
        weight = torch.where(self.is_pair_context, penalty.pair_l2, penalty.l2)
        if penalty.tenant_l2:
            weight = weight + self.is_tenant * penalty.tenant_l2
        return (self.table.square() * weight).sum()

    def named_weights(self) -> dict[str, FloatArray]:
        """The parameters as `policy.heads` names them, float64."""
        table = self.table.detach().cpu().to(torch.float64).numpy()
        return {name: table[place].reshape(shape) for name, (place, shape) in self._slices.items()}


def _spread(rows: Tensor, n_rows: int, dense_cells: int) -> Tensor | None:
    """Shape (n_rows, n_plans): 1 where a plan reads a row; None where that is too large."""
    n_plans = rows.shape[1]
    if n_rows * n_plans > dense_cells:
        return None
    spread = torch.zeros(n_rows, n_plans)
    for term in rows:
        spread[term, torch.arange(n_plans)] += 1.0
    return spread


def as_features(rows: FloatArray | Sequence[Sequence[float]]) -> Tensor:
    """Encoded contexts as the head reads them while it is fitted."""
    return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))
