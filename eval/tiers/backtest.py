"""Backtest: what a policy would have gained over the logging policy, on reserved units.

The gain is paired row by row, X = (w - 1)(r - least reward), and judged by a one-sided t bound
over units. The bound is approximate: it holds for gains skewed to the right, which weights
give, and is refused for gains skewed to the left, where it is known to promise too much.

Source:
    Thomas, Theocharous, Ghavamzadeh, High-Confidence Policy Improvement, ICML 2015; Cameron and
    Miller, A Practitioner's Guide to Cluster-Robust Inference, JHR 2015.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from canopy.domain.clock import now
from canopy.domain.episode import EpisodeKind, is_reserved
from canopy.domain.errors import LogError
from canopy.domain.evidence import (
    Evidence,
    EvidenceStatus,
    Fact,
    FactValue,
    Interval,
    Lineage,
    Margin,
    Tier,
    reserve_corpus,
)
from canopy.domain.ids import canonical_json, content_hash
from canopy.logs import schema
from canopy.logs.tabular import DecisionLog
from eval.estimators.inverse_propensity import ips
from eval.gates import (
    ESTIMATORS_AGREE,
    MEAN_WEIGHT_ERRORS,
    UNIT_ESS,
    UNITS,
    UNSUPPORTED_MASS,
)
from eval.intervals.unit_t import unit_ess, unit_interval
from eval.intervals.units import units_of
from policy.arrays import BoolArray, FloatArray
from policy.artifact import Artifact

METHOD: Final = "backtest/v1"
"""Name of the computation; a changed one is a new version and a new look."""

DEFAULT_LEVEL: Final = 0.95

LOOK: Final = "look"
SAFETY_SET: Final = "safety_set"
SKETCH: Final = "decisions_sketch"

_SKETCH_SIZE: Final = 64
_MIN_BOUND: Final = 30


@dataclass(frozen=True, slots=True)
class Gain:
    """The paired gain over the logging policy.

    Attributes:
        estimate: In reward units per decision.
        lower: One-sided lower bound; None where none is honest.
        n_units: Units it rests on.
        skew: Skewness of the units' gains; None where they do not vary.
        refusal: Why there is no bound; None where there is one.
    """

    estimate: float
    lower: float | None
    n_units: int
    skew: float | None
    refusal: str | None


def paired_gain(
    reward: FloatArray,
    weight: FloatArray,
    units: npt.NDArray[Any],
    *,
    level: float,
    reward_min: float = 0.0,
    keep_prob: FloatArray | None = None,
) -> Gain:
    """Gain of a target policy over the logging policy, with a one-sided lower bound.

    Args:
        reward: Shape (n,), at least `reward_min`.
        weight: Shape (n,). Importance weights, keep probability divided in.
        units: Shape (n,). Unit of each row.
        level: Probability with which the bound must hold, from 0.5.
        reward_min: Least reward that can occur; counted from there, gains are skewed to the
            right.
        keep_prob: Shape (n,). Probability with which each row was kept; None where every was.

    Returns:
        The gain; its bound is approximate.

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is not finite or a weight negative.
    """  # noqa: DOC502 - raised by the estimators
    above = reward - reward_min
    kept = np.ones(len(above)) if keep_prob is None else keep_prob
    gains = (
        ips(above, weight, keep_prob=keep_prob).contributions
        - ips(above, 1 / kept, keep_prob=keep_prob).contributions
    )
    # A one-sided bound at level L is the lower end of the two-sided interval at 2 L - 1.
    found = unit_interval(gains, units, level=2 * level - 1)
    deviations = units_of(units, len(gains)).sums(gains - found.value)
    spread = float(np.sqrt(np.square(deviations).mean()))
    varies = spread > 1e-12 * max(1.0, abs(found.value))  # noqa: PLR2004 - rounding
    skew = float((deviations**3).mean() / spread**3) if varies else None
    refusal = None
    if found.n_units < _MIN_BOUND:
        refusal = f"{found.n_units} units are too few for a bound."
    elif skew is not None and skew < 0:
        refusal = f"the gains are skewed to the left ({skew:.2f}), where the bound promises too much."
    lower = None if refusal else found.lo
    return Gain(found.value, lower, found.n_units, skew, refusal)


def split_level(level: float, look: int) -> float:
    """Level of the k-th look at one safety set: its error is the allowed one over k (k + 1).

    These errors sum to no more than the allowed one however many looks follow, so that the
    chance of ever promoting a policy without a gain stays within it.
    """
    return 1 - (1 - level) / (look * (look + 1))


def backtest_inputs(policy_id: str, safety_set: str, *, level: float, seed: int) -> str:
    """Identity of what a backtest is computed from; the same again is not a new look."""
    return content_hash(canonical_json([METHOD, policy_id, safety_set, level, seed]))


def reserve_of(log: DecisionLog) -> DecisionLog:
    """The rows of a log whose units are reserved.

    Raises:
        LogError: If there are none.
    """
    reserved = np.array([is_reserved(unit) for unit in log.column(schema.UNIT_ID)], np.bool_)
    if not reserved.any():
        raise LogError(
            f"{log.facts.source or 'log'}, {schema.UNIT_ID}",
            "no unit of the log is reserved.",
            "Pass the whole log, or `canopy log export --split reserve`.",
        )
    return log if reserved.all() else log.take(reserved)


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
