"""Two arms whose outcomes are partly missing: what dropping claims, and what survives the worst.

Outcomes that fail to arrive more often in one arm bias the comparison, in either direction and
without limit as units come in. Nothing in the seen outcomes shows it; whether an outcome was seen
does, and the worst case bounds it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from eval.intervals.two_arm import Arms, TwoArmSequence, Unseen, arms, compare, tuning_of

MissingVerdict = Literal["complete", "ok", "missingness_differs", "refused"]


@dataclass(frozen=True, slots=True)
class TwoArmWithMissing:
    """A comparison of two arms in which some units have no outcome.

    Attributes:
        verdict: `complete`: nothing is missing. `ok`: outcomes are missing, and nothing shows
            that they miss more often in one arm. `missingness_differs`: they do; the metric may
            not promote, whatever `dropped` says. `refused`: no unit.
        reason: What the verdict rests on; None where it is `complete`.
        dropped: The comparison over units with an outcome. Right only if outcomes are missing at
            random within each arm.
        seen: The comparison of "has an outcome" (1) with "has none" (0), over all units.
        worst_lower: Shape (n,). Lower bound with every missing outcome filled in against
            treatment; needs no assumption.
        worst_upper: Shape (n,). Upper bound with every missing outcome filled in for treatment.
        missing_treated: Share of treated units without an outcome; None without such units.
        missing_control: The same in control.
        shift: How far the excess missing in one arm can move `dropped`'s estimate, in outcome
            units: the difference of the two shares times the range; None without both arms.
        n: Units assigned.
    """

    verdict: MissingVerdict
    reason: str | None
    dropped: TwoArmSequence
    seen: TwoArmSequence
    worst_lower: np.ndarray[Any, np.dtype[np.float64]]
    worst_upper: np.ndarray[Any, np.dtype[np.float64]]
    missing_treated: float | None
    missing_control: float | None
    shift: float | None
    n: int

    @property
    def worst_case(self) -> tuple[float, float] | None:
        """The interval after the last unit that no pattern of missingness can break."""
        if not self.n:
            return None
        return float(self.worst_lower[-1]), float(self.worst_upper[-1])


def two_arm_with_missing(
    outcome: ArrayLike,
    treated: ArrayLike,
    share: float,
    lo: float,
    hi: float,
    alpha: float = 0.05,
    tuned_at: float = 1_000,
    variance: float | None = None,
    *,
    unseen: Unseen = "mid_range",
    units: Sequence[Any] | np.ndarray[Any, Any] | None = None,
) -> TwoArmWithMissing:
    """Compare two arms, missing outcomes counted for what they are.

    Feed every assigned unit in order of assignment, once its window has closed: a unit that
    closes without an outcome is missing for ever, and one whose window is open is not fed yet.

    Args:
        outcome: Shape (n,), within [lo, hi]; NaN or None where missing. Never 0 for missing.
        treated: As for `two_arm_sequence`.
        share: As for `two_arm_sequence`.
        lo: As for `two_arm_sequence`.
        hi: As for `two_arm_sequence`.
        alpha: Error allowed to each of the three comparisons.
        tuned_at: As for `two_arm_sequence`.
        variance: As for `two_arm_sequence`.
        unseen: As for `two_arm_sequence`.
        units: As for `two_arm_sequence`; a unit has an outcome where any of its rows has one.

    Returns:
        All three comparisons, the missing shares, and the verdict.

    Raises:
        ShapeMismatchError: If the arrays do not describe the same rows.
        RangeError: As for `two_arm_sequence`, missing outcomes apart.
    """
    tuning = tuning_of(share, alpha, tuned_at, variance, hi - lo)
    fed = arms(outcome, treated, lo, hi, units)
    is_seen = ~np.isnan(fed.outcome)
    against = np.where(is_seen, fed.outcome, np.where(fed.treated, 0.0, 1.0))
    towards = np.where(is_seen, fed.outcome, np.where(fed.treated, 1.0, 0.0))
    span = hi - lo
    shares = [
        float(1 - is_seen[arm].mean()) if arm.any() else None for arm in (fed.treated, ~fed.treated)
    ]
    seen = compare(Arms(is_seen.astype(np.float64), fed.treated), tuning, unseen, span=1.0)
    verdict, reason = _verdict(seen, n_missing=int((~is_seen).sum()), shares=shares)
    return TwoArmWithMissing(
        verdict=verdict,
        reason=reason,
        dropped=compare(
            Arms(fed.outcome[is_seen], fed.treated[is_seen]), tuning, unseen, span=span
        ),
        seen=seen,
        worst_lower=compare(Arms(against, fed.treated), tuning, unseen, span=span).lower,
        worst_upper=compare(Arms(towards, fed.treated), tuning, unseen, span=span).upper,
        missing_treated=shares[0],
        missing_control=shares[1],
        shift=None if None in shares else abs((shares[0] or 0.0) - (shares[1] or 0.0)) * span,
        n=len(is_seen),
    )


def _verdict(
    seen: TwoArmSequence, *, n_missing: int, shares: list[float | None]
) -> tuple[MissingVerdict, str | None]:
    if seen.n == 0:
        return "refused", seen.reason
    if n_missing == 0:
        return "complete", None
    told = ", ".join(
        f"{name} {'none assigned' if share is None else format(share, '.1%')}"
        for name, share in zip(("treatment", "control"), shares, strict=True)
    )
    if seen.excludes_zero:
        return "missingness_differs", f"outcomes are missing more often in one arm: {told}."
    return "ok", f"{n_missing} of {seen.n} units have no outcome: {told}."
