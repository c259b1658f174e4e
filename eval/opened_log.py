"""Whatever a caller calls a log, as a checked decision log with its catalog."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np
import pyarrow as pa

from canopy.domain.errors import LogError
from canopy.logs import schema
from canopy.logs.tabular import DecisionLog, read_log, read_table
from policy.catalog import Catalog, load_catalog, parse_catalog

if TYPE_CHECKING:
    import pandas as pd

LogSource: TypeAlias = Union["pd.DataFrame", Path, str, DecisionLog]
"""A data frame, a file, or a log read before."""


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log and what is known of its plans.

    Attributes:
        log: The checked log.
        catalog: Its catalog, handed in or found in the log; None without one.
    """

    log: DecisionLog
    catalog: Catalog | None


def open_log(
    source: LogSource,
    *,
    catalog: Catalog | Path | str | None = None,
    plans: Sequence[str] | None = None,
    reward_range: tuple[float, float] | None = None,
    propensity_constant: float | None = None,
) -> OpenedLog:
    """Read and check a log.

    Args:
        source: What the caller has.
        catalog: The plans' catalog, or its file; None takes the log's own.
        plans: Plan ids in the order of columns per plan; None takes the catalog's or the log's.
        reward_range: Least and greatest reward; None takes the log's own, else 0 to 1.
        propensity_constant: Propensity of every row of a logger known to be uniform.

    Raises:
        LogError: If the log holds a fault; row and column are named.
        CatalogError: If the catalog is wrong.
    """
    stated = load_catalog(catalog) if isinstance(catalog, str | Path) else catalog
    order = plans if plans is not None or stated is None else stated.plan_ids
    if isinstance(source, DecisionLog):
        if propensity_constant is not None:
            raise LogError(
                "--propensity-constant", "the log was read before, with its propensities.",
                "Declare it where the log is read.",
            )  # fmt: skip
        log = _restated(source, order, reward_range)
    elif isinstance(source, str | Path):
        log = read_log(
            source,
            reward_range=reward_range,
            plans=order,
            propensity_constant=propensity_constant,
        )
    else:
        log = _from_frame(source, order, reward_range, propensity_constant)
    if stated is None and log.catalog_text is not None:
        stated = parse_catalog(log.catalog_text, "the log's catalog")
    return OpenedLog(log, stated)


def _from_frame(
    frame: "pd.DataFrame",
    plans: Sequence[str] | None,
    reward_range: tuple[float, float] | None,
    propensity_constant: float | None,
) -> DecisionLog:
    try:
        with warnings.catch_warnings():
            # Arrow asks pandas for time zones in a way that pandas is giving up.
            warnings.simplefilter("ignore", DeprecationWarning)
            table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, AttributeError, TypeError) as error:
        raise LogError(
            "log", f"expected a data frame, a file or a decision log: {error}.",
            "Give every column cells of one type.",
        ) from error  # fmt: skip
    return read_table(
        table, reward_range=reward_range, plans=plans, propensity_constant=propensity_constant
    )


def _restated(
    log: DecisionLog, plans: Sequence[str] | None, reward_range: tuple[float, float] | None
) -> DecisionLog:
    facts = log.facts
    if plans is not None:
        if facts.plans is not None and facts.plans != tuple(plans):
            raise LogError(
                "plans", "the plans named differ from the log's, or in another order.",
                "Leave them away, or name the log's own plans in its order.",
            )  # fmt: skip
        facts = replace(facts, plans=tuple(plans))
    if reward_range is not None:
        facts = replace(facts, reward_range=reward_range)
        _check_range(log, reward_range)
    return replace(log, facts=facts)


def _check_range(log: DecisionLog, reward_range: tuple[float, float]) -> None:
    lo, hi = reward_range
    reward = log.column(schema.REWARD)
    for row in np.flatnonzero((reward < lo) | (reward > hi)):
        raise LogError(
            f"row {row + 1}, column {schema.REWARD}",
            f"expected within the declared range {lo:g} to {hi:g}, got {reward[row]:.6g}.",
            "Correct it, or declare the range with --range LO HI; nothing is clipped.",
        )
