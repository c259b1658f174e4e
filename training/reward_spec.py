"""What a policy is trained on: a blend of named components, each measured or left out.

A component that was not measured on a row stays out of that row's blend; it is never a zero. A
rubric's dimension counts only while its clearance stands.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from canopy.domain.clearance import DimensionClearance, parse_clearances, standing_clearance
from canopy.domain.errors import ConfigError, InputError, LogError, TrainingRefusedError
from canopy.domain.evidence import Lineage
from canopy.logs import schema
from canopy.logs.tabular import DecisionLog
from policy.arrays import FloatArray, IntArray
from training.config import ComponentConfig, RewardConfig

KINDS: Final = ("reward", "settlement", "performance", "scorer", "gate", "rubric", "verifier")
"""What a component may be; all but the first three are followed by a name: `scorer:clarity`."""

_ALONE: Final = frozenset(KINDS[:3])
_SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True)
class ComponentFacts:
    """What became of one component.

    Attributes:
        name: Its name, as in the specification.
        weight: Its share of a blend in which all components are measured; 0 where it is left out.
        share_measured: Share of the log's rows on which it was measured.
        left_out: Why it has no weight; None where it has.
    """

    name: str
    weight: float
    share_measured: float
    left_out: str | None


@dataclass(frozen=True, slots=True)
class Reward:
    """A log's rewards by a specification.

    Attributes:
        values: Shape (n,). NaN where no component was measured.
        components: What became of each.
        lineage: Judges, rubrics, golden sets and verifiers that the rewards are made of.
    """

    values: FloatArray
    components: tuple[ComponentFacts, ...]
    lineage: Lineage

    def document(self) -> list[dict[str, Any]]:
        """The components as JSON carries them."""
        return [
            {
                "component": one.name,
                "weight": one.weight,
                "share_measured": one.share_measured,
                "left_out": one.left_out,
            }
            for one in self.components
        ]


def reward_of(
    log: DecisionLog, config: RewardConfig, discipline: str, *, numbers: IntArray | None = None
) -> Reward:
    """The rewards of a log.

    A single component stays in its own units; several are scaled to [0, 1] by their ranges and
    averaged by their weights, row by row over what was measured there.

    Args:
        log: The log.
        config: The specification; without components it is the log's own reward.
        discipline: Whose rubric dimensions are meant.
        numbers: Shape (n,). What errors call its rows; None for their places, from 1.

    Raises:
        ConfigError: If a component is unknown, or its weight or range is none.
        LogError: If the log lacks a component's column, or a value lies beyond its range.
        InputError: If the clearances cannot be read.
        TrainingRefusedError: If no component may count.
    """
    components = config.components or {schema.REWARD: ComponentConfig()}
    for name, component in components.items():
        _check(name, component)
    rows = _clearances(config)
    measured = {name: _column(log, name, c) for name, c in components.items()}
    verdicts = {
        name: _objection(name, component, rows, discipline)
        for name, component in components.items()
    }
    counted = {n: c for n, c in components.items() if verdicts[n].left_out is None}
    if not counted:
        told = "; ".join(f"{name}: {found.left_out}" for name, found in verdicts.items())
        raise TrainingRefusedError(
            "reward.components", f"leave nothing to train on: {told}.",
            "Clear a dimension with `canopy judge agreement --record`, or add a component.",
        )  # fmt: skip
    if len(counted) == 1:
        values = next(measured[name] for name in counted)
    else:
        called = np.arange(1, log.n_rows + 1) if numbers is None else numbers
        values = _blended(log, counted, measured, called)
    total = sum(component.weight for component in counted.values())
    lineage = Lineage()
    for name in counted:
        lineage |= verdicts[name].lineage
    facts = tuple(
        ComponentFacts(
            name=name,
            weight=component.weight / total if name in counted else 0.0,
            share_measured=float(np.mean(~np.isnan(measured[name]))) if log.n_rows else 0.0,
            left_out=verdicts[name].left_out,
        )
        for name, component in components.items()
    )
    return Reward(values, facts, lineage)


def merged(rewards: Sequence[Reward], n_rows: Sequence[int]) -> Reward:
    """What became of the components over all parts of a log; the values stay with the parts.

    Args:
        rewards: Of each part, by one specification.
        n_rows: Rows of each part that are not reserved.
    """
    first = rewards[0]
    total = max(1, sum(n_rows))
    shares = [
        sum(r.components[k].share_measured * n for r, n in zip(rewards, n_rows, strict=True))
        for k in range(len(first.components))
    ]
    components = tuple(
        replace(facts, share_measured=share / total)
        for facts, share in zip(first.components, shares, strict=True)
    )
    return Reward(np.empty(0), components, first.lineage)


@dataclass(frozen=True, slots=True)
class _Verdict:
    left_out: str | None
    lineage: Lineage


def _check(name: str, component: ComponentConfig) -> None:
    """Refuse what no log can make sense of.

    Raises:
        ConfigError: Naming the key.
    """
    place = f"reward.components.{name}"
    kind, _, rest = name.partition(":")
    if kind == "bt":
        raise ConfigError(
            place,
            "is no part of a blend.",
            "Preferences are a term of their own: objective=preference.",
        )
    if kind not in KINDS or (kind in _ALONE) is bool(rest):
        raise ConfigError(
            place, "is no component.",
            f"Write one of {', '.join(k if k in _ALONE else f'{k}:NAME' for k in KINDS)}.",
        )  # fmt: skip
    if not 0 < component.weight < math.inf:
        raise ConfigError(
            f"{place}.weight", f"expected a positive number, got {component.weight}.",
            "Leave out a component that shall not count.",
        )  # fmt: skip
    column = component.column
    if column is not None and not column.startswith((schema.COMPONENT_PREFIX, schema.REWARD)):
        raise ConfigError(
            f"{place}.column", f"{column!r} is no column of rewards.",
            f"Components stand in columns that start with {schema.COMPONENT_PREFIX}.",
        )  # fmt: skip
    low, high = component.low, component.high
    if (low is None) is not (high is None) or (
        low is not None and high is not None and not -math.inf < low < high < math.inf
    ):
        raise ConfigError(
            place, f"has the range {low} to {high}.", "Give low and high, low under high."
        )
    if kind == "rubric" and not (component.judge and component.rubric):
        raise ConfigError(
            place, "does not say whose verdicts it holds.", "Give its judge and its rubric."
        )


def _clearances(config: RewardConfig) -> tuple[DimensionClearance, ...]:
    """What was recorded of judges.

    Raises:
        InputError: If the file cannot be read.
    """
    if config.clearances is None:
        return ()
    path = Path(config.clearances)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"reward.clearances {path}", f"cannot be read: {error.strerror}.",
            "Name the file that `canopy judge agreement --record` writes.",
        ) from error  # fmt: skip
    return parse_clearances(text, str(path))


def _objection(
    name: str,
    component: ComponentConfig,
    rows: tuple[DimensionClearance, ...],
    discipline: str,
) -> _Verdict:
    """Why a component has no weight, or what it brings into the lineage."""
    kind, _, rest = name.partition(":")
    if kind == "verifier":
        return _Verdict(None, Lineage(verifiers=frozenset({rest})))
    if kind != "rubric" or component.rubric is None or component.judge is None:
        return _Verdict(None, Lineage())
    row = standing_clearance(
        rows, discipline=discipline, dimension=rest, rubric=component.rubric, judge=component.judge
    )
    if row is None:
        return _Verdict("no clearance is recorded", Lineage())
    if not row.is_cleared:
        return _Verdict(f"its judge is not cleared ({row.reason})", Lineage())
    lineage = Lineage(
        judges=frozenset({row.family}),
        rubrics=frozenset({f"{row.rubric}/{row.dimension}"}),
        golden_sets=frozenset({row.golden_set}),
    )
    return _Verdict(None, lineage)


def _column(log: DecisionLog, name: str, component: ComponentConfig) -> FloatArray:
    """A component as the log has it, NaN where it was not measured.

    Raises:
        LogError: If the log lacks the column.
    """
    column = _column_of(name, component)
    if not log.has(column):
        raise LogError(
            f"column {column}", f"the log has none, reward.components.{name} reads it.",
            "Name the column that holds it, or leave the component out.",
        )  # fmt: skip
    values: FloatArray = log.column(column)
    return values


def _column_of(name: str, component: ComponentConfig) -> str:
    if component.column is not None:
        return component.column
    return name if name == schema.REWARD else schema.COMPONENT_PREFIX + name


def _blended(
    log: DecisionLog,
    counted: Mapping[str, ComponentConfig],
    measured: Mapping[str, FloatArray],
    numbers: IntArray,
) -> FloatArray:
    total, weight = np.zeros(log.n_rows), np.zeros(log.n_rows)
    for name, component in counted.items():
        low, high = component.low, component.high
        if low is None or high is None:
            low, high = log.reward_range if name == schema.REWARD else (0.0, 1.0)
        values = measured[name]
        beyond = (values < low - _SLACK) | (values > high + _SLACK)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise LogError(
                f"row {numbers[row]}, column {_column_of(name, component)}",
                f"{values[row]:g} lies beyond {low:g} to {high:g}.",
                f"Correct it, or the range of reward.components.{name}.",
            )
        known = ~np.isnan(values)
        total[known] += component.weight * (values[known] - low) / (high - low)
        weight[known] += component.weight
    with np.errstate(invalid="ignore"):
        return np.asarray(total / weight)
