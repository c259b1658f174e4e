"""How preferences are put to people, in the terminal and on a page alike."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from canopy.output import cell

STATUS_MEANING: Final = {
    "connected": "All items stand on one scale.",
    "separated": "Some items never lost to, or never beat, the others: between these groups only "
    "the order is known, and no number.",
    "disconnected": "Some items were never compared, even through others: between these "
    "components nothing is known.",
    "no_data": "No pair was decisive; there is nothing to rank.",
}
"""What the status of a fit says."""

SCALE_MEANING: Final = {
    "swap_survivor": "A difference of scores is the log-odds that an item wins in both orders, "
    "given that one of the two does. It is steeper than the chance of a single verdict; order "
    "bias cancels.",
    "single_verdict": "A difference of scores is the log-odds of one verdict in one order; an "
    "order bias flattens it.",
}
"""What a difference of scores means."""


def interval_text(ends: Sequence[float] | None) -> str:
    """An interval as tables show it.

    Args:
        ends: Lower and upper end; None where there is none.
    """
    return cell(None) if ends is None else "[{:.3g}, {:.3g}]".format(*ends)


def rank_text(ranks: Sequence[int] | None) -> str:
    """The ranks that an item's differences leave open.

    Args:
        ranks: Best and worst; None without a score.
    """
    if ranks is None:
        return cell(None)
    best, worst = ranks
    return str(best) if best == worst else f"{best} to {worst}"


def survival_text(facts: Mapping[str, Any]) -> str:
    """The share of an item's readable pairs that are decisive, and whether that is too few.

    Args:
        facts: Of an item, as the artifact's document has them.
    """
    if facts["survival"] is None:
        return cell(None)
    return f"{facts['survival']:.1%}" + (" undetermined" if facts["is_undetermined"] else "")
