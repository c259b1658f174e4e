"""What the preference loss may be told."""

from dataclasses import dataclass
from enum import StrEnum

from omegaconf import MISSING


class Reference(StrEnum):
    """What a policy's odds are compared with."""

    uniform = "uniform"
    """Every feasible plan alike: preferences speak of the policy itself."""
    logging = "logging"
    """A clone of the logging policy: preferences speak of the change to it."""


@dataclass
class PreferenceConfig:
    """Pairwise logistic loss on the verdicts of a Bradley-Terry artifact.

    Loss: -sum_ij C_ij log s(beta (log pi(i)/ref(i) - log pi(j)/ref(j))) / sum_ij C_ij, over the
    contexts in which both plans are feasible; C_ij is how often plan i beat plan j. It never meets
    the reward, and its judges enter the policy's lineage.

    Attributes:
        name: Name of the objective.
        weight: What its loss is multiplied by, beside others.
        path: Folder that `canopy judge fit` wrote; its items are plans of the catalog.
        beta: How much of the verdicts' log-odds a log-odds of the policy stands for.
        reference: What the policy's odds are compared with.
    """

    name: str = "preference"
    weight: float = 1.0
    path: str = MISSING
    beta: float = 1.0
    reference: Reference = Reference.uniform
