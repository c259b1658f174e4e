"""What importance-weighted classification may be told."""

from dataclasses import dataclass


@dataclass
class ImportanceWeightedConfig:
    """Cross-entropy with the logged plans, weighed by reward over propensity.

    Loss: -sum_i w_i log pi(a_i | x_i, F_i) / sum_i w_i, with w = min(r / (p k), cap) and r scaled
    to [0, 1] by the training rows' extremes. Convex. Unlike awr it divides the logging policy out,
    so that its taste is not learnt along; unlike direct it learns which plan is best and not what
    each is worth: strong where one plan is right and the others are not.

    Attributes:
        name: Name of the objective.
        weight: What its loss is multiplied by, beside others.
        cap: Largest weight of a row.
        least_ess: The run is refused where the weights' effective sample size is smaller: a
            handful of rows would be all that is imitated.
    """

    name: str = "importance_weighted"
    weight: float = 1.0
    cap: float = 100.0
    least_ess: float = 30.0
