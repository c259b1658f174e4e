"""Target policies over a log: the probability each would have given to the plans."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from canopy.domain.errors import LogError, RangeError, ShapeMismatchError
from canopy.logs import schema
from eval.usable_rows import UsableRows
from policy.arrays import BoolArray, FloatArray
from policy.artifact import Artifact, load_artifact
from policy.selector import probabilities

COLUMNS: Final = "columns"
UNIFORM: Final = "uniform"
LOGGING: Final = "logging"
NAMED: Final = (UNIFORM, LOGGING, COLUMNS)

Target: TypeAlias = str | Path | Artifact | npt.NDArray[np.float64]
"""A name of `NAMED`, a policy artifact or its folder, or probabilities per row of the log."""


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """A target policy over the rows used.

    Attributes:
        name: What it is called in reports.
        taken: Shape (n,). Its probability of each plan taken.
        full: Shape (n, n_plans). Its distributions; None where only `taken` is known.
    """

    name: str
    taken: FloatArray
    full: FloatArray | None

    def weight(self, rows: UsableRows) -> FloatArray:
        """Importance weights, shape (n,): probability over propensity and keep probability."""
        weight = self.taken / rows.propensity
        return weight if rows.keep_prob is None else weight / rows.keep_prob

    def uncovered(self, rows: UsableRows) -> FloatArray | None:
        """Its probability on plans that the logging policy never takes.

        Returns:
            Shape (n,), from 0 to 1; None where either distribution is not known whole.
        """
        if self.full is None or rows.logging is None:
            return None
        # What is missing to 1 lies on plans that the log does not know at all.
        covered = np.where(rows.logging > 0, self.full, 0.0).sum(axis=1)
        return np.asarray(np.clip(1 - covered, 0.0, 1.0))


def target_policy(target: Target | None, rows: UsableRows) -> TargetPolicy:
    """Look a target policy up.

    Args:
        target: Which; None takes the log's own target columns.
        rows: The rows to evaluate on.

    Raises:
        LogError: If the log lacks what the target needs.
        ArtifactError: If a policy artifact is incomplete or altered.
        ShapeMismatchError: If probabilities are not one row per row of the log.
        RangeError: If probabilities are none.
    """
    if isinstance(target, np.ndarray):
        return _given(target, rows)
    if isinstance(target, Artifact):
        return _artifact(target, rows)
    if target is None or target == COLUMNS:
        return _columns(rows)
    if target == LOGGING:
        return TargetPolicy(LOGGING, rows.propensity, rows.logging)
    if target == UNIFORM:
        return _uniform(rows)
    return _artifact(load_artifact(target), rows)


def _columns(rows: UsableRows) -> TargetPolicy:
    full = rows.distribution(schema.TARGET_PROPENSITIES)
    if rows.log.has(schema.TARGET_PROPENSITY):
        return TargetPolicy(COLUMNS, rows.log.column(schema.TARGET_PROPENSITY), full)
    taken = rows.at_taken(full)
    if taken is None:
        raise LogError(
            f"columns {schema.TARGET_PROPENSITY}, {schema.TARGET_PROPENSITIES}",
            "the log names no policy to evaluate.",
            "Add one of them, or name a policy with --policy or --target.",
        )
    return TargetPolicy(COLUMNS, taken, full)


def _uniform(rows: UsableRows) -> TargetPolicy:
    _, feasible = _plans(rows, UNIFORM)
    full = feasible / feasible.sum(axis=1, keepdims=True)
    return _whole(UNIFORM, full, rows)


def _artifact(artifact: Artifact, rows: UsableRows) -> TargetPolicy:
    plans, feasible = _plans(rows, "policy")
    known = {plan: action for action, plan in enumerate(artifact.catalog.plan_ids)}
    here = np.array([i for i, plan in enumerate(plans) if plan in known], dtype=np.intp)
    there = np.array([known[plans[i]] for i in here], dtype=np.intp)
    mask = np.zeros((rows.n, artifact.catalog.n_plans), dtype=np.bool_)
    mask[:, there] = feasible[:, here]
    full = np.zeros((rows.n, len(plans)))
    # A row none of whose feasible plans the policy knows keeps no mass: it counts as unsupported.
    able = mask.any(axis=1)
    if able.any():
        columns: Mapping[str, Any] = {
            key: values[able] for key, values in rows.log.context().items()
        }
        served = probabilities(artifact, columns, mask=mask[able], n_rows=int(able.sum()))
        full[np.ix_(able, here)] = served[:, there]
    return _whole(artifact.policy_id[:12], full, rows)


def _given(target: FloatArray, rows: UsableRows) -> TargetPolicy:
    if target.shape[:1] != (rows.n_log,) or target.ndim > 2:  # noqa: PLR2004 - rows by plans
        raise ShapeMismatchError("target", target.shape, (rows.n_log,))
    values = target[rows.positions].astype(np.float64)
    for bad in np.argwhere(~((values >= 0) & (values <= 1))):
        row = int(rows.positions[bad[0]]) + 1
        raise RangeError("target", row, float(values[tuple(bad)]), "a probability from 0 to 1")
    if values.ndim == 1:
        return TargetPolicy("given", values, None)
    plans, feasible = _plans(rows, "target")
    if values.shape[1] != len(plans):
        raise ShapeMismatchError("target", target.shape, (rows.n_log, len(plans)))
    total = np.where(feasible, values, 0.0).sum(axis=1)
    for off in np.flatnonzero(np.abs(total - 1) > schema.SUM_TOLERANCE):
        row = int(rows.positions[off]) + 1
        raise RangeError("target", row, float(total[off]), "a sum of 1 over the feasible plans")
    return _whole("given", values, rows)


def _whole(name: str, full: FloatArray, rows: UsableRows) -> TargetPolicy:
    taken = rows.at_taken(full)
    # Plans are known here, so the plan taken is too.
    return TargetPolicy(name, np.zeros(rows.n) if taken is None else taken, full)


def _plans(rows: UsableRows, target: str) -> tuple[tuple[str, ...], BoolArray]:
    if rows.plans is None or rows.feasible is None:
        raise LogError(
            f"--target {target}", "the log does not say which plans there are.",
            "Name them with --plans or --catalog.",
        )  # fmt: skip
    return rows.plans, rows.feasible
