"""The arrays that estimators need, and the estimators by their short names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from eval.estimators import (
    Estimate,
    direct_method,
    doubly_robust,
    ips,
    self_normalized_dr,
    snips,
)
from eval.intervals.units import Units, units_of
from policy.arrays import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class Model:
    """A reward model's word on every row.

    Attributes:
        q_taken: Shape (n,). Reward of the plan taken.
        expected: Shape (n,). Reward under the target policy.
    """

    q_taken: FloatArray
    expected: FloatArray


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything that the estimators need of some rows under one target policy.

    Attributes:
        reward: Shape (n,), in reward units.
        weight: Shape (n,). Importance weights.
        units: Which unit each row belongs to.
        model: The reward model's word; or, in words, why there is none.
        keep_prob: Shape (n,). Probability that the row was kept; None where every row was.
        uncovered: Shape (n,). Target's probability on plans never logged; None if unknown.
        n_null_reward: Rows left out because their reward is unmeasured.
    """

    reward: FloatArray
    weight: FloatArray
    units: Units
    model: Model | str
    keep_prob: FloatArray | None = None
    uncovered: FloatArray | None = None
    n_null_reward: int = 0

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.reward)

    @property
    def unsupported_mass(self) -> float | None:
        """Mean over decisions of the uncovered probability, from 0 to 1; None if unknown."""
        if self.uncovered is None or not self.n:
            return None
        decisions = None if self.keep_prob is None else 1 / self.keep_prob
        return float(np.average(self.uncovered, weights=decisions))

    def take(self, rows: BoolArray, *, n_null_reward: int) -> "Sample":
        """Some of the rows.

        Args:
            rows: Shape (n,): True keeps the row.
            n_null_reward: Rows left out of these for want of a reward.
        """
        model = self.model
        if isinstance(model, Model):
            model = Model(model.q_taken[rows], model.expected[rows])
        return replace(
            self,
            reward=self.reward[rows],
            weight=self.weight[rows],
            units=units_of(self.units.codes[rows], int(rows.sum())),
            model=model,
            keep_prob=None if self.keep_prob is None else self.keep_prob[rows],
            uncovered=None if self.uncovered is None else self.uncovered[rows],
            n_null_reward=n_null_reward,
        )


def _dm(s: Sample, model: Model) -> Estimate:
    return direct_method(model.expected, keep_prob=s.keep_prob)


def _dr(s: Sample, model: Model) -> Estimate:
    return doubly_robust(s.reward, s.weight, model.q_taken, model.expected, keep_prob=s.keep_prob)


def _sndr(s: Sample, model: Model) -> Estimate:
    return self_normalized_dr(
        s.reward, s.weight, model.q_taken, model.expected, keep_prob=s.keep_prob
    )


_WEIGHTED: Final[Mapping[str, Callable[[Sample], Estimate]]] = {
    "ips": lambda s: ips(s.reward, s.weight, keep_prob=s.keep_prob),
    "snips": lambda s: snips(s.reward, s.weight, keep_prob=s.keep_prob),
}

_MODELLED: Final[Mapping[str, Callable[[Sample, Model], Estimate]]] = {
    "dm": _dm,
    "dr": _dr,
    "sndr": _sndr,
}

MODEL_ALONE: Final = "dm"
"""The estimator that uses no weights."""

NEEDS_MODEL: Final = tuple(_MODELLED)
"""Estimators that need a reward model."""

ESTIMATORS: Final = (*_WEIGHTED, *_MODELLED)
"""Short names of all estimators."""


def estimate(name: str, sample: Sample) -> Estimate | str:
    """One estimator's result; or, in words, why it cannot be computed.

    Args:
        name: One of `ESTIMATORS`.
        sample: The rows.
    """
    if name in _WEIGHTED:
        return _WEIGHTED[name](sample)
    if isinstance(sample.model, str):
        return sample.model
    return _MODELLED[name](sample, sample.model)
