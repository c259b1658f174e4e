"""What every objective is handed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from policy.arrays import FloatArray
from policy.catalog import Catalog
from training.data.rows import TrainingRows
from training.data.tensors import ChoiceRows, choice_rows
from training.head import HeadShape


@dataclass(frozen=True)
class Problem:
    """A learning problem.

    Attributes:
        catalog: The plans.
        shape: Of the head to fit.
        train: Rows to learn from.
        validation: Rows of other units, to stop and choose by.
        train_features: Shape (n_train, d): encoded contexts.
        validation_features: Shape (n_validation, d).
        seed: Of everything random.
    """

    catalog: Catalog
    shape: HeadShape
    train: TrainingRows
    validation: TrainingRows
    train_features: FloatArray
    validation_features: FloatArray
    seed: int

    @cached_property
    def inside(self) -> ChoiceRows:
        """The training rows that left a choice."""
        return choice_rows(self.train, self.train_features)

    @cached_property
    def beyond(self) -> ChoiceRows:
        """The validation rows that left a choice."""
        return choice_rows(self.validation, self.validation_features)


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
