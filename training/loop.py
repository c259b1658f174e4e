"""The minibatch loop that every fit here shares: Adam, a cosine schedule, the best state kept."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import torch
from torch import Tensor

from training.checkpoints import Checkpoints, Progress, load_progress, save_progress
from training.config import OptimConfig
from training.data.blocks import Window
from training.data.feed import Feed
from training.head import Penalty, TorchFactoredHead
from training.progress import Tick, silent

LossOf: TypeAlias = Callable[[TorchFactoredHead, Window, Tensor], Tensor]
"""Mean loss under a head of some rows of a window, by their places in it."""

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


@dataclass(frozen=True, slots=True)
class Fitter:
    """How heads are fitted in one run.

    Attributes:
        config: Of the optimiser.
        tick: Told of every pass.
        checkpoints: Where fits are kept until the run is done; None where they are not.
    """

    config: OptimConfig
    tick: Tick = silent
    checkpoints: Checkpoints | None = None

    def fit(
        self,
        head: TorchFactoredHead,
        loss_of: LossOf,
        validation_loss: Callable[[TorchFactoredHead], Tensor],
        *,
        feed: Feed,
        penalty: Penalty,
        seed: int,
        what: str,
        start: Mapping[str, Tensor] | None = None,
    ) -> Curve:
        """Fit a head in place and leave it in its best state.

        Args:
            head: What to fit.
            loss_of: Mean loss of a batch.
            validation_loss: Loss on rows that do not train; the pass with the lowest is kept.
            feed: Rows to learn from.
            penalty: On the parameters.
            seed: Of the order of the rows.
            what: What the tick calls this fit.
            start: Parameters to start from; None for those the head has.

        Returns:
            The curve.
        """
        path = None if self.checkpoints is None else self.checkpoints.next_fit()
        if start is not None:
            head.load_state_dict(start)
        state = _State.fresh(head, seed)
        saved = None if path is None else load_progress(path)
        if saved is not None:
            state.restore(saved)
        n_epochs = planned_epochs(feed.n_rows, self.config)
        while not state.is_done:
            self._pass(head, state, loss_of, penalty, feed, n_epochs)
            with torch.no_grad():
                state.judge(float(validation_loss(head)), self.config.patience, n_epochs)
            self.tick(what, len(state.validation), n_epochs)
            if path is not None:
                save_progress(path, state.progress())
        head.table.data.copy_(state.best_table)
        return Curve(tuple(state.train), tuple(state.validation), state.best)

    def _pass(
        self,
        head: TorchFactoredHead,
        state: "_State",
        loss_of: LossOf,
        penalty: Penalty,
        feed: Feed,
        n_epochs: int,
    ) -> None:
        """All rows once."""
        total, seen = 0.0, 0
        n_rows = feed.n_rows
        for window, rows in feed.batches(state.order, self.config.batch_size):
            # A closed form of the place: what is taken up again needs no schedule of its own.
            share = (len(state.validation) + seen / n_rows) / n_epochs
            state.optimiser.param_groups[0]["lr"] = (
                self.config.learning_rate * (1 + math.cos(math.pi * share)) / 2
            )
            state.optimiser.zero_grad(set_to_none=True)
            loss = loss_of(head, window, rows) + head.penalty(penalty)
            loss.backward()  # type: ignore[no-untyped-call]
            state.optimiser.step()
            seen += len(rows)
            total += float(loss.detach()) * len(rows)
        state.train.append(total / n_rows)


@dataclass(slots=True)
class _State:
    """A fit under way."""

    head: TorchFactoredHead
    optimiser: torch.optim.Adam
    order: torch.Generator
    best_table: Tensor
    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    best: int = 0
    is_done: bool = False

    @classmethod
    def fresh(cls, head: TorchFactoredHead, seed: int) -> "_State":
        return cls(
            head=head,
            # The learning rate is set before every step.
            optimiser=torch.optim.Adam([head.table], lr=0.0),
            order=torch.Generator().manual_seed(seed),
            best_table=head.table.detach().clone(),
        )

    def judge(self, loss: float, patience: int, n_epochs: int) -> None:
        """Take note of a pass."""
        self.validation.append(loss)
        last = len(self.validation) - 1
        if loss <= self.validation[self.best]:
            self.best, self.best_table = last, self.head.table.detach().clone()
        self.is_done = last - self.best >= patience or len(self.validation) >= n_epochs

    def progress(self) -> Progress:
        moments = self.optimiser.state[self.head.table]
        return Progress(
            tensors={
                "table": self.head.table.detach(),
                "best": self.best_table,
                "mean": moments["exp_avg"],
                "square": moments["exp_avg_sq"],
                "step": moments["step"],
                "order": self.order.get_state(),
            },
            train=tuple(self.train),
            validation=tuple(self.validation),
            best=self.best,
            is_done=self.is_done,
        )

    def restore(self, saved: Progress) -> None:
        """Go on from where a fit stood."""
        with torch.no_grad():
            self.head.table.copy_(saved.tensors["table"])
        device = self.head.table.device
        self.best_table = saved.tensors["best"].to(device)
        self.optimiser.state[self.head.table] = {
            "step": saved.tensors["step"],
            "exp_avg": saved.tensors["mean"].to(device),
            "exp_avg_sq": saved.tensors["square"].to(device),
        }
        self.order.set_state(saved.tensors["order"])
        self.best, self.is_done = saved.best, saved.is_done
        self.train, self.validation = list(saved.train), list(saved.validation)
