"""What a log holds, in numbers one looks at before believing anything it says."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from canopy.domain.episode import EpisodeKind
from canopy.logs import schema
from canopy.logs.tabular import DecisionLog
from canopy.logs.weights import effective_sample_size


@dataclass(frozen=True, slots=True)
class LogStats:
    """A log in numbers.

    Attributes:
        n_rows: Decisions.
        n_units: Different units.
        first: Time of the first decision, ISO 8601 in UTC; None without rows.
        last: Time of the last one.
        kind: Where the episodes came from.
        n_not_drawn: Rows out of off-policy estimates.
        n_null_reward: Rows whose reward is unmeasured; they are no part of the mean.
        reward_mean: Mean of the measured rewards; None without one.
        propensity_min: Least propensity of a drawn plan; None without one.
        propensity_median: Median of them.
        propensity_declared: The propensities were declared, not logged.
        n_plans: Plans the log knows; None where it lists none.
        n_plans_taken: Plans taken at least once.
        plan_share: Share of rows by plan, the most frequent first.
        ess_uniform: Effective sample size for judging the uniform policy; None where the plans
            are not known.
        ess_target: Effective sample size for judging the policy in `target_propensity`; None
            without the column.
        policy_versions: Different versions of the logging policy.
    """

    n_rows: int
    n_units: int
    first: str | None
    last: str | None
    kind: EpisodeKind
    n_not_drawn: int
    n_null_reward: int
    reward_mean: float | None
    propensity_min: float | None
    propensity_median: float | None
    propensity_declared: bool
    n_plans: int | None
    n_plans_taken: int
    plan_share: dict[str, float]
    ess_uniform: float | None
    ess_target: float | None
    policy_versions: int


def log_stats(log: DecisionLog) -> LogStats:
    """The numbers of a log."""
    reward = log.column(schema.REWARD)
    propensity = log.column(schema.PROPENSITY)
    drawn = ~np.isnan(propensity)
    measured = ~np.isnan(reward)
    plans, counts = np.unique(log.column(schema.PLAN).astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    times = np.sort(log.column(schema.TS))
    versions = 0
    if log.has(schema.POLICY_VERSION):
        versions = len(set(log.column(schema.POLICY_VERSION).tolist()) - {None})
    return LogStats(
        n_rows=log.n_rows,
        n_units=len(set(log.column(schema.UNIT_ID).tolist())),
        first=f"{times[0]}Z" if len(times) else None,
        last=f"{times[-1]}Z" if len(times) else None,
        kind=log.kind,
        n_not_drawn=int((~drawn).sum()),
        n_null_reward=int((~measured).sum()),
        reward_mean=float(reward[measured].mean()) if measured.any() else None,
        propensity_min=float(propensity[drawn].min()) if drawn.any() else None,
        propensity_median=float(np.median(propensity[drawn])) if drawn.any() else None,
        propensity_declared=log.facts.propensity_declared,
        n_plans=None if log.plans is None else len(log.plans),
        n_plans_taken=len(plans),
        plan_share={str(plans[i]): float(counts[i] / log.n_rows) for i in order.tolist()},
        ess_uniform=_ess(log, _uniform(log)),
        ess_target=_ess(log, _target(log)),
        policy_versions=versions,
    )


def _uniform(log: DecisionLog) -> npt.NDArray[np.float64] | None:
    if log.plans is None:
        return None
    feasible = log.matrix(schema.FEASIBLE)
    if feasible is None:
        return np.full(log.n_rows, 1 / len(log.plans))
    n_feasible: npt.NDArray[np.float64] = feasible.sum(axis=1)
    return 1 / np.maximum(n_feasible, 1)


def _target(log: DecisionLog) -> npt.NDArray[np.float64] | None:
    return log.column(schema.TARGET_PROPENSITY) if log.has(schema.TARGET_PROPENSITY) else None


def _ess(log: DecisionLog, target: npt.NDArray[np.float64] | None) -> float | None:
    # Over the rows that an estimate would use.
    if target is None:
        return None
    weight = target / log.column(schema.PROPENSITY)
    if log.has(schema.KEEP_PROB):
        weight = weight / log.column(schema.KEEP_PROB)
    weight = weight[~np.isnan(weight) & ~np.isnan(log.column(schema.REWARD))]
    return effective_sample_size(weight) if weight.any() else None
