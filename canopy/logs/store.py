"""Putting an accepted log into the record: decisions, rewards and catalog, or nothing at all."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from canopy.domain.decision import Reason
from canopy.domain.episode import EpisodeKind, is_reserved
from canopy.domain.errors import LogError
from canopy.domain.ids import content_hash
from canopy.logs import schema
from canopy.logs.catalog_text import CatalogOutline, catalog_of_plans, of_discipline, outline
from canopy.logs.context import context_rows
from canopy.logs.reserve import reserved_rows
from canopy.logs.tabular import DecisionLog
from canopy.storage.rows import WHOLE_DISTRIBUTION_PLANS, DecisionRow, ImportRow
from canopy.storage.unit_of_work import UnitOfWork

_NAMESPACE: Final = uuid.UUID("5f0d2c1e-6a39-5f0e-9d0c-0b6f3a7e41c2")

_BATCH: Final = 2_000

_NOT_KEPT: Final = (
    schema.TARGET_PROPENSITY, schema.TARGET_PROPENSITIES, schema.Q, schema.Q_ALL,
)  # fmt: skip
"""Columns about a policy to evaluate, which are no part of the record."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What came into the record.

    Attributes:
        n_rows: Decisions.
        n_rewards: Decisions whose reward was measured.
        n_reserved: Decisions of units in the reserve, which training never sees.
        kind: What they were marked as.
        catalog_hash: The catalog they chose from.
        notes: What a person should know.
    """

    n_rows: int
    n_rewards: int
    n_reserved: int
    kind: EpisodeKind
    catalog_hash: str
    notes: tuple[str, ...]


def stored_decision_id(tenant: str, discipline: str, decision_id: str) -> uuid.UUID:
    """The record's id of an imported decision: its own where that is a UUID, else derived."""
    try:
        return uuid.UUID(decision_id)
    except ValueError:
        return uuid.uuid5(_NAMESPACE, f"{tenant}\0{discipline}\0{decision_id}")


def store_log(
    log: DecisionLog,
    work: UnitOfWork,
    *,
    discipline: str,
    kind: EpisodeKind | None = None,
) -> Imported:
    """Put a log into the record within an open unit of work.

    Args:
        log: An accepted log.
        work: Whose record; nothing is kept unless it ends well.
        discipline: The craft whose decisions these are.
        kind: `imported` or `synthetic`; None keeps the mark of a synthetic log.

    Raises:
        LogError: If the mark is impossible, or a decision is recorded already.
        CatalogError: If the log's catalog is none.
    """
    marked = marked_kind(log.kind, kind)
    catalog_text, catalog, notes = _catalog(log, discipline)
    work.catalogs.put(catalog.catalog_hash, discipline, catalog.version, catalog_text)
    n_rows = work.decisions.import_rows(_rows(log, work.tenant, discipline, marked, catalog))
    left_out = [name for name in _NOT_KEPT if log.has(name)]
    if left_out:
        notes += (f"Not part of the record and left out: {', '.join(left_out)}.",)
    return Imported(
        n_rows=n_rows,
        n_rewards=int(np.isfinite(log.column(schema.REWARD)).sum()),
        n_reserved=int(reserved_rows(log).sum()),
        kind=marked,
        catalog_hash=catalog.catalog_hash,
        notes=notes,
    )


def marked_kind(own: EpisodeKind, asked: EpisodeKind | None) -> EpisodeKind:
    """What an imported log is marked as.

    Args:
        own: The log's own mark.
        asked: What the caller asks for; None for nothing.

    Raises:
        LogError: If real is asked for, or a synthetic log would lose its mark.
    """
    if asked is EpisodeKind.REAL:
        raise LogError(
            "--kind", "real is what was served here.", "Import as imported or synthetic."
        )
    if own is EpisodeKind.SYNTHETIC and asked is EpisodeKind.IMPORTED:
        raise LogError(
            "--kind", "the log is marked synthetic and stays so.", "Import it as synthetic."
        )
    if asked is not None:
        return asked
    return own if own is EpisodeKind.SYNTHETIC else EpisodeKind.IMPORTED


def _catalog(log: DecisionLog, discipline: str) -> tuple[str, CatalogOutline, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    if log.catalog_text is not None:
        text = of_discipline(log.catalog_text, discipline)
    else:
        plans = log.plans or tuple(sorted(set(log.column(schema.PLAN).tolist())))
        text = catalog_of_plans(plans, discipline)
        notes = (f"The log has no catalog; one that lists its {len(plans)} plans was stored.",)
    catalog = outline(text, "the log's catalog")
    if log.plans is not None and log.plans != catalog.plans:
        raise LogError(
            "(plans)", f"the log's {len(log.plans)} plans are not the catalog's "
            f"{len(catalog.plans)}, or in another order.",
            "Import it with the catalog it was made from.",
        )  # fmt: skip
    return text, catalog, notes


def _rows(
    log: DecisionLog, tenant: str, discipline: str, kind: EpisodeKind, catalog: CatalogOutline
) -> Iterator[ImportRow]:
    action = {plan: i for i, plan in enumerate(catalog.plans)}
    n_plans = len(catalog.plans)
    feasible, logging = log.matrix(schema.FEASIBLE), log.matrix(schema.PROPENSITIES)
    contexts = context_rows(log)
    # Scalars row by row; the columns per plan stay matrices.
    scalars = log.table.select(
        [name for name, spec in schema.BY_NAME.items()
         if log.has(name) and spec.type not in schema.PER_PLAN]
    )  # fmt: skip
    batches = (batch.to_pylist() for batch in scalars.to_batches(max_chunksize=_BATCH))
    for row, cells in enumerate(chain.from_iterable(batches)):
        plan, propensity = cells[schema.PLAN], cells[schema.PROPENSITY]
        if plan not in action:
            raise LogError(
                f"row {row + 1}, column plan", f"{plan!r} is not in the catalog.",
                "Import the log with the catalog it was made from.",
            )  # fmt: skip
        drawn = propensity is not None
        whole, digest = None, None
        if logging is not None and drawn:
            whole, digest = _distribution(logging[row])
        decision = DecisionRow(
            **_elsewhere(),
            tenant_id=tenant,
            decision_id=stored_decision_id(tenant, discipline, cells[schema.DECISION_ID]),
            decided_at=cells[schema.TS],
            discipline=discipline,
            unit_id=cells[schema.UNIT_ID],
            kind=kind,
            plan=plan,
            action=action[plan],
            propensity=propensity,
            served=drawn,
            reasons=(Reason.DRAWN.value,) if drawn else (),
            catalog_hash=catalog.catalog_hash,
            logging=whole,
            logging_digest=digest,
            mask=None if feasible is None else np.packbits(feasible[row] > 0).tobytes(),
            n_plans=n_plans,
            context=contexts[row],
            reserved=is_reserved(cells[schema.UNIT_ID]),
            keep_prob=cells.get(schema.KEEP_PROB, 1.0),
            policy_version=cells.get(schema.POLICY_VERSION),
        )
        yield ImportRow(decision, cells[schema.REWARD])


def _elsewhere() -> dict[str, Any]:
    # What only decisions made here have.
    unknown = (
        "request_id", "body_hash", "mode", "arm", "arm_share", "feature_hash", "policy_id",
        "kernel", "floor", "u", "shadow_plan", "shadow",
    )  # fmt: skip
    return dict.fromkeys(unknown)


def _distribution(probabilities: Any) -> tuple[bytes | None, str | None]:
    raw = np.ascontiguousarray(probabilities, dtype="<f8").tobytes()
    if len(probabilities) <= WHOLE_DISTRIBUTION_PLANS:
        return raw, None
    return None, content_hash(raw)
