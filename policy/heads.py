"""Factored heads: a plan's score from its levels and pairs of levels against the context.

score(plan, x) = sum over factors of W_f[level] . [x, 1]
               + sum over pairs of P_ij[level_i, level_j] . [x, 1]

Neighbouring factors are joined into at most three groups. Every term depends on at most two
groups, so that a few tables of summed parameters, one per pair of groups, hold everything:
they meet the context in one einsum, and their few hundred numbers are then spread over the
plans. einsum and not a matrix product, because BLAS rounds a single row and a batch
differently.

exp of a sum is a product of exps: to serve, exp is taken of those few hundred numbers and the
products are spread, which spares an exp per plan.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from canopy.domain.errors import ArtifactError, ShapeMismatchError
from policy.arrays import FloatArray, IntArray, read_only
from policy.weights import checked_weights, parameter_shapes

__all__ = ["FactoredHead", "parameter_shapes"]

_SPARSE: Final = 4
"""A listing of fewer than 1/4 of all combinations is scored plan by plan."""

_MOST_EXPONENT: Final = 200.0
"""Cells beyond this could take a product of three exps out of the range of a float."""

_ROW_COST: Final = 20.0
_PLAN_COST: Final = 0.5
_LOOP_COST: Final = 15.0
"""Rough nanoseconds of a table row, of adding into one plan, and of starting an inner loop;
they decide between groupings that give the same scores."""


@dataclass(frozen=True, slots=True)
class _Spread:
    """Tables of summed parameters, and how they spread over all combinations.

    Attributes:
        parameters: Shape (rows, d + 1): the tables one below the other.
        blocks: Rows of each table, and its shape over the groups (1 where it does not vary).
        gather: Combination of each plan; None where the plans are all of them, in order.
        n_combinations: How many combinations there are.
    """

    parameters: FloatArray
    blocks: tuple[tuple[slice, tuple[int, ...]], ...]
    gather: IntArray | None
    n_combinations: int


@dataclass(frozen=True, slots=True)
class _Listed:
    """Parameters as they are, and the row of each that a plan reads."""

    parameters: FloatArray
    rows: tuple[IntArray, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FactoredHead:
    """A scorer of every plan of a catalog.

    Attributes:
        levels: Shape (n_plans, n_factors). Level position of each plan in each factor.
        weights: Parameters by name, see `parameter_shapes`.
        sizes: How many levels each factor has.
        pairs: The pairs of factor positions that interact.
        n_features: Width of the encoded context.
    """

    levels: IntArray
    weights: Mapping[str, FloatArray]
    sizes: tuple[int, ...] = field(init=False)
    pairs: tuple[tuple[int, int], ...] = field(init=False)
    n_features: int = field(init=False)
    _form: _Spread | _Listed = field(init=False, repr=False)
    _slopes: FloatArray = field(init=False, repr=False)
    _biases: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        levels = np.asarray(self.levels)
        sizes, n_features, pairs = _structure(self.weights)
        if levels.ndim != 2 or levels.shape[1] != len(sizes):  # noqa: PLR2004 - plans, factors
            raise ShapeMismatchError("levels", levels.shape, (len(levels), len(sizes)))
        if levels.size and (levels.min() < 0 or (levels >= np.array(sizes)).any()):
            raise ArtifactError("levels", "go beyond the weights.", "Use the catalog trained on.")
        weights = checked_weights(self.weights, parameter_shapes(sizes, n_features, pairs))
        terms = dict(
            zip([*((f,) for f in range(len(sizes))), *pairs], weights.values(), strict=True)
        )
        n_combinations = 1
        for size in sizes:
            n_combinations *= size
        # Spreading over all combinations is cheap per plan, but not where few of them are plans.
        form = (
            _spread(levels, sizes, terms)
            if n_combinations <= _SPARSE * len(levels)
            else _listed(levels, sizes, terms)
        )
        values: dict[str, Any] = {
            "weights": weights,
            "sizes": sizes,
            "pairs": tuple(pairs),
            "n_features": n_features,
            "_form": form,
            # Transposed: whole rows of cells are added up, which is faster and keeps one order.
            "_slopes": read_only(np.ascontiguousarray(form.parameters[:, :-1].T)),
            "_biases": read_only(np.ascontiguousarray(form.parameters[:, -1])),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def n_plans(self) -> int:
        """How many plans are scored."""
        return len(self.levels)

    def scores(self, features: ArrayLike, *, temperature: float = 1.0) -> FloatArray:
        """The score of every plan in every context.

        Args:
            features: Shape (n, d): encoded contexts.
            temperature: What the scores are divided by.

        Returns:
            Shape (n, n_plans). A row's bits do not depend on the other rows.

        Raises:
            ShapeMismatchError: If the features are not rows of the width trained on.
        """
        form = self._form
        with np.errstate(over="ignore", invalid="ignore"):
            cells = self._cells(np.ascontiguousarray(features, dtype=np.float64))
            scores = (
                _spread_over_plans(form, cells, np.add)
                if isinstance(form, _Spread)
                else _listed_scores(form, cells)
            )
            if temperature != 1.0:
                scores /= temperature
        return scores

    def odds(self, features: FloatArray, *, temperature: float = 1.0) -> FloatArray | None:
        """What exp makes of every score over the temperature, to rounding.

        Args:
            features: Shape (n, d), rows whole in memory: encoded contexts.
            temperature: What the scores are divided by.

        Returns:
            Shape (n, n_plans), new, positive and finite; a row's bits do not depend on the
            other rows. None where the plans are not scored from tables, or a row could leave
            the range of a float: `scores` then says what there is to say.

        Raises:
            ShapeMismatchError: If the features are not rows of the width trained on.
        """
        form = self._form
        if not isinstance(form, _Spread):
            return None
        cells = self._cells(features)
        if temperature != 1.0:
            cells /= temperature
        flat = cells.reshape(-1)
        # By position, which is the cheapest; NaN is found first, and is not in range.
        if flat.size and not (
            flat[flat.argmax()] <= _MOST_EXPONENT and flat[flat.argmin()] >= -_MOST_EXPONENT
        ):
            return None
        return _spread_over_plans(form, np.exp(cells, out=cells), np.multiply)

    def _cells(self, features: FloatArray) -> FloatArray:
        """What every table row gives in every context, shape (n, table rows).

        Raises:
            ShapeMismatchError: If the features are not rows of the width trained on.
        """
        if features.shape[1:] != (self.n_features,):
            raise ShapeMismatchError("features", features.shape, (-1, self.n_features))
        cells: FloatArray = np.einsum("nj,jk->nk", features, self._slopes)
        cells += self._biases
        return cells


def _spread_over_plans(form: _Spread, cells: FloatArray, join: np.ufunc) -> FloatArray:
    """What the cells of all tables make of each plan, joined by addition or multiplication."""
    n = len(cells)
    rows, shape = form.blocks[0]
    total = cells[:, rows].reshape(n, *shape)
    for rows, shape in form.blocks[1:]:
        part = cells[:, rows].reshape(n, *shape)
        is_full = n > 0 and total.size == n * form.n_combinations
        total = join(total, part, out=total if is_full else None)
    table: FloatArray = total.reshape(n, -1)
    return table if form.gather is None else np.take(table, form.gather, axis=1)


def _listed_scores(form: _Listed, cells: FloatArray) -> FloatArray:
    """Scores of the plans, from the cells that each of them reads."""
    total = np.take(cells, form.rows[0], axis=1)
    for rows in form.rows[1:]:
        total += np.take(cells, rows, axis=1)
    return total


def _structure(
    weights: Mapping[str, Any],
) -> tuple[tuple[int, ...], int, list[tuple[int, int]]]:
    """Levels per factor, width of the context and interacting pairs, read off the weights.

    Raises:
        ArtifactError: If the names or shapes fit no factored head.
    """
    sizes: list[int] = []
    while f"factor.{len(sizes)}" in weights:
        sizes.append(len(weights[f"factor.{len(sizes)}"]))
    if not sizes or np.ndim(weights["factor.0"]) != 2 or not np.size(weights["factor.0"]):  # noqa: PLR2004 - levels, columns
        raise ArtifactError("weights", "hold no `factor.0` table.", "Name them factor.0, ...")
    pairs = []
    for name in weights:
        kind, *positions = name.split(".")
        if kind == "pair" and len(positions) == 2 and all(p.isdecimal() for p in positions):  # noqa: PLR2004 - two factors
            pairs.append((int(positions[0]), int(positions[1])))
    return tuple(sizes), int(np.shape(weights["factor.0"])[1]) - 1, sorted(pairs)


def _spread(
    levels: IntArray, sizes: tuple[int, ...], terms: Mapping[tuple[int, ...], FloatArray]
) -> _Spread:
    """The tables of the cheapest grouping of the factors."""
    options = [(groups, _tables(groups, terms)) for groups in _groupings(len(sizes))]
    groups, tables = min(options, key=lambda option: _cost(option[0], option[1], sizes))
    widths = tuple(_width(sizes, group) for group in groups)
    parameters, blocks, start = [], [], 0
    waiting = dict(terms)
    for table in tables:
        factors = tuple(f for g in table for f in groups[g])
        inside = [key for key in waiting if set(key) <= set(factors)]
        summed = _summed(factors, sizes, {key: waiting.pop(key) for key in inside})
        parameters.append(summed)
        shape = tuple(width if g in table else 1 for g, width in enumerate(widths))
        blocks.append((slice(start, start + len(summed)), shape))
        start += len(summed)
    flat: IntArray = np.ravel_multi_index(tuple(levels.T), sizes)
    n_combinations = int(np.prod(sizes))
    is_whole = len(flat) == n_combinations and bool((flat == np.arange(n_combinations)).all())
    gather = None if is_whole else read_only(flat)
    return _Spread(np.concatenate(parameters), tuple(blocks), gather, n_combinations)


def _groupings(n_factors: int) -> Iterator[tuple[range, ...]]:
    """Every cut of the factors, in order, into one to three groups."""
    for n_cuts in range(3):
        for cuts in combinations(range(1, n_factors), n_cuts):
            edges = (0, *cuts, n_factors)
            yield tuple(range(a, b) for a, b in pairwise(edges))


def _tables(
    groups: tuple[range, ...], terms: Mapping[tuple[int, ...], Any]
) -> tuple[tuple[int, ...], ...]:
    """The pairs of groups between which a term reaches, and the groups left alone."""
    joined = [
        (a, b)
        for a, b in combinations(range(len(groups)), 2)
        if any(len(key) > 1 and key[0] in groups[a] and key[1] in groups[b] for key in terms)
    ]
    alone = [(g,) for g in range(len(groups)) if not any(g in pair for pair in joined)]
    return (*joined, *alone)


def _cost(
    groups: tuple[range, ...], tables: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]
) -> float:
    """Rough nanoseconds that one context costs under a grouping."""
    widths = [_width(sizes, group) for group in groups]
    n_rows = sum(int(np.prod([widths[g] for g in table])) for table in tables)
    n_plans = _width(sizes, range(len(sizes)))
    adding = n_plans * _PLAN_COST + n_plans / widths[-1] * _LOOP_COST
    return n_rows * _ROW_COST + (len(tables) - 1) * adding


def _width(sizes: tuple[int, ...], group: range) -> int:
    """How many combinations a group of factors has."""
    return int(np.prod([sizes[f] for f in group]))


def _summed(
    factors: tuple[int, ...],
    sizes: tuple[int, ...],
    terms: Mapping[tuple[int, ...], FloatArray],
) -> FloatArray:
    """The parameters of some factors' combinations, summed, shape (combinations, d + 1)."""
    n_columns = next(iter(terms.values())).shape[-1]
    total = np.zeros((*(sizes[f] for f in factors), n_columns))
    for key, parameter in terms.items():
        shape = tuple(sizes[f] if f in key else 1 for f in factors)
        total += parameter.reshape(*shape, n_columns)
    return total.reshape(-1, n_columns)


def _listed(
    levels: IntArray, sizes: tuple[int, ...], terms: Mapping[tuple[int, ...], FloatArray]
) -> _Listed:
    """The parameters one below the other, and for each term the row that a plan reads."""
    rows, start = [], 0
    for key, parameter in terms.items():
        index = levels[:, key[0]]
        if len(key) > 1:
            index = index * sizes[key[1]] + levels[:, key[1]]
        rows.append(read_only(index + start))
        start += int(np.prod(parameter.shape[:-1]))
    n_columns = next(iter(terms.values())).shape[-1]
    stacked = np.concatenate([parameter.reshape(-1, n_columns) for parameter in terms.values()])
    return _Listed(stacked, tuple(rows))
