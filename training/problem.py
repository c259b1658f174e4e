"""What every objective is handed, and what it hands back to the shared loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policy.arrays import FloatArray
from training.data.rows import TrainingRows
from training.head import HeadShape


@dataclass(frozen=True, slots=True)
class Problem:
    """A learning problem.

    Attributes:
        shape: Of the head to fit.
        train: Rows to learn from.
        validation: Rows of other units, to stop and choose by.
        train_features: Shape (n_train, d): encoded contexts.
        validation_features: Shape (n_validation, d).
        seed: Of everything random.
    """

    shape: HeadShape
    train: TrainingRows
    validation: TrainingRows
    train_features: FloatArray
    validation_features: FloatArray
    seed: int


@dataclass(frozen=True, slots=True)
class Weighting:
    """How much an objective lets each row count.

    Attributes:
        train: Shape (n_train,), at least 0.
        validation: Shape (n_validation,), at least 0.
        facts: Numbers worth reporting.
        forecast: Shape (n_train,): what was expected of each row before its outcome was seen, in
            reward units; None where the objective expects nothing.
    """

    train: FloatArray
    validation: FloatArray
    facts: Mapping[str, Any]
    forecast: FloatArray | None = None
