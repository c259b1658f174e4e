"""Where reward predictions come from: the log's own columns, or a cross-fitted model."""

from collections.abc import Iterable

import numpy as np

from canopy.domain.errors import RangeError
from canopy.logs import schema
from eval.estimators import marginal_weight, unsupported_mass
from eval.intervals.units import units_of
from eval.opened_log import OpenedLog
from eval.reward_features import encode_context, encode_plans, plan_levels
from eval.reward_models import Predictions, RewardModelSpec, RewardRows, calibrate, cross_fit
from eval.sample import LevelWeights, Model, Sample
from eval.targets import TargetPolicy
from eval.usable_rows import UsableRows, column_of
from policy.catalog import Catalog

NO_PLANS = "the log does not say which plans there are: name them with --plans or --catalog."
NO_DISTRIBUTION = (
    "it needs the policy's whole distribution, and the log has its probability of the plan taken "
    "alone: log target_propensities, and propensities for the logging policy."
)


NO_BOTH_DISTRIBUTIONS = (
    "it needs the whole distributions of both policies: log propensities and target_propensities."
)


def predictions_of(
    opened: OpenedLog, rows: UsableRows, spec: RewardModelSpec | None
) -> Predictions | str:
    """Predict the reward of every plan on every row used.

    Args:
        opened: The log.
        rows: Its rows used.
        spec: The model to cross-fit; None takes the log's own predictions where it has them.

    Returns:
        Predictions; or, in words, why there are none.

    Raises:
        ConfigError: If the model asks for a factor that the catalog lacks.
        LogError: If it asks for a column that the log lacks.
        CatalogError: If the catalog lacks a plan of the log.
    """
    if not rows.n:
        return "no data: not one row with a propensity and a reward."
    if rows.plans is None or rows.action is None:
        return NO_PLANS
    if spec is None and rows.log.has(schema.Q_ALL):
        return _logged(rows)
    wanted = spec or RewardModelSpec()
    if rows.units.n_units < wanted.n_folds:
        return (
            f"no reward model: {rows.units.n_units} units cannot be split into "
            f"{wanted.n_folds} folds."
        )
    context = rows.log.context()
    group = None
    if wanted.reward_by is not None:
        cells = column_of(rows.log, wanted.reward_by, "--reward-by")
        group = units_of([str(cell) for cell in cells.tolist()], rows.n).codes
        context.pop(schema.context_key(wanted.reward_by), None)
    design = RewardRows(
        context=encode_context(context, rows.n),
        plans=encode_plans(rows.plans, opened.catalog, wanted.encode_plans, wanted.plan_factors),
        action=rows.action,
        reward=rows.reward,
        reward_range=rows.log.reward_range,
        units=rows.units,
        ts=rows.log.column(schema.TS),
        weight=None if rows.keep_prob is None else rows.decisions,
        group=group,
    )
    return cross_fit(design, wanted)


def sample_of(
    rows: UsableRows,
    target: TargetPolicy,
    predictions: Predictions | str,
    *,
    factors: Iterable[tuple[str, ...]] = (),
    catalog: Catalog | None = None,
) -> Sample:
    """The arrays that the estimators need under a target policy.

    Args:
        rows: The rows used.
        target: The policy.
        predictions: Rewards predicted; or, in words, why there are none.
        factors: Sets of factors whose levels are weighed instead of plans.
        catalog: The plans' catalog, which says their levels.

    Raises:
        ConfigError: If the catalog has no such factor.
    """
    model: Model | str
    if isinstance(predictions, str):
        # Both at once: whoever reads it should not come back for the second.
        is_bare = predictions == NO_PLANS and target.full is None
        model = f"{predictions[:-1]}; and {NO_DISTRIBUTION}" if is_bare else predictions
    elif target.full is None:
        model = NO_DISTRIBUTION
    else:
        # Plans without a prediction are infeasible and have probability 0: they must not make NaN.
        q = np.where(target.full > 0, predictions.q_all, 0.0)
        model = Model(predictions.q_taken, np.einsum("nk,nk->n", target.full, q))
    return Sample(
        reward=rows.reward,
        weight=target.weight(rows),
        units=rows.units,
        model=model,
        keep_prob=rows.keep_prob,
        uncovered=target.uncovered(rows),
        n_null_reward=rows.n_null_reward,
        reward_range=rows.log.reward_range,
        by_levels={chosen: _level_weights(rows, target, chosen, catalog) for chosen in factors},
    )


def _level_weights(
    rows: UsableRows, target: TargetPolicy, factors: tuple[str, ...], catalog: Catalog | None
) -> LevelWeights | str:
    if rows.plans is None or rows.action is None:
        return NO_PLANS
    if catalog is None:
        return "it needs the plans' factors: name the catalog with --catalog."
    if target.full is None or rows.logging is None:
        return NO_BOTH_DISTRIBUTIONS
    levels = plan_levels(rows.plans, catalog, factors, "--estimators")
    try:
        return LevelWeights(
            marginal_weight(
                target.full, rows.logging, levels, rows.action, keep_prob=rows.keep_prob
            ),
            unsupported_mass(target.full, rows.logging, levels),
        )
    except RangeError as error:
        return f"the policies' distributions do not fit: {error}"


def _logged(rows: UsableRows) -> Predictions | str:
    q_all = rows.log.matrix(schema.Q_ALL)
    if rows.log.has(schema.Q):
        q_taken = rows.log.column(schema.Q)
    else:
        taken = rows.at_taken(q_all)
        q_taken = np.full(rows.n, np.nan) if taken is None else taken
    if q_all is None or not np.isfinite(q_taken).all():
        return f"the log's column {schema.Q_ALL} lacks a prediction of a plan taken."
    return Predictions(
        q_all=q_all,
        q_taken=q_taken,
        calibration=calibrate(rows.reward, q_taken),
        source="the log's own predictions, taken on trust as not having seen these rows",
    )
