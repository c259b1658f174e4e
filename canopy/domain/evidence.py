"""Evidence about policies, and the one rule by which a gate reads it.

The rule is pure: the command line and the console decide alike over the same stored rows.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from canopy.domain.decision import Mode
from canopy.domain.errors import RangeError
from canopy.domain.ids import canonical_json, content_hash
from canopy.domain.margin import (
    Interval,
    Lineage,
    Margin,
    Tier,
    average,
    reserve_corpus,
    train_corpus,
)

__all__ = [
    "Evidence",
    "EvidenceStatus",
    "Fact",
    "FactBound",
    "FactValue",
    "Gate",
    "GateReport",
    "GateRequirement",
    "GateRow",
    "Interval",
    "Lineage",
    "Margin",
    "Tier",
    "average",
    "judge_gate",
    "reserve_corpus",
    "train_corpus",
]

CLOCK_TOLERANCE: Final = timedelta(minutes=5)
"""How far ahead the clock of the machine that found evidence may run."""


class EvidenceStatus(StrEnum):
    """Whether a tier could say anything at all."""

    OK = "ok"
    """Measured; whether it suffices is for a gate to say."""
    REFUSED = "refused"
    """Not usable, for the reasons given with it."""


FactValue = float | int | bool | str | None


@dataclass(frozen=True, slots=True)
class Fact:
    """One named measurement; None where it was looked for and could not be measured."""

    name: str
    value: FactValue

    def __post_init__(self) -> None:
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise RangeError(f"fact {self.name}", None, self.value, "a finite number, or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one tier found about one policy.

    Attributes:
        tier: Where it comes from.
        policy_id: The policy it is about.
        status: Whether the tier could say anything.
        margin: The gain; None where the tier measures none, or could not.
        facts: Named measurements, by name.
        reasons: Why it is refused, or what to know about it.
        lineage: Everything that touched it.
        inputs: Content hash of what it was computed from.
        created_at: When it was found first, aware.
        timings: Measurements of the clock; with `created_at` no part of its identity, since a
            repetition measures others.
    """

    tier: Tier
    policy_id: str
    status: EvidenceStatus
    margin: Margin | None
    facts: tuple[Fact, ...]
    reasons: tuple[str, ...]
    lineage: Lineage
    inputs: str
    created_at: datetime
    timings: tuple[Fact, ...] = ()

    def __post_init__(self) -> None:
        if self.margin is not None and self.margin.tier is not self.tier:
            raise TypeError(f"{self.tier} evidence cannot carry a {self.margin.tier} margin.")
        if self.created_at.tzinfo is None:
            raise TypeError("created_at must be an aware time.")
        # By name: a database keeps no order of keys.
        for field in ("facts", "timings"):
            ordered = sorted(getattr(self, field), key=lambda fact: fact.name)
            object.__setattr__(self, field, tuple(ordered))
        if self.status is EvidenceStatus.REFUSED and not self.reasons:
            raise TypeError("refused evidence must say why.")

    @property
    def evidence_id(self) -> str:
        """Content hash of everything but the clock: the same finding has the same id."""
        content = self.document()
        del content["timings"]
        return content_hash(canonical_json(content))

    def fact(self, name: str) -> FactValue:
        """A measurement by name; None where it is absent or was not measurable."""
        return next((fact.value for fact in self.facts if fact.name == name), None)

    def document(self) -> dict[str, Any]:
        """As JSON carries it, less `created_at`, which stands on the row."""
        return {
            "tier": self.tier.value,
            "policy_id": self.policy_id,
            "status": self.status.value,
            "margin": None if self.margin is None else self.margin.document(),
            "facts": {fact.name: fact.value for fact in self.facts},
            "reasons": list(self.reasons),
            "lineage": self.lineage.document(),
            "inputs": self.inputs,
            "timings": {fact.name: fact.value for fact in self.timings},
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any], created_at: datetime) -> "Evidence":
        """The evidence that `document` wrote."""
        margin = document["margin"]
        return cls(
            tier=Tier(document["tier"]),
            policy_id=document["policy_id"],
            status=EvidenceStatus(document["status"]),
            margin=None if margin is None else Margin.from_document(margin),
            facts=tuple(Fact(*item) for item in document["facts"].items()),
            reasons=tuple(document["reasons"]),
            lineage=Lineage.from_document(document["lineage"]),
            inputs=document["inputs"],
            created_at=created_at,
            timings=tuple(Fact(*item) for item in document["timings"].items()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FactBound:
    """A limit on one fact of a tier's evidence; a fact that was not measured fails it.

    Attributes:
        fact: Name of the fact.
        at_least: Least allowed value; None for no such limit.
        at_most: Greatest allowed value; None for no such limit.
        equals: The only allowed value; None for no such limit.
        remedy: What helps where it fails.
    """

    fact: str
    at_least: float | None = None
    at_most: float | None = None
    equals: FactValue = None
    remedy: str = ""

    @property
    def words(self) -> str:
        """The limit as a table shows it."""
        parts = [self.fact]
        if self.at_least is not None:
            parts.append(f"at least {self.at_least:g}")
        if self.at_most is not None:
            parts.append(f"at most {self.at_most:g}")
        if self.equals is not None:
            parts.append(f"is {self.equals}")
        return " ".join(parts)

    def holds(self, value: FactValue) -> bool:
        """True if the value was measured and keeps every limit."""
        if value is None:
            return False
        if self.equals is not None and value != self.equals:
            return False
        if self.at_least is None and self.at_most is None:
            return True
        if isinstance(value, str):
            return False
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequirement:
    """What a gate demands of one tier.

    Attributes:
        tier: The tier.
        max_age: How old its evidence may be.
        level: Least probability with which its bound must hold; None: no margin is demanded.
        allowed_loss: 0 for superiority (lower bound above 0); a positive amount, in reward
            units, for non-inferiority (lower bound above minus that amount).
        bounds: Limits on its facts.
    """

    tier: Tier
    max_age: timedelta
    level: float | None = None
    allowed_loss: float = 0.0
    bounds: tuple[FactBound, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a policy must show before a discipline may raise it to a mode."""

    mode: Mode
    requirements: tuple[GateRequirement, ...]


@dataclass(frozen=True, slots=True)
class GateRow:
    """One demand of a gate and what was found.

    Attributes:
        tier: The tier it is about.
        requirement: What is demanded, in words.
        found: What there is; None where nothing was found.
        passed: True if it suffices.
        reason: Why not, and what helps; empty if it passed.
    """

    tier: Tier
    requirement: str
    found: str | None
    passed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """A gate's verdict, row by row.

    Attributes:
        mode: The mode the gate guards.
        policy_id: The policy judged.
        rows: Every demand, tier by tier.
        evidence_ids: The evidence that was read, one per tier that had any.
    """

    mode: Mode
    policy_id: str
    rows: tuple[GateRow, ...]
    evidence_ids: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if every row passed; a gate that demands nothing passes nobody."""
        return bool(self.rows) and all(row.passed for row in self.rows)

    def document(self) -> dict[str, Any]:
        """As JSON carries it."""
        return {
            "mode": self.mode.value,
            "policy_id": self.policy_id,
            "passed": self.passed,
            "evidence_ids": list(self.evidence_ids),
            "rows": [
                {
                    "tier": row.tier.value,
                    "requirement": row.requirement,
                    "found": row.found,
                    "passed": row.passed,
                    "reason": row.reason,
                }
                for row in self.rows
            ],
        }


def judge_gate(
    gate: Gate,
    evidence: Sequence[Evidence],
    training_lineage: Lineage | None,
    policy: str,
    now: datetime,
    *,
    inputs: Mapping[Tier, str] | None = None,
) -> GateReport:
    """Decide whether a policy has shown what a gate demands.

    Of each tier the newest evidence about the policy decides: older evidence is superseded,
    so that a failure cannot be outvoted by an earlier success.

    Args:
        gate: The demands.
        evidence: Stored evidence, of any policy, in any order.
        training_lineage: What touched the policy's training; None where it is not known.
        policy: Id of the policy.
        now: The time of judgement, aware.
        inputs: By tier, the inputs that its evidence must have been computed from; a tier
            not named may rest on any.

    Returns:
        The verdict. Evidence of one tier never makes up for another's.
    """
    rows: list[GateRow] = []
    ids: list[str] = []
    for requirement in gate.requirements:
        own = [e for e in evidence if e.tier is requirement.tier and e.policy_id == policy]
        if not own:
            reason = f"none is stored: run `canopy policy evidence {policy[:12]}`."
            rows.append(GateRow(requirement.tier, "evidence", None, False, reason))
            continue
        newest = max(own, key=lambda e: (e.created_at, e.evidence_id))
        ids.append(newest.evidence_id)
        expected = (inputs or {}).get(requirement.tier)
        rows += _standing_rows(requirement, newest, expected, now)
        rows.append(_independence_row(newest, training_lineage))
        rows += _measured_rows(requirement, newest)
    return GateReport(mode=gate.mode, policy_id=policy, rows=tuple(rows), evidence_ids=tuple(ids))


def _standing_rows(
    requirement: GateRequirement, found: Evidence, expected: str | None, now: datetime
) -> Iterator[GateRow]:
    tier, usable = found.tier, found.status is EvidenceStatus.OK
    yield GateRow(
        tier, "evidence", f"{found.evidence_id[:12]} {found.status}", usable,
        "" if usable else " ".join(found.reasons),
    )  # fmt: skip
    age = now - found.created_at
    fresh = -CLOCK_TOLERANCE <= age <= requirement.max_age
    limit = requirement.max_age.total_seconds() / 86_400
    reason = "dated in the future: check the clocks." if age < timedelta() else "gather it anew."
    yield GateRow(
        tier, f"at most {limit:g} days old", f"{max(age, timedelta()).days} days", fresh,
        "" if fresh else reason,
    )  # fmt: skip
    if expected is not None:
        same = found.inputs == expected
        yield GateRow(
            tier, "of today's inputs", "the same" if same else "others", same,
            "" if same else "what it was computed from has changed since: gather it anew.",
        )  # fmt: skip


def _independence_row(found: Evidence, training: Lineage | None) -> GateRow:
    demand = "independent of training"
    if not training:
        reason = "the policy does not say what it was trained on: train it with `canopy-train`."
        return GateRow(found.tier, demand, None, False, reason)
    lineage = found.lineage if found.margin is None else found.lineage | found.margin.lineage
    if not lineage:
        reason = "the evidence does not say what touched it."
        return GateRow(found.tier, demand, None, False, reason)
    shared = lineage.overlap(training)
    reason = f"both were touched by {', '.join(shared)}." if shared else ""
    return GateRow(found.tier, demand, ", ".join(shared) or "no overlap", not shared, reason)


def _measured_rows(requirement: GateRequirement, found: Evidence) -> Iterator[GateRow]:
    if requirement.level is not None:
        yield _margin_row(requirement, requirement.level, found)
    for bound in requirement.bounds:
        value = found.fact(bound.fact)
        holds = bound.holds(value)
        shown = (
            f"{value:.6g}" if isinstance(value, float) else None if value is None else f"{value}"
        )
        reason = bound.remedy if value is not None else f"not measured. {bound.remedy}".strip()
        yield GateRow(found.tier, bound.words, shown, holds, "" if holds else reason)


def _margin_row(requirement: GateRequirement, level: float, found: Evidence) -> GateRow:
    # Written as "0", not "-0": the threshold of superiority.
    threshold = -requirement.allowed_loss if requirement.allowed_loss else 0.0
    kind = "non-inferiority" if requirement.allowed_loss else "superiority"
    demand = f"{kind}: lower bound of the gain above {threshold:g} at level {level:g}"
    margin = found.margin
    if margin is None or margin.interval.lower is None:
        return GateRow(found.tier, demand, None, False, "no lower bound could be given.")
    lower = margin.interval.lower
    shown = f"{lower:.6g} at {margin.interval.level:g}, estimate {margin.estimate:.6g}"
    if margin.interval.level < level:
        return GateRow(found.tier, demand, shown, False, "its level is lower than demanded.")
    cleared = lower > threshold
    reason = "" if cleared else "no gain is shown: gather more decisions, or train a better policy."
    return GateRow(found.tier, demand, shown, cleared, reason)
