"""Contexts as rows and as columns: what was known before choosing, both ways round."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from canopy.logs import schema
from canopy.logs.tabular import DecisionLog


def context_columns(contexts: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Contexts as columns of a log.

    Args:
        contexts: One mapping per row; a key that a row lacks is a missing value there.

    Returns:
        Cells by column name, each column of one type: numbers, booleans or lists of text where
        all its cells are that, else text.
    """
    keys = dict.fromkeys(key for context in contexts for key in context)
    return {
        schema.CONTEXT_PREFIX + key: _one_type([context.get(key) for context in contexts])
        for key in keys
    }


def context_rows(log: DecisionLog) -> list[dict[str, Any]]:
    """Contexts as one mapping per row, missing values left out."""
    rows: list[dict[str, Any]] = [{} for _ in range(log.n_rows)]
    for key, cells in log.context().items():
        for row, cell in zip(rows, cells.tolist(), strict=True):
            if cell is not None and not (isinstance(cell, float) and math.isnan(cell)):
                row[key] = cell
    return rows


def _one_type(cells: Sequence[Any]) -> list[Any]:
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {bool}:
        return list(cells)
    if kinds <= {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    if kinds == {list}:
        return [None if cell is None else [_word(item) for item in cell] for cell in cells]
    return [None if cell is None else _word(cell) for cell in cells]


def _word(cell: Any) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)
