"""Fitting a policy's head: once per penalty, the best then judged as it would be served."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from canopy.domain.errors import ConfigError, TrainingRefusedError
from policy.arrays import FloatArray
from policy.distributions import distribution
from policy.heads import FactoredHead
from training.config import HeadConfig, ServingConfig
from training.data.blocks import ColumnOf, Window
from training.data.feed import Feed
from training.data.rows import TrainingRows
from training.head import Penalty, TorchFactoredHead
from training.loop import Curve, Fitter
from training.problem import Problem
from training.served_value import ServedValue, at_taken, greedy_choice, value_of
from training.terms import STANDS_FOR, Batch, Term, total_loss

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
    columns: dict[str, ColumnOf] = {STANDS_FOR: problem.stands_for}
    for term in terms:
        columns |= term.columns
    rows = _Rows(problem.feed(columns), problem.window(columns))
    fits = [
        _fit_one(problem, terms, rows, Penalty(head.l2[0], pair_l2), fitter)
        for pair_l2 in dict.fromkeys(pair_penalties)
    ]
    # Of equals the first: the weakest penalty.
    best = min(fits, key=lambda fit: fit.curve.least)
    # One kind after the other: a grid of all would cost fits enough to find luck.
    for value in head.l2[1:]:
        tried_one = _fit_one(problem, terms, rows, best.penalty._replace(l2=value), fitter)
        fits.append(tried_one)
        if tried_one.curve.least >= best.curve.least:
            break
        best = tried_one
    # All of them: a weak penalty may do nothing where a strong one helps.
    of_tenants = [
        _fit_one(problem, terms, rows, best.penalty._replace(tenant_l2=value), fitter)
        for value in (head.tenant_l2 if problem.shape.tenant_columns else [])
    ]
    fits += of_tenants
    best = min([best, *of_tenants], key=lambda fit: fit.curve.least)
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
class _Rows:
    """What all fits share: the rows that train, and those that choose."""

    inside: Feed
    beyond: Window


@dataclass(frozen=True, slots=True)
class _Fit:
    """One fit: its penalties, its head, and how it went."""

    penalty: Penalty
    head: TorchFactoredHead
    curve: Curve


def _fit_one(
    problem: Problem, terms: tuple[Term, ...], rows: _Rows, penalty: Penalty, fitter: Fitter
) -> _Fit:
    head = TorchFactoredHead(problem.shape).to(problem.device)
    step = max(1, _BLOCK_CELLS // len(problem.shape.levels))

    def loss_of(fitted: TorchFactoredHead, window: Window, index: Tensor) -> Tensor:
        return total_loss(terms, Batch(fitted, window, index))

    def validation_loss(fitted: TorchFactoredHead) -> Tensor:
        total = torch.zeros((), device=problem.device)
        for index in torch.split(torch.arange(len(rows.beyond)), step):
            total = total + loss_of(fitted, rows.beyond, index) * len(index)
        return total / len(rows.beyond)

    start = next((term.start for term in terms if term.start is not None), None)
    curve = fitter.fit(
        head, loss_of, validation_loss, feed=rows.inside, penalty=penalty,
        seed=problem.seed, what="policy", start=start,
    )  # fmt: skip
    return _Fit(penalty, head, curve)


def _served(
    head: TorchFactoredHead, problem: Problem, serving: ServingConfig
) -> list[tuple[float, ServedValue]]:
    found = []
    for temperature in serving.temperatures:
        taken = np.concatenate([
            at_taken(distribution(scores / temperature, rows.feasible, serving.floor), rows.action)
            for rows, scores in _scored(head, problem)
        ])  # fmt: skip
        found.append((temperature, value_of(taken, problem.validation)))
    return found


def _greedy(head: TorchFactoredHead, problem: Problem) -> ServedValue:
    taken = np.concatenate([
        at_taken(greedy_choice(np.where(rows.feasible, scores, -np.inf)), rows.action)
        for rows, scores in _scored(head, problem)
    ])  # fmt: skip
    return value_of(taken, problem.validation)


def _scored(head: TorchFactoredHead, problem: Problem) -> Iterator[tuple[TrainingRows, FloatArray]]:
    """Validation rows, some at a time, with their scores of shape (n, n_plans)."""
    scorer = numpy_head(head)
    for rows, features in problem.validation_parts():
        yield rows, scorer.scores(features)
