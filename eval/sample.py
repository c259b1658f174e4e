"""The arrays that estimators need, and the estimators applied to them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from eval.estimator_names import Named
from eval.estimators import (
    Estimate,
    clipped_ips,
    direct_method,
    doubly_robust,
    dr_shrinkage,
    ips,
    marginal_dr,
    marginalized_ips,
    self_normalized_dr,
    snips,
    sub_gaussian_ips,
    switch_dr,
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
class LevelWeights:
    """What weighing levels of some factors, instead of plans, comes to.

    Attributes:
        weight: Shape (n,). Importance weights of the levels taken.
        uncovered: Shape (n,). Target's probability on levels never logged.
    """

    weight: FloatArray
    uncovered: FloatArray


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
        reward_range: Least and greatest reward that can occur.
        by_levels: Weights by the factors asked for; or, in words, why there are none.
    """

    reward: FloatArray
    weight: FloatArray
    units: Units
    model: Model | str
    keep_prob: FloatArray | None = None
    uncovered: FloatArray | None = None
    n_null_reward: int = 0
    reward_range: tuple[float, float] = (0.0, 1.0)
    by_levels: Mapping[tuple[str, ...], LevelWeights | str] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.reward)

    @property
    def decisions(self) -> FloatArray:
        """Shape (n,). Decisions that each row stands for."""
        return np.ones(self.n) if self.keep_prob is None else 1 / self.keep_prob

    @property
    def unsupported_mass(self) -> float | None:
        """Mean over decisions of the uncovered probability, from 0 to 1; None if unknown."""
        if self.uncovered is None or not self.n:
            return None
        return float(np.average(self.uncovered, weights=self.decisions))

    def seen_by(self, named: Named) -> "Sample":
        """The sample with the weights that an estimator uses: of plans, or of levels."""
        levels = self.by_levels.get(named.factors)
        if not isinstance(levels, LevelWeights):
            return self
        return replace(self, weight=levels.weight, uncovered=levels.uncovered)

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
            by_levels={
                factors: LevelWeights(found.weight[rows], found.uncovered[rows])
                if isinstance(found, LevelWeights)
                else found
                for factors, found in self.by_levels.items()
            },
        )


def _clipped(s: Sample, cap: float) -> Estimate:
    lo, hi = s.reward_range
    return clipped_ips(s.reward, s.weight, cap, hi, reward_min=lo, keep_prob=s.keep_prob)


def _sub_gaussian(s: Sample, lam: float) -> Estimate:
    return sub_gaussian_ips(
        s.reward, s.weight, lam, reward_range=s.reward_range, keep_prob=s.keep_prob
    )


def _dm(s: Sample, model: Model, _: float) -> Estimate:
    return direct_method(model.expected, keep_prob=s.keep_prob)


def _dr(s: Sample, model: Model, _: float) -> Estimate:
    return doubly_robust(s.reward, s.weight, model.q_taken, model.expected, keep_prob=s.keep_prob)


def _sndr(s: Sample, model: Model, _: float) -> Estimate:
    return self_normalized_dr(
        s.reward, s.weight, model.q_taken, model.expected, keep_prob=s.keep_prob
    )


def _switch_dr(s: Sample, model: Model, tau: float) -> Estimate:
    return switch_dr(
        s.reward, s.weight, model.q_taken, model.expected, tau,
        reward_range=s.reward_range, keep_prob=s.keep_prob,
    )  # fmt: skip


def _dros(s: Sample, model: Model, lam: float) -> Estimate:
    return dr_shrinkage(
        s.reward, s.weight, model.q_taken, model.expected, lam,
        reward_range=s.reward_range, keep_prob=s.keep_prob,
    )  # fmt: skip


def _marginal_dr(s: Sample, model: Model, _: float) -> Estimate:
    return marginal_dr(s.reward, s.weight, model.q_taken, model.expected, keep_prob=s.keep_prob)


_WEIGHTED: Final[Mapping[str, Callable[[Sample, float], Estimate]]] = {
    "ips": lambda s, _: ips(s.reward, s.weight, keep_prob=s.keep_prob),
    "snips": lambda s, _: snips(s.reward, s.weight, keep_prob=s.keep_prob),
    "clipped": _clipped,
    "sub-gaussian": _sub_gaussian,
    "mips": lambda s, _: marginalized_ips(s.reward, s.weight, keep_prob=s.keep_prob),
}

_MODELLED: Final[Mapping[str, Callable[[Sample, Model, float], Estimate]]] = {
    "dm": _dm,
    "dr": _dr,
    "sndr": _sndr,
    "switch-dr": _switch_dr,
    "dros": _dros,
    "marginal-dr": _marginal_dr,
}


def estimate(named: Named, sample: Sample) -> Estimate | str:
    """One estimator's result; or, in words, why it cannot be computed.

    Args:
        named: Which.
        sample: The rows.
    """
    levels = sample.by_levels.get(named.factors, "")
    if named.factors and isinstance(levels, str):
        return levels
    seen = sample.seen_by(named)
    parameter = 0.0 if named.parameter is None else named.parameter
    if named.kind in _WEIGHTED:
        return _WEIGHTED[named.kind](seen, parameter)
    if isinstance(sample.model, str):
        return sample.model
    return _MODELLED[named.kind](seen, sample.model, parameter)
