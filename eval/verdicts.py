"""What an evaluation says: one verdict per estimator, and what stands beside it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from eval.estimators.estimate import Status

Interval = tuple[float, float]


class IntervalKind(StrEnum):
    """Which interval a verdict carries."""

    UNIT_T = "unit-t"
    """Sandwich standard error by unit, t quantiles."""
    BOOTSTRAP = "bootstrap"
    """Percentiles of the estimator recomputed on resampled units."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one estimator says of the target policy.

    Attributes:
        estimator: Its short name.
        status: `ok` or `refused`.
        value: Value per decision, in reward units; None where refused.
        interval: Where the value lies at `level`; None where refused, for a model alone, or
            where there are too few units or too little weight for an honest one.
        level: Nominal coverage of the interval.
        n: Rows used.
        n_null_reward: Drawn rows left out because their reward is unmeasured.
        ess: Effective sample size of the raw weights, in rows; None for a model alone.
        mean_weight: Near 1 for a sound log; None for a model alone.
        max_weight: Largest weight; None for a model alone.
        unsupported_mass: Share of the target's probability on plans that are never logged; None
            where the distributions are not known whole.
        reason: Why it is refused, or what to know about it; None where there is nothing.
    """

    estimator: str
    status: Status
    value: float | None
    interval: Interval | None
    level: float
    n: int
    n_null_reward: int
    ess: float | None
    mean_weight: float | None
    max_weight: float | None
    unsupported_mass: float | None
    reason: str | None

    def document(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return _plain(asdict(self))


@dataclass(frozen=True, slots=True)
class IntervalDetail:
    """Both intervals of an estimator, and what they rest on.

    Attributes:
        estimator: Its short name.
        std_err: Standard error by unit, in reward units; None without an interval.
        unit_t: The t interval by unit; None under 30 units or 30 units' worth of weight, and
            for a model alone, whose error is not in its spread.
        bootstrap: The percentile interval; None likewise, or under 100 units.
        n_units: Units.
        unit_ess: Units' worth of weight; None for a model alone.
        n_resamples: Replicates of the bootstrap; None without one.
        n_undefined: Replicates without any weight; None without a bootstrap.
    """

    estimator: str
    std_err: float | None
    unit_t: Interval | None
    bootstrap: Interval | None
    n_units: int
    unit_ess: float | None
    n_resamples: int | None
    n_undefined: int | None

    def document(self) -> dict[str, Any]:
        """The intervals as plain values."""
        return _plain(asdict(self))


@dataclass(frozen=True, slots=True)
class Difference:
    """The target's value minus another policy's, paired row by row.

    Attributes:
        estimator: Estimator used for both.
        against: Name of the other policy.
        status: `ok`, or `refused` where either side is.
        value: Difference per decision, in reward units; None where refused.
        interval: Its t interval by unit; None as in a verdict.
        level: Nominal coverage.
        n: Rows used.
        n_units: Units.
        reason: Why it is refused, or what to know about it; None where there is nothing.
    """

    estimator: str
    against: str
    status: Status
    value: float | None
    interval: Interval | None
    level: float
    n: int
    n_units: int
    reason: str | None

    def document(self) -> dict[str, Any]:
        """The difference as plain values."""
        return _plain(asdict(self))


@dataclass(frozen=True, slots=True)
class Segment:
    """The verdicts on the rows that share one value of a column.

    Attributes:
        column: Name of the column.
        value: The value they share; None where the cell is empty.
        verdicts: One per estimator, over these rows alone.
    """

    column: str
    value: str | None
    verdicts: Sequence[Verdict]

    def document(self) -> dict[str, Any]:
        """The segment as plain values."""
        return {
            "column": self.column,
            "value": self.value,
            "verdicts": [verdict.document() for verdict in self.verdicts],
        }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }
