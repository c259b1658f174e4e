"""What advantage-weighted regression may be told."""

from dataclasses import dataclass
from enum import StrEnum


class AdvantageKind(StrEnum):
    """Where a decision's advantage comes from."""

    observed = "observed"
    """Its own reward, less the value expected in its context: plain AWR."""
    model = "model"
    """A cross-fitted reward model's prediction for the plan taken, less that value: less noise,
    and as wrong as the model."""


@dataclass
class AwrConfig:
    """Advantage-weighted regression, one step.

    Loss: -sum_i w_i log pi(a_i | x_i, F_i) / sum_i w_i, with w = exp(min(A / beta, ln cap)) and A
    the advantage standardised to (A - mean) / (sd + 1e-5). Unlike bc it prefers what went well;
    the logging policy's probabilities are not divided out.

    Attributes:
        name: Name of the objective.
        weight: What its loss is multiplied by, beside others.
        beta: Temperature of the weights: large is bc, small trusts the best rows alone.
        cap: Largest weight; the exponent is cut at its logarithm.
        advantage: Where the advantage comes from.
        baseline_l2: Ridge penalty of the baseline, per feature of unit scale.
        n_folds: Parts of the units for cross-fitting: no row's baseline or model saw its unit.
        model_pair_l2: Penalty on the pairs' context part in the reward model.
        least_ess_share: The run is refused where the weights' effective sample size is a
            smaller share of the rows: a handful of rows would be all that is imitated.
    """

    name: str = "awr"
    weight: float = 1.0
    beta: float = 0.25
    cap: float = 20.0
    advantage: AdvantageKind = AdvantageKind.observed
    baseline_l2: float = 1.0
    n_folds: int = 3
    model_pair_l2: float = 0.01
    least_ess_share: float = 0.05
