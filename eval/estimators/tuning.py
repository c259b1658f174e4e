"""Choosing a hyper-parameter, such as where to cut weights, from what its candidates estimate.

Pure functions of the candidates: nothing is remembered from call to call, their order does not
matter, and the result lists what every candidate was judged by.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan, sqrt
from typing import Final, Literal

from canopy.domain.errors import RangeError

Rule = Literal["slope", "error-bound"]

_KEPT_FACTOR: Final = sqrt(6) - 1
"""How far a kept candidate's half-width stretches; the constant of SLOPE++."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one value of a hyper-parameter estimates.

    Attributes:
        hyperparameter: The value; may be infinite.
        value: The estimate, in reward units; None where it was refused.
        half_width: Half the width of its interval, in reward units, at least 0: of
            `unit_interval` at level 1 - 2 delta, so that units and not rows are counted.
        bias_bound: `Estimate.bias_bound`; None where none was stated.
    """

    hyperparameter: float
    value: float | None
    half_width: float
    bias_bound: float | None = None


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """A candidate, and what a rule made of it.

    Attributes:
        candidate: The candidate.
        criterion: What the rule looked at, in reward units; the smaller the better. For `slope`
            how far the candidate lies beyond what its width and those of the candidates kept
            before it allow, at most 0 if it agrees with them; for `error-bound` the bound. None
            where the rule did not come to look at it.
        is_kept: The candidate was among those that the rule chose from.
    """

    candidate: Candidate
    criterion: float | None
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Tuned:
    """Which candidate a rule chose, and what it saw of all.

    Attributes:
        rule: The rule.
        chosen: The candidate; None where there was none to choose from.
        reason: Why none was chosen; None where one was.
        judged: All candidates, in the order in which the rule looked at them; those it could not
            look at come last.
    """

    rule: Rule
    chosen: Candidate | None
    reason: str | None
    judged: tuple[JudgedCandidate, ...]


def slope(candidates: Iterable[Candidate]) -> Tuned:
    """The narrowest candidate that agrees with all wider ones, up to the first that does not.

    Needs no bound on the bias: only that bias grows as width shrinks along the candidates.

    Args:
        candidates: In any order. Equal widths are ordered by hyper-parameter.

    Returns:
        The choice; a single candidate is chosen as it is, and none from none.

    Raises:
        RangeError: If a number is NaN, a value infinite, or a half-width negative or infinite;
            the candidate is named, from 1.

    Source:
        Su, Srinath and Krishnamurthy, Adaptive Estimator Selection for Off-Policy Evaluation,
        ICML 2020; with the constants of Tucker and Lee, Improved Estimator Selection for
        Off-Policy Evaluation, ICML workshop 2021.
    """
    given = _checked(candidates)
    usable = [candidate for candidate in given if candidate.value is not None]
    usable.sort(key=lambda c: (-c.half_width, c.hyperparameter, c.value or 0.0))
    kept: list[Candidate] = []
    judged: list[JudgedCandidate] = []
    has_stopped = False
    for candidate in usable:
        excess = None if has_stopped else _excess(candidate, kept)
        is_kept = excess is not None and excess <= 0
        judged.append(JudgedCandidate(candidate, excess, is_kept))
        has_stopped = not is_kept
        if is_kept:
            kept.append(candidate)
    return _tuned("slope", kept[-1] if kept else None, judged, given)


def least_error_bound(candidates: Iterable[Candidate]) -> Tuned:
    """The candidate whose bias bound and half-width add up to the least.

    The bound on the bias is loose, so that this rule favours candidates that cut little; `slope`
    on the same candidates shows what difference that makes.

    Args:
        candidates: In any order. Equal bounds go to the larger hyper-parameter.

    Returns:
        The choice. Candidates without a bias bound are listed and never chosen.

    Raises:
        RangeError: As for `slope`, or if a bias bound is negative or infinite.

    Source:
        The triangle inequality: an estimate is off by at most its bias and its deviation.
    """
    given = _checked(candidates)
    bounds = [
        (candidate.bias_bound + candidate.half_width, candidate)
        for candidate in given
        if candidate.value is not None and candidate.bias_bound is not None
    ]
    bounds.sort(key=lambda b: (b[0], -b[1].hyperparameter, b[1].value or 0.0))
    judged = [JudgedCandidate(candidate, bound, is_kept=True) for bound, candidate in bounds]
    return _tuned("error-bound", bounds[0][1] if bounds else None, judged, given)


def _excess(candidate: Candidate, kept: list[Candidate]) -> float:
    """How far a candidate lies beyond what the widths allow, at its worst; 0 for the first."""
    return max(
        (
            abs((candidate.value or 0.0) - (wider.value or 0.0))
            - (candidate.half_width + _KEPT_FACTOR * wider.half_width)
            for wider in kept
        ),
        default=0.0,
    )


def _tuned(
    rule: Rule, chosen: Candidate | None, judged: list[JudgedCandidate], given: list[Candidate]
) -> Tuned:
    looked_at = {id(found.candidate) for found in judged}
    left = [candidate for candidate in given if id(candidate) not in looked_at]
    left.sort(key=lambda c: (c.hyperparameter, c.half_width))
    reason = None
    if chosen is None and not given:
        reason = "no candidates."
    elif chosen is None:
        reason = f"of {len(given)} candidates none has what the rule {rule} needs."
    everything = (*judged, *(JudgedCandidate(c, None, is_kept=False) for c in left))
    return Tuned(rule, chosen, reason, everything)


def _checked(candidates: Iterable[Candidate]) -> list[Candidate]:
    given = list(candidates)
    for number, c in enumerate(given, start=1):
        if isnan(c.hyperparameter):
            raise RangeError("hyperparameter", number, c.hyperparameter, "a number")
        if c.value is not None and not abs(c.value) < float("inf"):
            raise RangeError("value", number, c.value, "a finite number, or None where refused")
        if not 0 <= c.half_width < float("inf"):
            raise RangeError("half_width", number, c.half_width, "a finite number, at least 0")
        if c.bias_bound is not None and not 0 <= c.bias_bound < float("inf"):
            raise RangeError("bias_bound", number, c.bias_bound, "a finite number, at least 0")
    return given
