"""Cross-fitted reward models: no row is predicted by a model that saw its unit.

One linear model (logistic for rewards of 0 and 1, else ridge) per fold, and per value of a context
column where one is named. Context and plan enter as themselves and, where that is not too much,
as products, so that a model can tell which plan suits which context. Predictions for all plans are
an outer sum and a product of matrices: no row-by-plan design is ever built.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike
from scipy.special import expit

from eval.estimators.checks import numbers
from eval.intervals.units import Units
from eval.reward_features import PlanEncoding
from policy.arrays import BoolArray, FloatArray, IntArray

N_FOLDS: Final = 3
FOLD_SEED: Final = 12345
_MAX_ITER: Final = 1000
_N_BINS: Final = 10
_MAX_PRODUCTS: Final = 600
"""Context-by-plan products that a model takes on without being told."""


@dataclass(frozen=True, slots=True)
class RewardModelSpec:
    """Which reward model to fit.

    Attributes:
        reward_by: Context column, with or without its prefix, each of whose values gets a model
            of its own; None fits one model.
        encode_plans: How plans become numbers.
        plan_factors: Factors of the catalog to use, in order; None takes all.
        products: Whether context-by-plan products enter; None lets them in where plans are encoded
            one-hot and the products are at most 600.
        n_folds: Parts the units are split into.
        seed: Of the split.
        inverse_penalty: Inverse strength of the L2 penalty of the logistic model, and inverse of
            the ridge model's.
    """

    reward_by: str | None = None
    encode_plans: PlanEncoding | str = PlanEncoding.ONE_HOT
    plan_factors: tuple[str, ...] | None = None
    products: bool | None = None
    n_folds: int = N_FOLDS
    seed: int = FOLD_SEED
    inverse_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Rows whose predictions lie side by side.

    Attributes:
        n: Rows.
        predicted: Mean prediction, in reward units.
        observed: Mean reward.
    """

    n: int
    predicted: float
    observed: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far predictions of the plans taken are from what came.

    Attributes:
        n: Rows.
        mean_predicted: In reward units.
        mean_observed: In reward units.
        error: Mean distance of predicted and observed over the bins, weighted by their rows.
        bins: From the lowest predictions to the highest, of about equal size.
    """

    n: int
    mean_predicted: float
    mean_observed: float
    error: float
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a reward model says of every row.

    Attributes:
        q_all: Shape (n, n_plans), in reward units; NaN where a plan has no prediction.
        q_taken: Shape (n,). Of the plan taken.
        calibration: Predictions of plans taken against rewards.
        source: Where the predictions come from, in words.
        n_constant: Models that predict a constant, their rewards being all alike.
        n_unconverged: Fits that ran out of iterations.
    """

    q_all: FloatArray
    q_taken: FloatArray
    calibration: Calibration
    source: str
    n_constant: int = 0
    n_unconverged: int = 0


@dataclass(frozen=True, slots=True)
class RewardRows:
    """Rows to learn rewards from.

    Attributes:
        context: Shape (n, d). Encoded contexts.
        plans: Shape (n_plans, p). Encoded plans.
        action: Shape (n,). Index of the plan taken.
        reward: Shape (n,).
        reward_range: Least and greatest reward that can occur; predictions stay within.
        units: Which unit each row belongs to.
        ts: Shape (n,). When each decision was made; sets the order in which units are split.
        weight: Shape (n,). Decisions each row stands for; None for one each.
        group: Shape (n,). Code of the model each row belongs to; None for one model.
    """

    context: FloatArray
    plans: FloatArray
    action: IntArray
    reward: FloatArray
    reward_range: tuple[float, float]
    units: Units
    ts: npt.NDArray[Any]
    weight: FloatArray | None = None
    group: IntArray | None = None


@dataclass(frozen=True, slots=True)
class _Model:
    """A fitted linear model, or a constant where `context` is None."""

    constant: float
    context: FloatArray | None
    plans: FloatArray | None
    is_logistic: bool
    products: FloatArray | None = None
    converged: bool = True

    def predict(self, context: FloatArray, plans: FloatArray) -> FloatArray:
        """Predictions of shape (rows, n_plans)."""
        if self.context is None or self.plans is None:
            return np.full((len(context), len(plans)), self.constant)
        linear = (context @ self.context + self.constant)[:, None] + plans @ self.plans
        if self.products is not None:
            linear = linear + context @ self.products @ plans.T
        if not self.is_logistic:
            return np.asarray(linear)
        return np.asarray(expit(linear), dtype=np.float64)


def cross_fit(rows: RewardRows, spec: RewardModelSpec) -> Predictions:
    """Predict every row's rewards by models that saw no row of its unit.

    Args:
        rows: At least as many units as folds.
        spec: Which model.

    Returns:
        Predictions within the reward range for all plans and rows.
    """
    lo, hi = rows.reward_range
    fold = _folds(rows, spec)
    group = np.zeros(len(rows.reward), dtype=np.intp) if rows.group is None else rows.group
    q_all = np.empty((len(rows.reward), len(rows.plans)))
    is_logistic = bool(np.isin(rows.reward, (0.0, 1.0)).all())
    n_constant = n_unconverged = 0
    for k in range(spec.n_folds):
        for g in np.unique(group[fold == k]):
            model = _fit(rows, fold != k, group == g, spec, is_logistic=is_logistic)
            n_constant += model.context is None
            n_unconverged += not model.converged
            held_out = (fold == k) & (group == g)
            q_all[held_out] = model.predict(rows.context[held_out], rows.plans)
    np.clip(q_all, lo, hi, out=q_all)
    q_taken = q_all[np.arange(len(q_all)), rows.action]
    kind = "logistic regression" if is_logistic else "ridge regression"
    if takes_products(spec, rows.context.shape[1], rows.plans.shape[1]):
        kind += " with context-by-plan products"
    by = "" if spec.reward_by is None else f", one per value of {spec.reward_by}"
    return Predictions(
        q_all=q_all,
        q_taken=q_taken,
        calibration=calibrate(rows.reward, q_taken),
        source=f"{kind}{by}, {spec.n_folds} folds by unit",
        n_constant=n_constant,
        n_unconverged=n_unconverged,
    )


def calibrate(reward: ArrayLike, predicted: ArrayLike) -> Calibration:
    """Compare predictions with rewards, in bins of about equal size.

    Args:
        reward: Shape (n,), n at least 1.
        predicted: Shape (n,).

    Raises:
        ShapeMismatchError: If the arrays differ in shape.
        RangeError: If a number is not finite.
    """
    r = numbers("reward", reward)
    q = numbers("predicted", predicted, len(r))
    order = np.argsort(q, kind="stable")
    bins = tuple(
        CalibrationBin(len(part), float(q[part].mean()), float(r[part].mean()))
        for part in np.array_split(order, min(_N_BINS, len(r)))
    )
    error = sum(b.n * abs(b.predicted - b.observed) for b in bins) / len(r)
    return Calibration(len(r), float(q.mean()), float(r.mean()), error, bins)


def _folds(rows: RewardRows, spec: RewardModelSpec) -> IntArray:
    from sklearn.model_selection import KFold

    # Units are numbered by when they first appear, so that the split depends on the decisions
    # and not on the order of the file.
    codes = rows.units.codes
    in_time = codes[np.argsort(rows.ts, kind="stable")]
    _, first = np.unique(in_time, return_index=True)
    by_appearance = in_time[np.sort(first)]
    fold_of_unit = np.empty(rows.units.n_units, dtype=np.intp)
    splitter = KFold(spec.n_folds, shuffle=True, random_state=spec.seed)
    for k, (_, held_out) in enumerate(splitter.split(by_appearance)):
        fold_of_unit[by_appearance[held_out]] = k
    return np.asarray(fold_of_unit[codes])


def _fit(
    rows: RewardRows,
    seen: BoolArray,
    in_group: BoolArray,
    spec: RewardModelSpec,
    *,
    is_logistic: bool,
) -> _Model:
    # A value of the context that only held-out rows have borrows the mean of the others.
    train = np.flatnonzero(seen & in_group)
    pooled = train if train.size else np.flatnonzero(seen)
    reward = rows.reward[pooled]
    weight = None if rows.weight is None else rows.weight[pooled]
    if not train.size or np.ptp(reward) == 0:
        return _Model(float(np.average(reward, weights=weight)), None, None, is_logistic)
    context, plans = rows.context[train], rows.plans[rows.action[train]]
    parts = [context, plans]
    d, p = context.shape[1], plans.shape[1]
    with_products = takes_products(spec, d, p)
    if with_products:
        parts.append((context[:, :, None] * plans[:, None, :]).reshape(len(train), d * p))
    design = np.hstack(parts)
    if not design.shape[1]:
        return _Model(float(np.average(reward, weights=weight)), None, None, is_logistic)
    coefficients, constant, converged = _regress(
        design, reward, weight, spec, is_logistic=is_logistic
    )
    products = coefficients[d + p :].reshape(d, p) if with_products else None
    return _Model(
        constant, coefficients[:d], coefficients[d : d + p], is_logistic, products, converged
    )


def takes_products(spec: RewardModelSpec, n_context: int, n_plan: int) -> bool:
    """Whether a model of this many context and plan features has their products."""
    if spec.products is not None:
        return spec.products
    return spec.encode_plans == PlanEncoding.ONE_HOT and n_context * n_plan <= _MAX_PRODUCTS


def _regress(
    design: FloatArray,
    reward: FloatArray,
    weight: FloatArray | None,
    spec: RewardModelSpec,
    *,
    is_logistic: bool,
) -> tuple[FloatArray, float, bool]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge

    if is_logistic:
        model: Any = LogisticRegression(C=spec.inverse_penalty, max_iter=_MAX_ITER)
    else:
        model = Ridge(alpha=1 / spec.inverse_penalty)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(design, reward, sample_weight=weight)
    converged = not any(issubclass(w.category, ConvergenceWarning) for w in raised)
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]), converged
