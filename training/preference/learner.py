"""Preferences on a log's contexts."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import ConfigError, TrainingRefusedError
from training.bc.losses import bc_loss
from training.data.blocks import Window
from training.head import Penalty, TorchFactoredHead
from training.loop import Fitter
from training.preference.config import PreferenceConfig, Reference
from training.preference.losses import preference_loss
from training.preferences.artifact import Preferences, load_preferences
from training.problem import Problem
from training.terms import STANDS_FOR, Batch, Term

_MOST_KINDS = 2_048
"""Kinds of verdicts that a batch meets: winner and loser; every row is held against each."""

_REFERENCE = Penalty(1e-5, 0.01, 1e-3)


def term(problem: Problem, config: PreferenceConfig, fitter: Fitter) -> Term:
    """Prefer the plans that judges preferred.

    Args:
        problem: The rows whose contexts are used.
        config: The artifact, and how it is read.
        fitter: Fits what has to be fitted first.

    Returns:
        The term; its lineage is the artifact's.

    Raises:
        ArtifactError: If the artifact is altered or none.
        ConfigError: If beta is not positive, or an item is no plan of the catalog.
        TrainingRefusedError: If no verdict is decisive, or no row left a choice.
    """
    if not config.beta > 0:
        raise ConfigError(
            f"objective.{config.name}.beta", f"expected a positive number, got {config.beta:g}.",
            "Small values let few verdicts move the policy far.",
        )  # fmt: skip
    preferences = load_preferences(Path(config.path))
    winner, loser, share = _verdicts(preferences, problem, config)
    reference = _clone(problem, fitter) if config.reference is Reference.logging else None

    def loss(batch: Batch) -> Tensor:
        compared = None
        if reference is not None:
            with torch.no_grad():
                compared = reference(batch.features)
        kinds = _drawn(share, batch.position)
        return preference_loss(
            batch.scores, compared, batch.feasible, winner[kinds], loser[kinds],
            share[kinds] if len(share) <= _MOST_KINDS else torch.full((_MOST_KINDS,), 1.0),
            config.beta,
        )  # fmt: skip

    document = preferences.document
    return Term(
        name=config.name,
        weight=config.weight,
        loss=loss,
        ess=float(len(problem.train)),
        facts={
            "verdicts": document["n_comparisons"],
            "survival": document["survival"],
            "pairs_of_plans": len(winner),
        },
        lineage=preferences.lineage,
    )


def _drawn(share: Tensor, rows: Tensor) -> Tensor:
    """Which kinds of verdicts a batch meets: all, or as many as fit, drawn by their share.

    The draw follows from the batch's rows, so that a fit taken up again draws the same.
    """
    if len(share) <= _MOST_KINDS:
        return torch.arange(len(share))
    rng = torch.Generator().manual_seed(int(rows.sum()) % 2**31)
    return torch.multinomial(share, _MOST_KINDS, replacement=True, generator=rng)


def _verdicts(
    preferences: Preferences, problem: Problem, config: PreferenceConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Winner, loser and share of each kind of verdict, by action.

    Raises:
        ConfigError: If an item is no plan of the catalog.
        TrainingRefusedError: If no verdict is decisive.
    """
    wins = np.asarray(preferences.arrays["wins"])
    if not wins.any():
        raise TrainingRefusedError(
            f"objective.{config.name}.path", "holds no decisive verdict.",
            "Judge more pairs, or leave the term out.",
        )  # fmt: skip
    places = [problem.catalog.find(item) for item in preferences.items]
    unknown = [item for item, place in zip(preferences.items, places, strict=True) if place is None]
    if unknown:
        raise ConfigError(
            f"objective.{config.name}.path", f"compares {unknown[0]!r}, which is no plan.",
            "Fit preferences whose items are plans of this catalog.",
        )  # fmt: skip
    action = np.array(places, dtype=np.int64)
    rows, columns = np.nonzero(wins)
    counts = wins[rows, columns]
    return (
        torch.from_numpy(action[rows]),
        torch.from_numpy(action[columns]),
        torch.from_numpy((counts / counts.sum()).astype(np.float32)),
    )


def _clone(problem: Problem, fitter: Fitter) -> TorchFactoredHead:
    """A clone of the logging policy, to compare with."""
    columns = {STANDS_FOR: problem.stands_for}
    feed, beyond = problem.feed(columns), problem.window(columns)
    head = TorchFactoredHead(problem.shape).to(problem.device)

    def loss(fitted: TorchFactoredHead, window: Window, rows: Tensor) -> Tensor:
        return bc_loss(
            fitted(window.features[rows]), window.feasible[rows], window.action[rows],
            window.columns[STANDS_FOR][rows],
        ).loss  # fmt: skip

    def validation_loss(fitted: TorchFactoredHead) -> Tensor:
        return loss(fitted, beyond, torch.arange(len(beyond)))

    fitter.fit(
        head, loss, validation_loss, feed=feed, penalty=_REFERENCE,
        seed=problem.seed, what="reference",
    )  # fmt: skip
    return head
