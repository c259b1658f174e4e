"""Replay: draw a stored decision again, to the bit, and say how far a fresh computation drifts."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from canopy.domain.decision import Reason
from canopy.domain.errors import ArtifactError, InputError, NotFoundError
from canopy.domain.ids import content_hash
from canopy.storage.database import Database
from canopy.storage.rows import DecisionRow
from canopy.storage.unit_of_work import UnitOfWork
from policy.catalog import Catalog, parse_catalog
from policy.kernel import kernel_fingerprint
from policy.selector import doctrine_probabilities, draw, probabilities
from runtime.episodes import stored_mask, stored_vector
from runtime.registry import resolve_policy


@dataclass(frozen=True, slots=True)
class Replay:
    """What drawing a decision again came to.

    Attributes:
        decision_id: The decision.
        plan: The plan on its row.
        was_drawn: False where the plan was imposed or fell back: there is nothing to redraw.
        redrawn: The plan drawn again; None where nothing was drawn or nothing to draw from is left.
        is_same: True if it is the plan on the row; None without a redraw.
        source: What was drawn from: `stored` or, above 256 plans, `recomputed`.
        drift: Greatest difference of a probability between the stored distribution and the one
            computed now; None where one of them is missing.
        digest_matches: For recomputed distributions: whether their digest is the one on the
            row; None where the row has none.
        is_same_kernel: True if this machine promises the same bits as the one that chose.
        because: Why something above is missing; None where nothing is.
    """

    decision_id: str
    plan: str
    was_drawn: bool
    redrawn: str | None
    is_same: bool | None
    source: str | None
    drift: float | None
    digest_matches: bool | None
    is_same_kernel: bool
    because: str | None

    def document(self) -> dict[str, Any]:
        """The replay as JSON."""
        return asdict(self)


def replay(database: Database, tenant: str, row: DecisionRow, cache: Path | None = None) -> Replay:
    """Draw a stored decision again.

    Args:
        database: Where its catalog and policy are.
        tenant: Whose decision it is.
        row: The stored decision.
        cache: Folder of unpacked policies; None unpacks into a temporary one.

    Returns:
        Whether the same plan comes out, and the drift.

    Raises:
        InputError: If the decision was made elsewhere, so that its draw was not recorded.
        NotFoundError: If its catalog is not stored.
    """
    if row.u is None or row.catalog_hash is None:
        raise InputError(
            f"decision {row.decision_id}",
            "its draw is not on the row: it was made elsewhere.",
            "Replay decisions that were selected here.",
        )
    with database.unit_of_work(tenant) as work:
        catalog = parse_catalog(
            work.catalogs.get(row.catalog_hash).text, f"catalog {row.catalog_hash}"
        )
    was_drawn = bool({Reason.DRAWN, Reason.DOCTRINE} & set(row.reasons))
    stored = stored_vector(row.logging)
    fresh, because = (
        _recomputed(database, tenant, row, catalog, cache)
        if was_drawn
        else (
            None,
            f"nothing was drawn: {', '.join(row.reasons)}",
        )
    )
    source, drawn_from = ("stored", stored) if stored is not None else ("recomputed", fresh)
    redrawn = None if drawn_from is None else catalog.plan_ids[draw(drawn_from, row.u)]
    return Replay(
        decision_id=str(row.decision_id),
        plan=row.plan,
        was_drawn=was_drawn,
        redrawn=redrawn,
        is_same=None if redrawn is None else redrawn == row.plan,
        source=None if redrawn is None else source,
        drift=None if stored is None or fresh is None else float(np.abs(stored - fresh).max()),
        digest_matches=_digest_matches(row, fresh),
        is_same_kernel=row.kernel == kernel_fingerprint(),
        because=because,
    )


def _digest_matches(row: DecisionRow, fresh: npt.NDArray[np.float64] | None) -> bool | None:
    if row.logging_digest is None or fresh is None:
        return None
    return content_hash(np.asarray(fresh, dtype="<f8").tobytes()) == row.logging_digest


def _recomputed(
    database: Database, tenant: str, row: DecisionRow, catalog: Catalog, cache: Path | None
) -> tuple[npt.NDArray[np.float64] | None, str | None]:
    """The distribution computed now from context, mask and policy, or why it cannot be."""
    mask = stored_mask(row)
    if mask is None:
        return None, "the mask is not on the row"
    floor = row.floor or 0.0
    if row.policy_id is None:
        return doctrine_probabilities(catalog, mask, floor=floor), None
    try:
        artifact = resolve_policy(database, tenant, row.policy_id, cache)
    except (ArtifactError, NotFoundError) as error:
        return None, str(error)
    return probabilities(artifact, [row.context], mask[None], floor=floor)[0], None


def stored_decision(work: UnitOfWork, decision_id: str) -> DecisionRow:
    """A decision by its id.

    Raises:
        InputError: If the id is no UUID.
        NotFoundError: If the tenant has no such decision.
    """
    try:
        identity = UUID(decision_id)
    except ValueError as error:
        raise InputError(
            f"decision {decision_id}", "expected a UUID.", "Copy it from the answer of a selection."
        ) from error
    row = work.decisions.get(identity)
    if row is None:
        raise NotFoundError("decision", decision_id, "Check the id and the tenant.")
    return row
