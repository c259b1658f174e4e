"""The ledger of looks: every backtest on a safety set spends some of its allowed error."""

import hashlib
from collections.abc import Iterable
from typing import Final

from canopy.domain.evidence import Evidence, Tier
from canopy.logs import schema
from canopy.logs.tabular import DecisionLog
from eval.intervals.gain import error_of_look

LOOK: Final = "look"
SAFETY_SET: Final = "safety_set"
SKETCH: Final = "decisions_sketch"
"""Names of the facts of a backtest that the ledger is kept in."""

_SKETCH_SIZE: Final = 64


def split_level(level: float, look: int) -> float:
    """Level of the k-th look at one safety set: its error is the allowed one over k (k + 1).

    These errors sum to no more than the allowed one however many looks follow, so that the
    chance of ever promoting a policy without a gain stays within it.
    """
    return 1 - error_of_look(1 - level, look)


def sketch_of(reserve: DecisionLog) -> tuple[str, ...]:
    """The least hashes of a safety set's decisions: sets that share decisions share some.

    A log exported again with later rows is thereby known for the set that was looked at, which
    its content hash would not tell. Rewards stay out, since they may arrive between.
    """
    columns = (schema.DECISION_ID, schema.UNIT_ID, schema.PLAN, schema.PROPENSITY)
    rows = zip(*(reserve.column(name).tolist() for name in columns), strict=True)
    hashes = {hashlib.sha256(repr(row).encode()).hexdigest()[:12] for row in rows}
    return tuple(sorted(hashes)[:_SKETCH_SIZE])


def look_number(reserve: DecisionLog, earlier: Iterable[Evidence]) -> int:
    """Which look at a safety set the next one is: one more than the distinct ones before.

    Args:
        reserve: The safety set.
        earlier: Stored evidence of every policy.
    """
    mine = set(sketch_of(reserve))
    seen = {
        (found.policy_id, found.inputs)
        for found in earlier
        if found.tier is Tier.BACKTEST and mine & set(str(found.fact(SKETCH) or "").split())
    }
    return len(seen) + 1
