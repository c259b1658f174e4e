"""What the doubly robust gradient may be told."""

from dataclasses import dataclass
from enum import StrEnum


class Start(StrEnum):
    """Where the climb begins; it is not convex."""

    model = "model"
    """At the policy that a reward model prefers."""
    zero = "zero"
    """At the uniform policy."""


@dataclass
class DoublyRobustConfig:
    """Policy gradient on the doubly robust estimate.

    Loss: -mean(sum_F pi q + min(pi(a) / (p k), cap) (r - q(a))), with q cross-fitted: a model that
    saw a row's own reward would make the second part 0 and the whole the direct method in
    disguise. Where the weight is cut it is a constant. Unlike direct it needs propensities, and
    pays where the model is wrong.

    Attributes:
        name: Name of the objective.
        weight: What its loss is multiplied by, beside others.
        cap: Largest importance weight; 0 is the direct method on a policy.
        n_folds: Parts of the units for cross-fitting.
        model_pair_l2: Penalty on the pairs' context part in the reward models.
        start: Where the climb begins.
        start_scale: What the model's logits are multiplied by to be the policy's.
    """

    name: str = "doubly_robust"
    weight: float = 1.0
    cap: float = 10.0
    n_folds: int = 2
    model_pair_l2: float = 0.01
    start: Start = Start.model
    start_scale: float = 4.0
