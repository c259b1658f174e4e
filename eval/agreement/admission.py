"""Whether a judge is admitted: better than who does not read, nearly as good as people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.agreement.agreement import Agreement, AgreementReason
from eval.agreement.clearances import Clearance
from eval.agreement.coefficients import Coefficient


@dataclass(frozen=True, slots=True)
class NullBaseline:
    """A rater that does not read what it rates.

    Attributes:
        name: `always LABEL`, `longer is higher`, `longer is lower`.
        value: Its agreement with the gold; None where undefined.
    """

    name: str
    value: float | None


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on a judge.

    Attributes:
        clearance: Its agreement against the floor.
        baselines: What raters reach that do not read.
        ceiling: Agreement of two people; None where there is no second one.
        delta: How far under the ceiling the lower bound may lie.
        is_admitted: Whether the floor is cleared, every baseline beaten, and the ceiling near.
        reason: Why it is not admitted; None where it is.
    """

    clearance: Clearance
    baselines: tuple[NullBaseline, ...]
    ceiling: Agreement | None
    delta: float
    is_admitted: bool
    reason: AgreementReason | None


def null_baselines(
    coefficient: Coefficient, gold: Sequence[Any], length: Sequence[float | None] | None = None
) -> tuple[NullBaseline, ...]:
    """What raters reach that do not read: each label always, and the length alone.

    The length-only rater is given its best chance: the gold's own shares of labels, dealt out
    in the order of length, and against it.

    Args:
        coefficient: Of `coefficient_named`.
        gold: Shape (n,). Labels; None where missing.
        length: Shape (n,). Length of each text, or for pairs the first one's less the second's;
            None where missing.

    Raises:
        ShapeMismatchError: If there is not one length per label.
    """
    labels = coefficient.scale.labels
    n = len(gold)
    raters = {f"always {label}": [label] * n for label in labels}
    if length is not None:
        if len(length) != n:
            raise ShapeMismatchError("length", (len(length),), (n,))
        raters["longer is higher"] = _by_length(gold, length, labels)
        falling = [None if value is None else -value for value in length]
        raters["longer is lower"] = _by_length(gold, falling, labels)
    return tuple(
        NullBaseline(name, coefficient([given, gold]).value) for name, given in raters.items()
    )


def _by_length(
    gold: Sequence[Any], length: Sequence[float | None], labels: Sequence[Any]
) -> list[Any]:
    """Labels in the order of length, as often as the gold has each; equal lengths, equal labels."""
    known = [k for k, value in enumerate(length) if value is not None and gold[k] is not None]
    place = {label: number for number, label in enumerate(labels)}
    dealt = sorted((gold[k] for k in known), key=lambda label: place[label])
    ranks = rankdata([length[k] for k in known])
    given: list[Any] = [None] * len(gold)
    for k, rank in zip(known, ranks, strict=True):
        given[k] = dealt[int(np.floor(rank)) - 1]
    return given


def admission(
    coefficient: Coefficient,
    cleared: Clearance,
    judge: Sequence[Any],
    gold: Sequence[Any],
    *,
    second: Sequence[Any] | None = None,
    length: Sequence[float | None] | None = None,
    delta: float = 0.1,
) -> Admission:
    """Judge a judge.

    Args:
        coefficient: Of `coefficient_named`.
        cleared: Of `clearance`, on the same labels.
        judge: Shape (n,). The judge's labels; None where missing.
        gold: Shape (n,). A person's labels; None where missing.
        second: Shape (n,). Another person's labels; None where there is no ceiling to ask for.
        length: Shape (n,). As for `null_baselines`.
        delta: How far under the agreement of two people the lower bound may lie, at least 0.

    Returns:
        The verdict. Baselines are measured on the items that the judge rated too.

    Raises:
        RangeError: If delta is negative.
        ShapeMismatchError: If the columns differ in length.
    """
    if not 0 <= delta < np.inf:
        raise RangeError("delta", None, delta, "a difference of at least 0")
    if len(judge) != len(gold):
        raise ShapeMismatchError("gold", (len(gold),), (len(judge),))
    shared = [None if is_missing(mine) else label for mine, label in zip(judge, gold, strict=True)]
    baselines = null_baselines(coefficient, shared, length)
    ceiling = None if second is None else coefficient([gold, second])
    reason = cleared.reason or _objection(cleared, baselines, ceiling, delta)
    return Admission(cleared, baselines, ceiling, delta, reason is None, reason)


def is_missing(label: Any) -> bool:
    """Whether a label is None or NaN."""
    return label is None or label != label  # noqa: PLR0124 - only NaN differs from itself


def _objection(
    cleared: Clearance,
    baselines: tuple[NullBaseline, ...],
    ceiling: Agreement | None,
    delta: float,
) -> AgreementReason | None:
    bound = cleared.bound.value
    reached = [baseline.value for baseline in baselines if baseline.value is not None]
    if bound is None:
        return AgreementReason.BOUND_UNDEFINED
    if reached and bound <= max(reached):
        return AgreementReason.NULL_BASELINE
    if ceiling is None:
        return None
    if ceiling.value is None:
        return AgreementReason.NO_CEILING
    return AgreementReason.BELOW_PEOPLE if bound < ceiling.value - delta else None
