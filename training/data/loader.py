"""The one door from a decision log to training: reserved units do not pass it."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from canopy.domain.errors import CatalogError, LogError
from canopy.logs import schema
from canopy.logs.reserve import reserved_rows
from canopy.logs.tabular import DecisionLog
from policy.arrays import BoolArray, FloatArray, IntArray
from policy.catalog import Catalog, load_catalog, parse_catalog
from training.config import RewardConfig
from training.data.rows import Counts, TrainingRows
from training.reward_spec import Reward, reward_of

LOGGED: Final = RewardConfig()
"""The log's own reward."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A log as training sees it.

    Attributes:
        rows: What may be read.
        counts: What was left out, and why.
        reward: What is trained on.
    """

    rows: TrainingRows
    counts: Counts
    reward: Reward


def catalog_of(log: DecisionLog, path: str | None) -> Catalog:
    """The plans of a log: from a file where one is named, else from the log's metadata.

    Raises:
        CatalogError: If there is neither, or it is wrong.
    """
    if path is not None:
        return load_catalog(path)
    if log.catalog_text is None:
        raise CatalogError(
            "data.catalog",
            "the log carries no plan catalog.",
            "Name one: `data.catalog=catalog.yaml`.",
        )
    return parse_catalog(log.catalog_text, "catalog of the log")


def load_rows(log: DecisionLog, catalog: Catalog, *, reward: RewardConfig = LOGGED) -> Loaded:
    """The rows of a whole log that training may read, and a count of the others.

    Args:
        log: A checked log.
        catalog: Its plans.
        reward: What is trained on.

    Raises:
        LogError: If a plan is not in the catalog, or no row is left.
        CanopyError: As for `reward_of`.
    """
    loaded = load_part(log, catalog, reward=reward)
    refuse_empty(len(loaded.rows))
    return loaded


def refuse_empty(n_rows: int) -> None:
    """Refuse a log of which training may read nothing.

    Raises:
        LogError: If there are no rows.
    """
    if not n_rows:
        raise LogError(
            "log", "no row is left to train on: none is drawn, measured and not reserved.",
            "`canopy log stats` counts them; gather more outcomes.",
        )  # fmt: skip


def load_part(
    log: DecisionLog, catalog: Catalog, *, reward: RewardConfig = LOGGED, first_row: int = 1
) -> Loaded:
    """The rows of some part of a log that training may read; there may be none.

    Rows of reserved units go first, before anything else of them is looked at; then rows that
    were not drawn, then rows whose reward is unmeasured. A logged plan that was not feasible never
    comes this far: reading the log refuses it, by row.

    Args:
        log: The checked rows.
        catalog: Its plans.
        reward: What is trained on.
        first_row: Number of the first of the rows in the whole log.

    Raises:
        LogError: If a plan is not in the catalog.
        CanopyError: As for `reward_of`.
    """
    reserved = reserved_rows(log)
    open_log = log.take(~reserved)
    propensity = open_log.column(schema.PROPENSITY)
    numbers = np.flatnonzero(~reserved) + first_row
    blend = reward_of(open_log, reward, catalog.discipline, numbers=numbers)
    rewards = blend.values
    drawn = ~np.isnan(propensity)
    measured = ~np.isnan(rewards)
    kept = open_log.take(drawn & measured)
    rows = TrainingRows(
        unit=kept.column(schema.UNIT_ID),
        context=kept.context(),
        action=_actions(kept, catalog),
        feasible=_feasible(kept, catalog),
        propensity=kept.column(schema.PROPENSITY),
        keep_prob=_keep_prob(kept),
        reward=rewards[drawn & measured],
        ts=kept.column(schema.TS),
    )
    counts = Counts(
        n_log=log.n_rows,
        n_reserved=int(reserved.sum()),
        n_not_drawn=int((~drawn).sum()),
        n_null_reward=int((drawn & ~measured).sum()),
        n_single_feasible=int((~rows.has_choice).sum()),
    )
    return Loaded(rows, counts, blend)


def _actions(log: DecisionLog, catalog: Catalog) -> IntArray:
    names, position = np.unique(log.column(schema.PLAN).astype(str), return_inverse=True)
    known: IntArray = np.array([_known(catalog, name) for name in names.tolist()], dtype=np.intp)
    return known[position]


def _known(catalog: Catalog, plan: str) -> int:
    """The action of a plan that the log names.

    Raises:
        LogError: If the catalog has no such plan.
    """
    try:
        return catalog.index(plan)
    except CatalogError as error:
        raise LogError(
            f"plan {plan!r}", "is in the log and not in the catalog.",
            "Name the catalog that the log was made with: `data.catalog=catalog.yaml`.",
        ) from error  # fmt: skip


def _feasible(log: DecisionLog, catalog: Catalog) -> BoolArray:
    """What was feasible on each row, in the catalog's order of plans."""
    logged = log.matrix(schema.FEASIBLE)
    if log.plans is None:
        return np.ones((log.n_rows, catalog.n_plans), dtype=np.bool_)
    # A plan that the log does not list was not there to be chosen.
    columns = [_known(catalog, plan) for plan in log.plans]
    feasible = np.zeros((log.n_rows, catalog.n_plans), dtype=np.bool_)
    feasible[:, columns] = True if logged is None else logged > 0
    return feasible


def _keep_prob(log: DecisionLog) -> FloatArray:
    if not log.has(schema.KEEP_PROB):
        return np.ones(log.n_rows)
    return log.column(schema.KEEP_PROB)
