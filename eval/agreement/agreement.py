"""The result of an agreement coefficient, and the words for why there is none."""

from dataclasses import dataclass
from enum import StrEnum


class AgreementReason(StrEnum):
    """Why a coefficient has no value, does not clear its floor, or is to be read with care."""

    TOO_FEW = "too_few"
    """Fewer than two units rated twice, or fewer independent units than asked for; no value."""
    NO_OVERLAP = "no_overlap"
    """No unit has two ratings; no value."""
    SINGLE_CATEGORY = "single_category"
    """Every rating is the same label, so chance would agree as well; no value."""
    CONSTANT_RATER = "constant_rater"
    """A rater gives one label only while labels vary: the value stands, and clears nothing."""
    TOO_SKEWED = "too_skewed"
    """Over nine tenths of the ratings are one label: the value stands and rests on few units."""
    RARE_LABEL = "rare_label"
    """A label of the scale was given less often than asked for; nothing is cleared."""
    BOUND_UNDEFINED = "bound_undefined"
    """There is a value but no lower bound for it; nothing is cleared."""
    BELOW_FLOOR = "below_floor"
    """The lower bound lies under the floor."""
    NULL_BASELINE = "null_baseline"
    """A rater that does not read what it rates does as well."""
    NO_CEILING = "no_ceiling"
    """How well two people agree is undefined, so that nothing can be held to it."""
    BELOW_PEOPLE = "below_people"
    """The lower bound lies further under the agreement of two people than allowed."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement beyond chance, or why there is no number for it.

    Attributes:
        value: At most 1; 0 is what chance gives; None where undefined.
        reason: Why there is no value, or what to know about it: `constant_rater`, `too_skewed`.
            None where there is nothing.
        n: Units with at least two ratings; the coefficient rests on them.
        n_left_out: Units with fewer, which add nothing to the agreement observed.
        observed_disagreement: Mean disagreement within units, from 0; in kappas, AC1 and AC2 one
            minus the weighted share of agreement, in alpha the mean of the metric. None without
            a unit.
        expected_disagreement: The same if ratings were given by chance; None where undefined.
        largest_disagreement: What two labels that were seen can differ by at most, in the same
            measure; None where undefined.
        prevalence: Share of the commonest label among the ratings of the `n` units; None without
            a unit.
    """

    value: float | None
    reason: AgreementReason | None
    n: int
    n_left_out: int = 0
    observed_disagreement: float | None = None
    expected_disagreement: float | None = None
    largest_disagreement: float | None = None
    prevalence: float | None = None
