"""Design matrices of reward models: what a linear model is told of a context and of a plan.

Encodings read contexts and plans only, never rewards, so all folds may share them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from canopy.domain.errors import ConfigError
from policy.arrays import FloatArray
from policy.catalog import Catalog

MAX_LEVELS: Final = 64
"""Levels a text column keeps, the most frequent ones; the others share one column."""


class PlanEncoding(StrEnum):
    """How a plan's factors become numbers."""

    ONE_HOT = "one-hot"
    """A column per level, the first left out; attributes standardised."""
    ORDINAL = "ordinal"
    """A column per factor: the level's position in the catalog; attributes as they are."""


def encode_context(columns: Mapping[str, npt.NDArray[Any]], n_rows: int) -> FloatArray:
    """What a model is told of the contexts.

    Numbers are standardised, a missing one becoming 0 beside an indicator; text becomes a column
    per level, the first in alphabetical order left out; lists a column per element.

    Args:
        columns: Context columns by key, each of shape (n,).
        n_rows: Number of rows.

    Returns:
        Shape (n, n_features).
    """
    parts = [np.empty((n_rows, 0))]
    parts += [_context_column(values) for values in columns.values()]
    return np.hstack(parts)


def encode_plans(
    plans: Sequence[str],
    catalog: Catalog | None,
    encoding: PlanEncoding | str = PlanEncoding.ONE_HOT,
    factors: Sequence[str] | None = None,
) -> FloatArray:
    """What a model is told of the plans.

    Args:
        plans: Plan ids in the log's order.
        catalog: Their catalog; None encodes ids one-hot.
        encoding: How.
        factors: Names of the factors to use, in this order; None takes all of the catalog's.

    Returns:
        Shape (n_plans, n_features): factors first, then the catalog's attributes.

    Raises:
        ConfigError: If a factor is unknown, or the encoding needs a catalog and there is none.
        CatalogError: If the catalog lacks a plan of the log.
    """
    if catalog is None:
        if encoding == PlanEncoding.ORDINAL or factors is not None:
            raise ConfigError(
                "--encode-plans", "the log has no catalog whose factors could be encoded.",
                "Name one with --catalog, or encode plans one-hot.",
            )  # fmt: skip
        return _one_hot(np.arange(len(plans)), len(plans))
    rows = [catalog.index(plan) for plan in plans]
    positions = factor_positions(catalog, factors, "--plan-factors")
    levels = catalog.levels[rows]
    attributes = [_filled(values[rows]) for values in catalog.attributes.values()]
    if encoding == PlanEncoding.ORDINAL:
        parts = [levels[:, [p]].astype(np.float64) for p in positions]
        parts += [values[:, None] for values in attributes]
    else:
        parts = [_one_hot(levels[:, p], len(catalog.factors[p].levels)) for p in positions]
        parts += [_standardised(values)[:, None] for values in attributes]
    return np.hstack([np.empty((len(plans), 0)), *parts])


def plan_levels(
    plans: Sequence[str], catalog: Catalog, factors: Sequence[str], option: str
) -> FloatArray:
    """Levels of the plans in some factors, by their position in the catalog.

    Args:
        plans: Plan ids in the log's order.
        catalog: Their catalog.
        factors: Names of the factors, in this order.
        option: What named them, for errors.

    Returns:
        Shape (n_plans, n_factors).

    Raises:
        ConfigError: If a factor is unknown.
        CatalogError: If the catalog lacks a plan of the log.
    """
    rows = [catalog.index(plan) for plan in plans]
    levels = catalog.levels[rows][:, factor_positions(catalog, factors, option)]
    return np.asarray(levels, dtype=np.float64)


def factor_positions(catalog: Catalog, factors: Sequence[str] | None, option: str) -> list[int]:
    """Where factors stand in a catalog.

    Args:
        catalog: The catalog.
        factors: Their names, in the order wanted; None for all.
        option: What named them, for errors.

    Raises:
        ConfigError: If a factor is unknown.
    """
    names = [factor.name for factor in catalog.factors]
    for name in factors or ():
        if name not in names:
            raise ConfigError(
                option, f"the catalog has no factor {name!r}.", f"It has: {', '.join(names)}."
            )
    return [names.index(name) for name in (names if factors is None else factors)]


def _context_column(values: npt.NDArray[Any]) -> FloatArray:
    if values.dtype.kind in "biuf":
        return _numbers(values.astype(np.float64))
    if values.dtype.kind == "M":
        return _numbers(values.astype("datetime64[s]").astype(np.float64))
    present = [value for value in values.tolist() if value is not None]
    if present and all(isinstance(value, bool | int | float) for value in present):
        return _numbers(np.array([np.nan if v is None else float(v) for v in values.tolist()]))
    if any(isinstance(value, list | tuple | np.ndarray) for value in present):
        return _elements(values)
    words = [None if value is None else str(value) for value in values.tolist()]
    kept = {level: code for code, level in enumerate(_kept(Counter(words)))}
    codes = np.array([kept.get(word, len(kept)) for word in words], dtype=np.intp)
    return _one_hot(codes, int(codes.max(initial=0)) + 1)


def _numbers(values: FloatArray) -> FloatArray:
    missing = np.isnan(values)
    columns = [np.where(missing, 0.0, _standardised(values))]
    if missing.any():
        columns.append(missing.astype(np.float64))
    return np.stack(columns, axis=1)


def _elements(values: npt.NDArray[Any]) -> FloatArray:
    lists = [[] if value is None else [str(word) for word in value] for value in values.tolist()]
    kept = _kept(Counter(word for words in lists for word in set(words)))
    codes = {word: code for code, word in enumerate(kept)}
    design = np.zeros((len(lists), len(kept)))
    for row, words in enumerate(lists):
        design[row, [codes[word] for word in words if word in codes]] = 1.0
    return design


def _kept(counts: Counter[Any]) -> list[Any]:
    most = sorted(counts, key=lambda level: (-counts[level], level or ""))[:MAX_LEVELS]
    # Missing comes last, so that the level left out is a real one.
    return sorted(most, key=lambda level: (level is None, level or ""))


def _one_hot(codes: npt.NDArray[np.intp], n_levels: int) -> FloatArray:
    return np.eye(n_levels)[codes][:, 1:]


def _filled(values: FloatArray) -> FloatArray:
    known = values[~np.isnan(values)]
    return np.where(np.isnan(values), known.mean() if known.size else 0.0, values)


def _standardised(values: FloatArray) -> FloatArray:
    known = values[~np.isnan(values)]
    if not known.size:
        return np.zeros_like(values)
    spread = float(known.std())
    return np.asarray((values - known.mean()) / (spread if spread > 0 else 1.0))
