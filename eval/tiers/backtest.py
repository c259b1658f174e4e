"""Backtest: what a policy would have gained over the logging policy, on reserved units."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import numpy as np

from canopy.domain.clock import now
from canopy.domain.episode import EpisodeKind
from canopy.domain.errors import LogError, RangeError
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
from canopy.logs.reserve import reserved_rows
from canopy.logs.tabular import DecisionLog
from eval.estimators.inverse_propensity import ips
from eval.evaluation import Evaluation
from eval.gates import (
    DISCIPLINE,
    ESTIMATORS_AGREE,
    MEAN_WEIGHT_ERRORS,
    UNIT_ESS,
    UNITS,
    UNSUPPORTED_MASS,
)
from eval.intervals.unit_t import unit_ess, unit_interval
from eval.looks import LOOK, SAFETY_SET, SKETCH, sketch_of, split_level
from eval.paired_gain import MIN_UNITS, Gain, paired_gain
from eval.report import evaluate
from eval.reward_models import RewardModelSpec
from eval.verdicts import Verdict
from policy.artifact import Artifact

METHOD: Final = "backtest/v1"
"""Name of the computation; a changed one is a new version and a new look."""

DEFAULT_LEVEL: Final = 0.95

_LEAST_LEVEL: Final = 0.5
_ROUNDING: Final = 1e-6

ESTIMATORS: Final = ("ips", "snips", "dr")
"""What stands beside the gain; SNIPS and DR must agree for a gate that asks for it."""


def backtest_inputs(
    policy_id: str, discipline: str, safety_set: str, *, level: float, seed: int
) -> str:
    """Identity of what a backtest is computed from; the same again is not a new look."""
    return content_hash(canonical_json([METHOD, policy_id, discipline, safety_set, level, seed]))


def reserve_of(log: DecisionLog) -> DecisionLog:
    """The rows of a log whose units are reserved.

    Raises:
        LogError: If there are none.
    """
    reserved = reserved_rows(log)
    if not reserved.any():
        raise LogError(
            f"{log.facts.source or 'log'}, {schema.UNIT_ID}",
            "no unit of the log is reserved.",
            "Pass the whole log, or `canopy log export --split reserve`.",
        )
    return log if reserved.all() else log.take(reserved)


def backtest(
    log: DecisionLog,
    artifact: Artifact,
    *,
    discipline: str | None = None,
    level: float = DEFAULT_LEVEL,
    seed: int = 0,
    look: int = 1,
    at: datetime | None = None,
) -> Evidence:
    """Measure a policy's gain over the logging policy on the reserved units of a log.

    Args:
        log: Any log; only rows of reserved units are read.
        artifact: The policy.
        discipline: The craft whose decisions the log holds, and the only one the evidence speaks
            of; None for that of the policy's catalog.
        level: Probability with which the bound must hold over all looks, from 0.5.
        seed: Of everything random.
        look: Which look at this safety set it is; see `split_level`.
        at: When, aware; None for now.

    Returns:
        The evidence; refused, with reasons, where the log cannot tell.

    Raises:
        LogError: If no unit is reserved, or the log does not say which plans there are.
        RangeError: If the level or the look is impossible.
    """
    if not _LEAST_LEVEL <= level < 1:
        raise RangeError("level", None, level, f"from {_LEAST_LEVEL} to below 1")
    if look < 1:
        raise RangeError("look", None, look, "counted from 1")
    reserve = reserve_of(log)
    safety_set = reserve.content_hash
    spent = split_level(level, look)
    found = evaluate(
        reserve,
        artifact,
        estimators=ESTIMATORS,
        # A model of the log's own may have seen training rows: one is fitted here.
        reward_model=RewardModelSpec(),
        level=level,
        seed=seed,
        # The bootstrap beside the t interval is not read here.
        n_resamples=2,
    )
    corpora = {reserve_corpus(safety_set), reserve_corpus(log.content_hash)}
    lineage = Lineage(corpora=frozenset(corpora))
    gain, support = _measured(reserve, found, spent)
    reasons = _refusals(found, gain, support)
    discipline = discipline or artifact.catalog.discipline
    facts = support | _described(reserve, found, gain)
    facts |= {DISCIPLINE: discipline, LOOK: look, SAFETY_SET: safety_set}
    return Evidence(
        tier=Tier.BACKTEST,
        policy_id=artifact.policy_id,
        status=EvidenceStatus.REFUSED if reasons else EvidenceStatus.OK,
        margin=None if reasons else _margin(gain, spent, lineage),
        facts=tuple(Fact(name, value) for name, value in facts.items()),
        reasons=tuple(reasons) or _notes(reserve, look),
        lineage=lineage,
        inputs=backtest_inputs(artifact.policy_id, discipline, safety_set, level=level, seed=seed),
        created_at=at or now(),
    )


def _margin(gain: Gain | None, level: float, lineage: Lineage) -> Margin | None:
    if gain is None or gain.lower is None:
        return None
    return Margin(
        tier=Tier.BACKTEST,
        estimate=gain.estimate,
        interval=Interval(gain.lower, None, level),
        n=gain.n_units,
        lineage=lineage,
    )


def _described(reserve: DecisionLog, found: Evaluation, gain: Gain | None) -> dict[str, FactValue]:
    """Facts for people: what was looked at, and how."""
    return {
        "bound": "one-sided t by unit, approximate",
        "method": METHOD,
        "log_kind": reserve.kind.value,
        "propensity_declared": reserve.facts.propensity_declared,
        "rows": found.log.n_rows,
        "rows_without_propensity": found.log.n_null_propensity,
        "rows_without_reward": found.log.n_null_reward,
        "gain": None if gain is None else gain.estimate,
        "gain_skew": None if gain is None else gain.skew,
        "logging_value": found.logging.value,
        SKETCH: " ".join(sketch_of(reserve)),
    }


def _measured(
    reserve: DecisionLog, found: Evaluation, level: float
) -> tuple[Gain | None, dict[str, FactValue]]:
    """The gain and the facts that gates set limits on; no gain without a usable row."""
    facts: dict[str, FactValue] = {UNITS: found.log.n_units}
    for verdict in found.verdicts:
        lower, upper = verdict.interval or (None, None)
        facts |= {
            verdict.estimator: verdict.value,
            f"{verdict.estimator}_lower": lower,
            f"{verdict.estimator}_upper": upper,
        }
    facts[UNSUPPORTED_MASS] = found.verdicts[0].unsupported_mass
    facts[ESTIMATORS_AGREE] = _agree(found.verdict("snips"), found.verdict("dr"))
    if not len(found.weight):
        return None, facts
    keep = None
    if reserve.has(schema.KEEP_PROB):
        keep = reserve.column(schema.KEEP_PROB)[found.positions]
    ones = np.ones(len(found.weight))
    mean = unit_interval(ips(ones, found.weight, keep_prob=keep).contributions, found.unit_codes)
    off = max(0.0, abs(mean.value - 1) - _ROUNDING)
    facts |= {
        UNIT_ESS: unit_ess(found.weight, found.unit_codes),
        "mean_weight": mean.value,
        MEAN_WEIGHT_ERRORS: 0.0 if not off else off / mean.std_err if mean.std_err else None,
        "max_weight": float(found.weight.max()),
    }
    gain = paired_gain(
        reserve.column(schema.REWARD)[found.positions],
        found.weight,
        found.unit_codes,
        level=level,
        reward_min=reserve.reward_range[0],
        keep_prob=keep,
    )
    return gain, facts


def _agree(one: Verdict, other: Verdict) -> bool | None:
    """True if each value lies within the other's interval; None where one has none."""
    if one.value is None or other.value is None or not (one.interval and other.interval):
        return None
    return (
        one.interval[0] <= other.value <= one.interval[1]
        and other.interval[0] <= one.value <= other.interval[1]
    )


def _refusals(found: Evaluation, gain: Gain | None, facts: Mapping[str, FactValue]) -> list[str]:
    """Why the log cannot tell; empty where it can."""
    if gain is None:
        return ["no reserved row has both a propensity and a reward."]
    reasons = [v.reason for v in found.verdicts if v.status == "refused" and v.reason]
    ess = facts[UNIT_ESS]
    if isinstance(ess, float) and ess < MIN_UNITS:
        reasons.append(f"the weights are worth {ess:.1f} units, too few for a bound.")
    if gain.refusal:
        reasons.append(gain.refusal)
    return list(dict.fromkeys(reasons))


def _notes(reserve: DecisionLog, look: int) -> tuple[str, ...]:
    notes = []
    if reserve.kind is EpisodeKind.SYNTHETIC:
        notes.append("measured on synthetic episodes.")
    if reserve.facts.propensity_declared:
        notes.append("the propensities were declared, not logged.")
    if look > 1:
        notes.append(f"look {look} at this safety set: its bound is the stricter for it.")
    return tuple(notes)
