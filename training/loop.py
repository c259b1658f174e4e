"""The minibatch loop that every fit here shares: Adam, a cosine schedule, the best state kept."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch import Tensor

from training.config import OptimConfig
from training.head import TorchFactoredHead
from training.progress import Tick

LossOf: TypeAlias = Callable[[TorchFactoredHead, Tensor], Tensor]
"""Mean loss of some rows, by index, under a head."""

_FEWEST: Final = 15
_MOST: Final = 60
_ROWS_SEEN: Final = 262_500
"""Rows visited in all where the number of passes is left open."""


@dataclass(frozen=True, slots=True)
class Curve:
    """How a fit went.

    Attributes:
        train: Mean training loss of each pass, penalty included.
        validation: Validation loss after each pass, without penalty.
        best: Position of the pass whose parameters were kept.
    """

    train: tuple[float, ...]
    validation: tuple[float, ...]
    best: int

    @property
    def least(self) -> float:
        """The validation loss of the parameters that were kept."""
        return self.validation[self.best]


def planned_epochs(n_rows: int, config: OptimConfig) -> int:
    """Passes over the rows: as configured, else more for smaller logs."""
    if config.epochs is not None:
        return config.epochs
    return max(_FEWEST, min(_MOST, _ROWS_SEEN // max(1, n_rows)))


def fit(
    head: TorchFactoredHead,
    loss_of: LossOf,
    validation_loss: Callable[[TorchFactoredHead], Tensor],
    *,
    n_rows: int,
    penalties: tuple[float, float],
    config: OptimConfig,
    seed: int,
    tick: Tick,
    what: str,
    start: Mapping[str, Tensor] | None = None,
) -> Curve:
    """Fit a head in place and leave it in its best state.

    Args:
        head: What to fit.
        loss_of: Mean loss of a batch.
        validation_loss: Loss on rows that do not train; the pass with the lowest is kept.
        n_rows: Rows to learn from.
        penalties: On every parameter, and on the pairs' context part.
        config: Of the optimiser.
        seed: Of the order of the rows.
        tick: Told of every pass.
        what: What the tick calls this fit.
        start: Parameters to start from; None for those the head has.

    Returns:
        The curve.
    """
    if start is not None:
        head.load_state_dict(start)
    order = torch.Generator().manual_seed(seed)
    n_epochs = planned_epochs(n_rows, config)
    n_batches = -(-n_rows // config.batch_size)
    optimiser = torch.optim.Adam(head.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, n_epochs * n_batches)
    train: list[float] = []
    validation: list[float] = []
    best, best_state = 0, copy.deepcopy(head.state_dict())
    for epoch in range(n_epochs):
        total = 0.0
        for rows in torch.split(torch.randperm(n_rows, generator=order), config.batch_size):
            optimiser.zero_grad(set_to_none=True)
            loss = loss_of(head, rows) + head.penalty(*penalties)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(rows)
        train.append(total / n_rows)
        with torch.no_grad():
            validation.append(float(validation_loss(head)))
        tick(what, epoch + 1, n_epochs)
        if validation[epoch] <= validation[best]:
            best, best_state = epoch, copy.deepcopy(head.state_dict())
        elif epoch - best >= config.patience:
            break
    head.load_state_dict(best_state)
    return Curve(tuple(train), tuple(validation), best)
