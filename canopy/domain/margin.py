"""Margins: a number with the tier it came from and everything that touched it.

A number without its tier and lineage cannot be made here, and numbers of different tiers
cannot be mixed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import reduce
from typing import Any, Final, NamedTuple

from canopy.domain.errors import RangeError

TRAIN_PART: Final = "train:"
RESERVE_PART: Final = "reserve:"


class Tier(StrEnum):
    """Where evidence came from; tiers combine by AND and never by arithmetic."""

    VERIFIERS = "verifiers"
    """Golden contexts and structural checks of the artifact itself."""
    BACKTEST = "backtest"
    """Off-policy value on the reserved units of a log."""
    HISTORICAL = "historical"
    """Replay of past outcomes; no command of this version makes it."""
    CANARY = "canary"
    """A live two-arm comparison; no command of this version makes it."""


def train_corpus(log_hash: str) -> str:
    """Name, in a lineage, of the part of a log that training may read."""
    return TRAIN_PART + log_hash.removeprefix(TRAIN_PART)


def reserve_corpus(log_hash: str) -> str:
    """Name, in a lineage, of a log's reserved units."""
    return RESERVE_PART + log_hash.removeprefix(RESERVE_PART)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Everything that touched a thing.

    Attributes:
        judges: Families of models and people that judged.
        rubrics: Rubrics they judged by.
        corpora: Logs, as `train_corpus` and `reserve_corpus` name their parts; a bare content
            hash stands for the whole log and meets both parts.
        verifiers: Verifier programs.
        golden_sets: Golden sets, as discipline/version/part.
    """

    judges: frozenset[str] = frozenset()
    rubrics: frozenset[str] = frozenset()
    corpora: frozenset[str] = frozenset()
    verifiers: frozenset[str] = frozenset()
    golden_sets: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for field in fields(self):
            names = getattr(self, field.name)
            if isinstance(names, str):
                raise TypeError(f"lineage {field.name}: expected a set of names, got {names!r}.")
            object.__setattr__(self, field.name, frozenset(names))

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    def __or__(self, other: "Lineage") -> "Lineage":
        return Lineage(*(getattr(self, f.name) | getattr(other, f.name) for f in fields(self)))

    def overlap(self, other: "Lineage") -> tuple[str, ...]:
        """What both were touched by, each as kind and name; empty if they are independent."""
        shared = [
            f"{field.name}: {name}"
            for field in fields(self)
            for name in getattr(self, field.name) & getattr(other, field.name)
        ]
        for mine, its in ((self.corpora, other.corpora), (other.corpora, self.corpora)):
            shared += [
                f"corpora: {part}"
                for part in mine - its
                if part.removeprefix(TRAIN_PART).removeprefix(RESERVE_PART) in its
            ]
        return tuple(sorted(set(shared)))

    def document(self) -> dict[str, list[str]]:
        """As JSON carries it: sorted names by kind."""
        return {field.name: sorted(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_document(cls, document: Mapping[str, Iterable[str]]) -> "Lineage":
        """The lineage that `document` wrote; a kind not named is empty.

        Raises:
            TypeError: If a kind is not one of a lineage's.
        """
        return cls(**{kind: frozenset(names) for kind, names in document.items()})


class Interval(NamedTuple):
    """An interval that holds with probability `level`; one-sided where an end is None."""

    lower: float | None
    upper: float | None
    level: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Margin:
    """How much better a policy is, by one tier's own measure.

    Margins of one tier can be ordered, added, subtracted and averaged; the interval of a sum
    holds whatever the dependence, its level lowered accordingly. Across tiers all of this is
    a TypeError, equality included.

    Attributes:
        tier: Where it comes from.
        estimate: The gain, in reward units.
        interval: Where the true gain lies; a plain pair of ends is read as one of level .95.
        n: Independent units it rests on.
        lineage: Everything that touched it.
    """

    tier: Tier
    estimate: float
    interval: Interval
    n: int
    lineage: Lineage

    def __post_init__(self) -> None:
        if not isinstance(self.tier, str):
            raise TypeError(f"a margin needs its tier, got {self.tier!r}: name where it came from.")
        if not isinstance(self.lineage, Lineage):
            raise TypeError(f"a margin needs its lineage, got {self.lineage!r}: name what it saw.")
        object.__setattr__(self, "tier", Tier(self.tier))
        object.__setattr__(self, "interval", Interval(*self.interval))
        if not math.isfinite(self.estimate):
            raise RangeError("margin estimate", None, self.estimate, "a finite number")
        if self.n < 1:
            raise RangeError("margin n", None, self.n, "at least one unit")
        lower, upper, level = self.interval
        if not 0 <= level < 1:
            raise RangeError("margin level", None, level, "a probability in [0, 1)")
        for end in (lower, upper):
            if end is not None and not math.isfinite(end):
                raise RangeError("margin interval", None, end, "finite ends, None for an open one")
        if lower is not None and upper is not None and lower > upper:
            raise RangeError("margin interval", None, lower, f"a lower end of at most {upper}")

    def _same_tier(self, other: "Margin", verb: str) -> None:
        if self.tier is not other.tier:
            raise TypeError(
                f"cannot {verb} a {self.tier} margin and a {other.tier} margin: "
                "each tier is judged on its own; combine them in a gate."
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Margin):
            return NotImplemented
        self._same_tier(other, "compare")
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[Tier, float, Interval, int, Lineage]:
        return (self.tier, self.estimate, self.interval, self.n, self.lineage)

    def __lt__(self, other: "Margin") -> bool:
        self._check(other, "compare")
        return self.estimate < other.estimate

    def __le__(self, other: "Margin") -> bool:
        self._check(other, "compare")
        return self.estimate <= other.estimate

    def __gt__(self, other: "Margin") -> bool:
        self._check(other, "compare")
        return self.estimate > other.estimate

    def __ge__(self, other: "Margin") -> bool:
        self._check(other, "compare")
        return self.estimate >= other.estimate

    def __add__(self, other: "Margin") -> "Margin":
        self._check(other, "add")
        return self._combined(other, sign=1)

    def __sub__(self, other: "Margin") -> "Margin":
        self._check(other, "subtract")
        return self._combined(other, sign=-1)

    def __truediv__(self, parts: object) -> "Margin":
        if not isinstance(parts, int | float) or parts <= 0:
            raise TypeError(f"a margin is divided by a positive number, not by {parts!r}.")
        lower, upper, level = self.interval
        return Margin(
            tier=self.tier,
            estimate=self.estimate / parts,
            interval=Interval(
                None if lower is None else lower / parts,
                None if upper is None else upper / parts,
                level,
            ),
            n=self.n,
            lineage=self.lineage,
        )

    def _check(self, other: object, verb: str) -> None:
        if not isinstance(other, Margin):
            raise TypeError(
                f"cannot {verb} a {self.tier} margin and {other!r}, which has no tier and lineage."
            )
        self._same_tier(other, verb)

    def _combined(self, other: "Margin", *, sign: int) -> "Margin":
        ends = other.interval[:2] if sign > 0 else (other.interval.upper, other.interval.lower)
        lower, upper = (
            None if mine is None or its is None else mine + sign * its
            for mine, its in zip(self.interval[:2], ends, strict=True)
        )
        # Both hold together at least this often, whatever their dependence.
        level = max(0.0, self.interval.level + other.interval.level - 1)
        return Margin(
            tier=self.tier,
            estimate=self.estimate + sign * other.estimate,
            interval=Interval(lower, upper, level),
            n=min(self.n, other.n),
            lineage=self.lineage | other.lineage,
        )

    def document(self) -> dict[str, Any]:
        """As JSON carries it."""
        return {
            "tier": self.tier.value,
            "estimate": self.estimate,
            "interval": self.interval._asdict(),
            "n": self.n,
            "lineage": self.lineage.document(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Margin":
        """The margin that `document` wrote."""
        return cls(
            tier=Tier(document["tier"]),
            estimate=document["estimate"],
            interval=Interval(**document["interval"]),
            n=document["n"],
            lineage=Lineage.from_document(document["lineage"]),
        )


def average(margins: Sequence[Margin]) -> Margin:
    """The mean of margins of one tier; a TypeError across tiers.

    Raises:
        TypeError: If there are none, or two tiers among them.
    """
    if not margins:
        raise TypeError("an average needs at least one margin.")
    return reduce(Margin.__add__, margins) / len(margins)
