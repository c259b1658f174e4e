"""From a log to what a run learns from: read in passing, in memory that does not grow with it.

A log of several parts is read twice. The first time it is counted, identified and sampled, for
the features and the split; the second time its rows are encoded and put away.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from canopy.domain.episode import EpisodeKind
from canopy.domain.errors import LogError
from canopy.logs.batches import LogParts, open_parts
from canopy.logs.identity import LogIdentity
from canopy.logs.schema import LogFacts
from policy.catalog import Catalog
from policy.features import FeatureSchema, fit_schema
from training.config import DataConfig, RewardConfig
from training.data.blocks import block_of
from training.data.loader import catalog_of, load_part, refuse_empty
from training.data.rows import Counts, TrainingRows, joined
from training.data.splitting import Split, refuse_empty_side, split_of
from training.data.store import RowStore, RowWriter
from training.reward_spec import Reward, merged

SAMPLED_ROWS: Final = 2**15
"""About so many rows of a long log decide features and split; all of a short one."""


@dataclass(frozen=True, slots=True)
class Intake:
    """A log that was taken in.

    Attributes:
        log_hash: Identity of the log's content.
        kind: Where its episodes came from.
        catalog: Its plans.
        schema: Features, fitted on training rows alone.
        train: Rows that train and left a choice.
        validation: Rows of other units.
        counts: What was left out, and why.
        reward: What is trained on.
    """

    log_hash: str
    kind: EpisodeKind
    catalog: Catalog
    schema: FeatureSchema
    train: RowStore
    validation: TrainingRows
    counts: Counts
    reward: Reward


@dataclass(frozen=True, slots=True)
class _Survey:
    facts: LogFacts
    log_hash: str
    catalog: Catalog
    counts: Counts
    reward: Reward
    sample: TrainingRows  # all rows, where the log is one part


def take_in(
    data: DataConfig, reward: RewardConfig, folder: Path, *, window: int | None = None
) -> Intake:
    """Read a log.

    Args:
        data: Which, and how it is split.
        reward: What is trained on.
        folder: Where rows are put that memory shall not hold.
        window: Most training rows held at once; None for what fits.

    Raises:
        CanopyError: If the log, the catalog or the reward is wrong, or no row is left on a side.
    """
    parts = open_parts(data.path)
    found = _survey(parts, data, reward)
    refuse_empty(len(found.sample))
    n_open = found.counts.n_log - found.counts.n_reserved
    share = min(data.validation_share, data.most_validation_rows / n_open)
    rule = split_of(data.split, share, found.sample)
    inside = found.sample.take(~rule.is_validation(found.sample))
    refuse_empty_side(len(inside), len(found.sample) - len(inside))
    schema = fit_schema(inside.context)
    train, validation, n_known = _put_away(parts, found, rule, schema, reward, folder, window)
    return Intake(
        log_hash=found.log_hash,
        kind=found.facts.kind,
        catalog=found.catalog,
        schema=schema,
        train=train,
        validation=validation,
        counts=found.counts + Counts(0, 0, 0, 0, 0, n_known),
        reward=found.reward,
    )


def _survey(parts: LogParts, data: DataConfig, reward: RewardConfig) -> _Survey:
    stride = 1 if parts.is_whole else -(-(parts.n_rows or 1) // SAMPLED_ROWS)
    facts, identity, catalog = None, None, None
    counts = Counts(0, 0, 0, 0, 0)
    rewards, n_open, samples = [], [], []
    for first_row, log in parts.read():
        if facts is None or identity is None or catalog is None:
            facts, identity = log.facts, LogIdentity(log.facts)
            catalog = catalog_of(log, data.catalog)
        identity.add(log.table)
        loaded = load_part(log, catalog, reward=reward, first_row=first_row)
        counts += loaded.counts
        rewards.append(loaded.reward)
        n_open.append(loaded.counts.n_log - loaded.counts.n_reserved)
        samples.append(loaded.rows.take(np.arange(0, len(loaded.rows), stride)))
    if facts is None or identity is None or catalog is None:
        raise LogError("log", "holds no row.", "Name a log with decisions.")
    return _Survey(
        facts, identity.content_hash(), catalog, counts, merged(rewards, n_open), joined(samples)
    )


def _put_away(
    parts: LogParts,
    found: _Survey,
    rule: Split,
    schema: FeatureSchema,
    reward: RewardConfig,
    folder: Path,
    window: int | None,
) -> tuple[RowStore, TrainingRows, int]:
    """Training rows, validation rows, and how many of the log's end are of units that train."""
    beyond: list[TrainingRows] = []
    trained: set[str] = set()
    with RowWriter(
        folder, width=schema.width, n_plans=found.catalog.n_plans, window=window
    ) as writer:
        n_train = 0
        for rows in _rows(parts, found, reward):
            is_validation = rule.is_validation(rows)
            inside = rows.take(~is_validation)
            beyond.append(rows.take(is_validation))
            n_train += len(inside)
            if rule.cut is not None:
                trained.update(inside.unit.tolist())
            features = schema.encode_many(inside.context, n_rows=len(inside))
            block = block_of(inside, features, is_training=True, first=writer.n_rows)
            writer.add(block, n_single=len(inside) - len(block))
        validation = joined(beyond)
        new = rule.new_units(validation, trained)
        refuse_empty_side(n_train, int(new.sum()))
        return writer.store(), validation.take(new), int((~new).sum())


def _rows(parts: LogParts, found: _Survey, reward: RewardConfig) -> Iterator[TrainingRows]:
    if parts.is_whole:
        yield found.sample
        return
    for first_row, log in parts.read():
        yield load_part(log, found.catalog, reward=reward, first_row=first_row).rows
