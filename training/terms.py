"""One objective on one problem, as a term of what is minimised; terms add up by their weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from torch import Tensor

from canopy.domain.evidence import Lineage
from policy.arrays import FloatArray
from training.data.blocks import ColumnOf, Window
from training.head import TorchFactoredHead
from training.likelihood import masked_log_softmax

STANDS_FOR: Final = "stands_for"
"""Column of how many decisions each row stands for, of mean 1."""


class Batch:
    """Some rows under a head; what several terms ask of it is computed once.

    Args:
        head: The head.
        window: Rows of which these are some.
        index: Shape (b,). Which.
    """

    def __init__(self, head: TorchFactoredHead, window: Window, index: Tensor) -> None:
        self.head = head
        self.is_training = window.is_training
        self._window = window
        self._index = index

    def column(self, name: str) -> Tensor:
        """Shape (b,). What a term asked of each row, see `Term.columns`."""
        return self._window.columns[name][self._index]

    @cached_property
    def position(self) -> Tensor:
        """Shape (b,). Which rows they are, among all."""
        return self._window.position[self._index]

    @cached_property
    def features(self) -> Tensor:
        """Shape (b, d)."""
        return self._window.features[self._index]

    @cached_property
    def feasible(self) -> Tensor:
        """Shape (b, n_plans) bool."""
        return self._window.feasible[self._index]

    @cached_property
    def action(self) -> Tensor:
        """Shape (b,). The logged plan."""
        return self._window.action[self._index]

    @cached_property
    def stands_for(self) -> Tensor:
        """Shape (b,). How many decisions each row stands for, of mean 1 over all rows."""
        return self.column(STANDS_FOR)

    @cached_property
    def scores(self) -> Tensor:
        """Shape (b, n_plans). The head's scores."""
        scored: Tensor = self.head(self.features)
        return scored

    @cached_property
    def log_policy(self) -> Tensor:
        """Shape (b, n_plans). Log-softmax of the scores over each row's feasible plans."""
        return masked_log_softmax(self.scores, self.feasible)

    @cached_property
    def taken_score(self) -> Tensor:
        """Shape (b,). Score of the logged plan; those of the others are not computed for it."""
        return self.head.taken(self.features, self.action)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What was expected of rows, and what came.

    Attributes:
        predicted: Shape (n,). In reward units.
        observed: Shape (n,).
        what: What was forecast, and on which rows.
    """

    predicted: FloatArray
    observed: FloatArray
    what: str


BatchLoss: TypeAlias = Callable[[Batch], Tensor]
"""Scalar to minimise on one batch: a mean over rows, so that minibatches average to the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A term of the loss.

    Attributes:
        name: Name of its objective.
        weight: What its loss is multiplied by.
        loss: Of a batch, of training or of validation rows.
        ess: Effective sample size of the rows as it counts them.
        columns: What it asks of each row beside `STANDS_FOR`, by a name that starts with its own.
        facts: Numbers worth reporting.
        forecast: Expectations against outcomes, from the head fitted; None where it expects
            nothing.
        start: Parameters to start from, where 0 will not do.
        lineage: What touched it beyond the log itself.
    """

    name: str
    weight: float
    loss: BatchLoss
    ess: float
    columns: Mapping[str, ColumnOf] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    forecast: Callable[[TorchFactoredHead], Forecast] | None = None
    start: Mapping[str, Tensor] | None = None
    lineage: Lineage = field(default_factory=Lineage)


def total_loss(terms: tuple[Term, ...], batch: Batch) -> Tensor:
    """The sum of all terms on a batch.

    Args:
        terms: What is minimised.
        batch: On which rows.
    """
    first, *others = (term.weight * term.loss(batch) for term in terms)
    return sum(others, start=first)
