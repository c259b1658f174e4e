"""What the direct method may be told."""

from dataclasses import dataclass


@dataclass
class DirectConfig:
    """A reward model on the head itself: a plan's score is the logit of its reward.

    Loss: logistic, of the reward of the plan taken, scaled to [0, 1] by the training rows'
    extremes. Convex. Unlike bc and awr it does not imitate anybody: what it prefers it may never
    have seen, and is as right as the model. Its shrinkage, the penalty on the pairs' context part,
    is chosen by the loss on validation units.

    Attributes:
        name: Name of the objective.
        weight: What its loss is multiplied by, beside others.
    """

    name: str = "direct"
    weight: float = 1.0
