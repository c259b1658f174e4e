"""What behaviour cloning may be told."""

from dataclasses import dataclass


@dataclass
class BcConfig:
    """Behaviour cloning: every logged decision counts the same.

    Loss: -sum_i k_i log pi(a_i | x_i, F_i) / sum_i k_i, with k_i = 1 / keep probability. Unlike
    awr it never reads the reward.

    Attributes:
        name: Name of the objective.
        weight: What its loss is multiplied by, beside others.
    """

    name: str = "bc"
    weight: float = 1.0
