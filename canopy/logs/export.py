"""Episodes of the record as a canonical log: what trains and judges the next policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from canopy.domain.episode import EpisodeKind
from canopy.domain.errors import LogError
from canopy.logs import schema
from canopy.logs.catalog_text import catalog_of_plans, outline
from canopy.logs.context import context_columns
from canopy.logs.schema import LogFacts
from canopy.logs.tabular import DecisionLog, log_of, save_log
from canopy.storage.rows import ExportRow
from canopy.storage.unit_of_work import UnitOfWork

SPLITS: Final[Mapping[str, bool | None]] = {"train": False, "reserve": True, "all": None}
"""Which units: those training may see, those kept back for evidence, or both."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A log written from the record.

    Attributes:
        log: As it was written.
        n_reserved: Decisions of units in the reserve.
        notes: What a person should know.
    """

    log: DecisionLog
    n_reserved: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Plans:
    # Union of the plans of every catalog the rows chose from.
    order: tuple[str, ...]
    catalog_text: str
    places: dict[str | None, npt.NDArray[np.intp]]  # by catalog hash: positions in `order`
    notes: tuple[str, ...]


def export_log(
    work: UnitOfWork,
    path: Path,
    *,
    discipline: str,
    split: str = "all",
    kind: EpisodeKind | None = None,
    reward_range: tuple[float, float] = schema.DEFAULT_RANGE,
) -> Exported:
    """Write the episodes of a discipline as a log; a refusal leaves no file.

    Args:
        work: Whose record.
        path: Where to.
        discipline: The craft.
        split: A key of `SPLITS`.
        kind: Kind to give; None where there is only one.
        reward_range: Least and greatest reward that can occur.

    Raises:
        LogError: If there are no episodes, if kinds would mix, or if a row breaks the schema.
        NotFoundError: If a catalog is not in the record.
    """
    reserved = SPLITS[split]
    chosen = _only_kind(work, discipline, kind, reserved)
    rows = list(work.decisions.export(discipline, kinds=[chosen], reserved=reserved))
    plans = _plans(work, discipline, rows)
    columns, notes = _columns(rows, plans)
    facts = LogFacts(
        plans=plans.order,
        catalog_text=plans.catalog_text,
        kind=chosen,
        reward_range=reward_range,
        source=f"record of {work.tenant}, discipline {discipline}, split {split}",
    )
    log = log_of(columns, facts)
    save_log(log, path)
    return Exported(log, sum(row.reserved for row in rows), plans.notes + notes)


def _only_kind(
    work: UnitOfWork, discipline: str, kind: EpisodeKind | None, reserved: bool | None  # noqa: FBT001 - a three-way filter
) -> EpisodeKind:  # fmt: skip
    counts = {
        each: n
        for each in ([kind] if kind else EpisodeKind)
        if (n := work.decisions.count(discipline, kinds=[each], reserved=reserved))
    }
    if not counts:
        raise LogError(
            f"{work.tenant}, {discipline}", "there are no such episodes.",
            "Import a log or serve selections first, or ask for another split or kind.",
        )  # fmt: skip
    if len(counts) > 1:
        found = ", ".join(f"{n:,} {each}" for each, n in counts.items())
        raise LogError(
            f"{work.tenant}, {discipline}", f"kinds would mix: {found}.", "Choose one with --kind."
        )
    return next(iter(counts))


def _plans(work: UnitOfWork, discipline: str, rows: Sequence[ExportRow]) -> _Plans:
    # Newest catalog first: its order stands, plans of older ones follow.
    hashes = list(dict.fromkeys(row.catalog_hash for row in reversed(rows)))
    texts = {h: work.catalogs.get(h).text for h in hashes if h is not None}
    own = {h: outline(text, f"catalog {h}").plans for h, text in texts.items()}
    taken = sorted({row.plan for row in rows if row.catalog_hash is None})
    order = tuple(dict.fromkeys([*(plan for plans in own.values() for plan in plans), *taken]))
    position = {plan: i for i, plan in enumerate(order)}
    places: dict[str | None, npt.NDArray[np.intp]] = {
        h: np.array([position[plan] for plan in plans], np.intp) for h, plans in own.items()
    }
    places[None] = np.arange(len(order))
    newest = next(iter(own), None)
    if newest is not None and own[newest] == order:
        return _Plans(order, texts[newest], places, ())
    note = (
        f"The episodes chose from {len(own)} catalogs; the log lists the {len(order)} plans of "
        "all of them, without rules and doctrine."
    )
    return _Plans(order, catalog_of_plans(order, discipline), places, (note,))


def _columns(rows: Sequence[ExportRow], plans: _Plans) -> tuple[dict[str, Any], tuple[str, ...]]:
    columns: dict[str, Any] = {
        schema.DECISION_ID: [str(row.decision_id) for row in rows],
        schema.UNIT_ID: [row.unit_id for row in rows],
        schema.TS: [row.decided_at for row in rows],
        schema.PLAN: [row.plan for row in rows],
        schema.PROPENSITY: [row.propensity for row in rows],
        schema.REWARD: [row.reward for row in rows],
        schema.DRAWN: [row.propensity is not None for row in rows],
        schema.KEEP_PROB: [row.keep_prob for row in rows],
        schema.POLICY_VERSION: [row.policy_version or row.policy_id for row in rows],
    }
    notes: tuple[str, ...] = ()
    whole = [row for row in rows if row.propensity is not None and row.logging is not None]
    n_drawn = sum(columns[schema.DRAWN])
    if n_drawn and len(whole) == n_drawn:
        columns[schema.PROPENSITIES] = _propensities(rows, plans)
    elif whole or any(row.logging_digest for row in rows):
        note = (
            f"The whole distribution is stored for {len(whole):,} of {n_drawn:,} drawn rows only; "
            "the log goes without."
        )
        notes = (note,)
    if len(plans.places) > 2 or any(row.mask is not None for row in rows):  # noqa: PLR2004 - more than one catalog beside None
        columns[schema.FEASIBLE] = _feasible(rows, plans)
    return columns | context_columns([row.context for row in rows]), notes


def _propensities(rows: Sequence[ExportRow], plans: _Plans) -> npt.NDArray[np.float64]:
    # A row that was not drawn stays NaN throughout, which the log writes as an empty cell.
    found = np.full((len(rows), len(plans.order)), np.nan)
    for place, row in zip(found, rows, strict=True):
        if row.propensity is not None and row.logging is not None:
            place[:] = 0.0
            place[plans.places[row.catalog_hash]] = np.frombuffer(row.logging, "<f8")
    return found


def _feasible(rows: Sequence[ExportRow], plans: _Plans) -> npt.NDArray[np.bool_]:
    found = np.zeros((len(rows), len(plans.order)), bool)
    for place, row in zip(found, rows, strict=True):
        positions = plans.places[row.catalog_hash]
        if row.mask is None:
            place[positions] = True
        else:
            bits = np.unpackbits(np.frombuffer(row.mask, np.uint8), count=len(positions))
            place[positions] = bits.astype(bool)
    return found
