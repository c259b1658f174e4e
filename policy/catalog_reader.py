"""The sections of a catalog file, read into values; every error names file, line and key."""

from collections.abc import Sequence
from typing import Final

import yaml

from canopy.domain.errors import CatalogError
from policy.catalog_yaml import Spot, leaves
from policy.factors import Factor, Level, Rule, Selection
from policy.predicates import Has, Kind, comparisons, kind_of, read_predicate

_RESERVED: Final = set(",=")


def read_name(spot: Spot) -> str:
    """A name that may stand in a plan id.

    Raises:
        CatalogError: If it holds a comma or an equals sign.
    """
    name = spot.text()
    if _RESERVED & set(name):
        raise CatalogError(
            spot.place, f"{name!r} holds a comma or an equals sign.", "Use another name."
        )
    return name


def read_factors(spot: Spot) -> tuple[Factor, ...]:
    """The factors of a catalog, in its order.

    Raises:
        CatalogError: If there is none, or one of them is malformed.
    """
    factors = tuple(_read_factor(name, entry) for name, entry in spot.mapping().items())
    if not factors:
        raise CatalogError(spot.place, "names no factor.", "Name at least one, with its levels.")
    return factors


def _read_factor(name: str, spot: Spot) -> Factor:
    """One factor.

    Raises:
        CatalogError: If it has no levels, a level twice, or weights for some levels only.
    """
    if _RESERVED & set(name):
        raise CatalogError(
            spot.place, f"{name!r} holds a comma or an equals sign.", "Use another name."
        )
    entries = spot.mapping({"levels"})
    if "levels" not in entries:
        raise CatalogError(spot.place, "has no `levels`.", "List the levels of the factor.")
    section = entries["levels"]
    if isinstance(section.node, yaml.SequenceNode):
        levels = [Level(read_name(item)) for item in section.items()]
    else:
        levels = [_read_level(level, entry) for level, entry in section.mapping().items()]
    if not levels:
        raise CatalogError(section.place, "lists no level.", "List at least one.")
    names = [level.name for level in levels]
    for position, level in enumerate(names):
        if level in names[:position]:
            raise CatalogError(section.place, f"lists {level!r} twice.", "Keep one of the two.")
    if len({level.weight is None for level in levels}) != 1:
        raise CatalogError(
            section.place, "weighs some levels and not others.", "Weigh all of them or none."
        )
    return Factor(name, tuple(levels))


def _read_level(name: str, spot: Spot) -> Level:
    """One level with its doctrine and weight.

    Raises:
        CatalogError: If its name cannot stand in a plan id or its weight is negative.
    """
    if _RESERVED & set(name):
        raise CatalogError(
            spot.place, f"{name!r} holds a comma or an equals sign.", "Use another name."
        )
    if isinstance(spot.node, yaml.ScalarNode) and not str(spot.node.value).strip():
        return Level(name)
    entries = spot.mapping({"doctrine", "weight"})
    weight = entries["weight"].number() if "weight" in entries else None
    if weight is not None and weight < 0:
        raise CatalogError(entries["weight"].place, "is negative.", "Weights are 0 or more.")
    return Level(name, entries["doctrine"].text() if "doctrine" in entries else None, weight)


def read_selection(spot: Spot, factors: Sequence[Factor]) -> Selection:
    """Some plans, described by their levels.

    Raises:
        CatalogError: If a factor or a level is unknown, or nothing is described.
    """
    positions = {factor.name: position for position, factor in enumerate(factors)}
    levels: dict[int, tuple[int, ...]] = {}
    for name, entry in spot.mapping(positions).items():
        factor = factors[positions[name]]
        wanted = []
        for leaf in leaves(entry):
            index = factor.index(leaf.text())
            if index is None:
                known = ", ".join(level.name for level in factor.levels)
                raise CatalogError(
                    leaf.place, f"{leaf.text()!r} is no level of {name}.", f"Use one of: {known}."
                )
            wanted.append(index)
        if not wanted:
            raise CatalogError(entry.place, "lists no level.", "List at least one.")
        levels[positions[name]] = tuple(sorted(set(wanted)))
    if not levels:
        raise CatalogError(spot.place, "describes no plan.", "Name at least one factor's level.")
    return Selection(dict(sorted(levels.items())))


def read_rule(spot: Spot, factors: Sequence[Factor]) -> Rule:
    """One feasibility rule.

    Raises:
        CatalogError: If it does not say which plans, under which condition, and why.
    """
    entries = spot.mapping({"mask", "plans", "when", "unless", "because"})
    if ("mask" in entries) == ("plans" in entries):
        raise CatalogError(
            spot.place, "does not say once which plans.", "Write either `mask` or `plans`."
        )
    if ("when" in entries) == ("unless" in entries):
        raise CatalogError(
            spot.place, "has not exactly one condition.", "Write either `when` or `unless`."
        )
    if "because" not in entries:
        raise CatalogError(spot.place, "gives no reason.", "Write `because: ...` for its readers.")
    return Rule(
        selection=read_selection(entries["mask"], factors) if "mask" in entries else None,
        plans=tuple(item.text() for item in leaves(entries["plans"])) if "plans" in entries else (),
        predicate=read_predicate(entries["when" if "when" in entries else "unless"]),
        masks_when="when" in entries,
        because=entries["because"].text(),
    )


def context_kinds(spot: Spot | None, rules: Sequence[Rule]) -> dict[str, Kind]:
    """The type of every context key that a rule names.

    Raises:
        CatalogError: If two rules ask the same key for different types.
    """
    kinds: dict[str, Kind] = {}
    for position, rule in enumerate(rules):
        for leaf in comparisons(rule.predicate):
            kind = Kind.ANY if isinstance(leaf, Has) else kind_of(leaf.literals[0])
            before = kinds.setdefault(leaf.key, kind)
            if Kind.ANY in {before, kind}:
                kinds[leaf.key] = before if kind is Kind.ANY else kind
            elif before is not kind:
                place = spot.items()[position].place if spot is not None else "feasibility"
                raise CatalogError(
                    place,
                    f"asks `{leaf.key}` for a {kind}, an earlier comparison for a {before}.",
                    "One key has one type.",
                )
    return kinds
