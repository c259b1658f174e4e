"""Whether a rubric's dimension may carry weight: the record of a judge's agreement with people.

Evidence writes a clearance, training reads it; neither knows the other.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from canopy.domain.errors import InputError
from canopy.domain.ids import canonical_json, content_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionClearance:
    """One verdict on one judge of one dimension, on gold that people gave.

    Attributes:
        discipline: Whose rubric it is.
        dimension: What is rated.
        rubric: The rubric, by its id or content hash.
        judge: The judge, with its version.
        family: Who trained it, or `human`.
        golden_set: Name of the golden set, as discipline/version/part.
        gold_hash: Content hash of the gold labels.
        raters: Who gave them.
        dated_from: Day of the first of them, as YYYY-MM-DD.
        dated_to: Day of the last.
        n: Items rated by judge and people.
        n_clusters: Independent ones among them.
        n_not_human: Gold labels left out, because no person gave them or nobody says who or when.
        coefficient: Short name of the coefficient of agreement.
        value: Its value; None where undefined.
        lower_bound: Its one-sided lower bound; None likewise.
        level: Coverage of the bound.
        floor: What the bound had to reach.
        ceiling: Agreement of two people on the same items; None where undefined.
        delta: How far under the ceiling the bound may lie.
        baselines: Agreement of raters that do not read, by name; None where undefined.
        is_cleared: Whether the dimension may carry weight.
        reason: Why not; None where it may.
        recorded_at: When, aware.
    """

    discipline: str
    dimension: str
    rubric: str
    judge: str
    family: str
    golden_set: str
    gold_hash: str
    raters: tuple[str, ...]
    dated_from: str
    dated_to: str
    n: int
    n_clusters: int
    n_not_human: int
    coefficient: str
    value: float | None
    lower_bound: float | None
    level: float
    floor: float
    ceiling: float | None
    delta: float
    baselines: Mapping[str, float | None]
    is_cleared: bool
    reason: str | None
    recorded_at: datetime

    def __post_init__(self) -> None:
        if self.recorded_at.tzinfo is None:
            raise TypeError("recorded_at must be an aware time.")
        if self.is_cleared is (self.reason is not None):
            raise TypeError("a clearance has a reason exactly where it does not clear.")
        if self.is_cleared and not self.raters:
            raise TypeError("only gold that people gave clears a dimension.")

    @property
    def clearance_id(self) -> str:
        """Content hash of everything but the clock."""
        content = self.document()
        del content["recorded_at"]
        return content_hash(canonical_json(content))

    def document(self) -> dict[str, Any]:
        """As JSON carries it."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "raters": list(self.raters),
            "baselines": dict(self.baselines),
            "recorded_at": self.recorded_at.isoformat(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "DimensionClearance":
        """The clearance that `document` wrote.

        Raises:
            KeyError: If a fact is missing.
            TypeError: If one is unknown, or contradicts another.
            ValueError: If the time is none.
        """
        return cls(**{
            **document,
            "raters": tuple(document["raters"]),
            "recorded_at": datetime.fromisoformat(document["recorded_at"]),
        })


def parse_clearances(text: str, source: str) -> tuple[DimensionClearance, ...]:
    """The clearances of a file of JSON lines, in its order.

    Args:
        text: The file's text.
        source: Its name, for errors.

    Raises:
        InputError: If a line is no clearance; it is named, from 1.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(DimensionClearance.from_document(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{source}:{number}",
                f"is no clearance: {error}.",
                "Restore the line that `canopy judge agreement --record` wrote.",
            ) from error
    return tuple(found)


def standing_clearance(
    rows: Iterable[DimensionClearance], *, discipline: str, dimension: str, rubric: str, judge: str
) -> DimensionClearance | None:
    """The clearance that counts: the last one recorded, whether it clears or not.

    A later failure withdraws what was cleared before.

    Args:
        rows: Everything recorded.
        discipline: Whose rubric.
        dimension: What is rated.
        rubric: By which rubric; another one was not cleared by this.
        judge: By which judge, in this version.

    Returns:
        The row; None where nothing was recorded.
    """
    asked = (discipline, dimension, rubric, judge)
    mine = [r for r in rows if (r.discipline, r.dimension, r.rubric, r.judge) == asked]
    return max(mine, key=lambda row: row.recorded_at, default=None)
