"""The parts of a catalog as plain values, which its reader takes back."""

from collections.abc import Sequence

from policy import predicates
from policy.factors import Factor, Rule, Selection


def factor_document(factor: Factor) -> dict[str, object]:
    """A factor as it may be written in a catalog."""
    if all(level.doctrine is None and level.weight is None for level in factor.levels):
        return {"levels": [level.name for level in factor.levels]}
    levels: dict[str, dict[str, object]] = {}
    for level in factor.levels:
        entry: dict[str, object] = {}
        if level.doctrine is not None:
            entry["doctrine"] = level.doctrine
        if level.weight is not None:
            entry["weight"] = level.weight
        levels[level.name] = entry
    return {"levels": levels}


def plan_document(levels: Sequence[int], factors: Sequence[Factor]) -> dict[str, str]:
    """A listed plan as it may be written in a catalog."""
    return {f.name: f.levels[level].name for f, level in zip(factors, levels, strict=True)}


def selection_document(selection: Selection, factors: Sequence[Factor]) -> dict[str, object]:
    """A choice of plans as it may be written in a catalog."""
    document: dict[str, object] = {}
    for position, wanted in selection.levels.items():
        names = [factors[position].levels[index].name for index in wanted]
        document[factors[position].name] = names[0] if len(names) == 1 else names
    return document


def rule_document(rule: Rule, factors: Sequence[Factor]) -> dict[str, object]:
    """A feasibility rule as it may be written in a catalog."""
    document: dict[str, object] = (
        {"plans": list(rule.plans)}
        if rule.selection is None
        else {"mask": selection_document(rule.selection, factors)}
    )
    document["when" if rule.masks_when else "unless"] = predicates.document(rule.predicate)
    document["because"] = rule.because
    return document
