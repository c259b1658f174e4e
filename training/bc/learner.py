"""Behaviour cloning on a log's training rows."""

from torch import Tensor

from training.bc.config import BcConfig
from training.bc.losses import bc_loss
from training.loop import Fitter
from training.problem import Problem
from training.terms import Batch, Term


def term(problem: Problem, config: BcConfig, fitter: Fitter) -> Term:  # noqa: ARG001 - the signature of every objective
    """Every decision counts once; there is nothing to fit first.

    Args:
        problem: The rows to learn from.
        config: Its weight.
        fitter: Not used.

    Returns:
        The term.
    """

    def loss(batch: Batch) -> Tensor:
        return bc_loss(batch.scores, batch.feasible, batch.action, batch.stands_for).loss

    return Term(name=config.name, weight=config.weight, loss=loss, ess=float(len(problem.train)))
