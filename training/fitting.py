"""Fitting a policy's head: once per penalty, the best then judged as it would be served."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import ConfigError, TrainingRefusedError
from policy.distributions import distribution
from policy.heads import FactoredHead
from training.config import HeadConfig, ServingConfig
from training.head import Penalty, TorchFactoredHead
from training.loop import Curve, Fitter
from training.problem import Problem
from training.served_value import ServedValue, at_taken, greedy_choice, value_of
from training.terms import Batch, Term, total_loss

_BLOCK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to serve one fitted head.

    Attributes:
        penalty: What it was fitted with.
        temperature: What its scores are divided by.
        served: Its estimated value on validation units, floor included.
    """

    penalty: Penalty
    temperature: float
    served: ServedValue


@dataclass(frozen=True, slots=True)
class Fitted:
    """The head of least loss on validation units, served as does best on them.

    Attributes:
        head: The head.
        chosen: How it is served. Its value was picked as the largest of many on these rows, so
            it flatters: evidence comes from the reserve.
        greedy: Value of always taking the likeliest plan, without the floor.
        curve: How its fit went.
        candidates: Every temperature that was tried, in order.
        penalties: Every penalty that was tried, with the loss on validation units.
    """

    head: TorchFactoredHead
    chosen: Candidate
    greedy: ServedValue
    curve: Curve
    candidates: tuple[Candidate, ...]
    penalties: tuple[tuple[Penalty, float], ...]


def fit_policy(
    problem: Problem,
    terms: tuple[Term, ...],
    *,
    head: HeadConfig,
    serving: ServingConfig,
    fitter: Fitter,
) -> Fitted:
    """Fit one head per penalty, keep the one of least loss on validation units, and serve it well.

    Args:
        problem: The rows.
        terms: What is minimised.
        head: Penalties to try.
        serving: Floor, temperatures, and the least support an estimate needs.
        fitter: Fits them.

    Raises:
        ConfigError: If there is nothing to try.
        TrainingRefusedError: If the validation rows support no temperature.
    """
    pair_penalties = head.pair_l2 if problem.shape.pairs else head.pair_l2[:1]
    for key, values in (
        ("objective", terms),
        ("head.l2", head.l2),
        ("head.pair_l2", pair_penalties),
        ("serving.temperatures", serving.temperatures),
    ):
        if not values:
            raise ConfigError(key, "is empty.", "Name at least one value to try.")
    fits = [
        _fit_one(problem, terms, Penalty(head.l2[0], pair_l2), fitter)
        for pair_l2 in dict.fromkeys(pair_penalties)
    ]
    # Of equals the first: the weakest penalty.
    best = min(fits, key=lambda fit: fit.curve.least)
    # One kind after the other, each only while it helps: a grid of all would cost fits enough
    # to find luck.
    for kind, values in (
        ("l2", head.l2[1:]),
        ("tenant_l2", head.tenant_l2 if problem.shape.tenant_columns else []),
    ):
        for value in values:
            tried_one = _fit_one(problem, terms, best.penalty._replace(**{kind: value}), fitter)
            fits.append(tried_one)
            if tried_one.curve.least >= best.curve.least:
                break
            best = tried_one
    tried = [
        Candidate(best.penalty, temperature, served)
        for temperature, served in _served(best.head, problem, serving)
    ]
    usable = [
        candidate
        for candidate in tried
        if candidate.served.value is not None and candidate.served.ess >= serving.least_ess
    ]
    if not usable:
        most = max(candidate.served.ess for candidate in tried)
        raise TrainingRefusedError(
            "serving.temperatures",
            f"validation supports none of them: the largest effective sample size is {most:.1f}, "
            f"serving.least_ess asks for {serving.least_ess:g}.",
            "Train on a log with more rows or more overlap, or try higher temperatures.",
        )
    return Fitted(
        head=best.head,
        chosen=max(usable, key=lambda candidate: candidate.served.value or 0.0),
        greedy=_greedy(best.head, problem),
        curve=best.curve,
        candidates=tuple(tried),
        penalties=tuple((fit.penalty, fit.curve.least) for fit in fits),
    )


def numpy_head(head: TorchFactoredHead) -> FactoredHead:
    """The head as serving computes it."""
    return FactoredHead(head.shape.levels, head.named_weights())


@dataclass(frozen=True, slots=True)
class _Fit:
    """One fit: its penalties, its head, and how it went."""

    penalty: Penalty
    head: TorchFactoredHead
    curve: Curve


def _fit_one(problem: Problem, terms: tuple[Term, ...], penalty: Penalty, fitter: Fitter) -> _Fit:
    inside, beyond = problem.inside, problem.beyond
    head = TorchFactoredHead(problem.shape)
    step = max(1, _BLOCK_CELLS // len(problem.shape.levels))

    def loss_of(fitted: TorchFactoredHead, rows: Tensor) -> Tensor:
        return total_loss(terms, Batch(fitted, inside, rows, is_training=True))

    def validation_loss(fitted: TorchFactoredHead) -> Tensor:
        total = torch.zeros(())
        for rows in torch.split(torch.arange(len(beyond)), step):
            batch = Batch(fitted, beyond, rows, is_training=False)
            total = total + total_loss(terms, batch) * len(rows)
        return total / max(1, len(beyond))

    start = next((term.start for term in terms if term.start is not None), None)
    curve = fitter.fit(
        head, loss_of, validation_loss, n_rows=len(inside), penalty=penalty,
        seed=problem.seed, what="policy", start=start,
    )  # fmt: skip
    return _Fit(penalty, head, curve)


def _served(
    head: TorchFactoredHead, problem: Problem, serving: ServingConfig
) -> list[tuple[float, ServedValue]]:
    rows = problem.validation
    scores = numpy_head(head).scores(problem.validation_features)
    found = []
    for temperature in serving.temperatures:
        target = distribution(scores / temperature, rows.feasible, serving.floor)
        found.append((temperature, value_of(at_taken(target, rows.action), rows)))
    return found


def _greedy(head: TorchFactoredHead, problem: Problem) -> ServedValue:
    rows = problem.validation
    scores = numpy_head(head).scores(problem.validation_features)
    chosen = greedy_choice(np.where(rows.feasible, scores, -np.inf))
    return value_of(at_taken(chosen, rows.action), rows)
