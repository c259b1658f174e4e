"""What a new version of a catalog changes: levels, plans, the default, weights and rules.

Plans are the same where their ids are. Laws: a catalog does not differ from itself, and the
difference seen from the other side is the mirror image.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from canopy.domain.ids import canonical_json
from policy.arrays import IntArray, read_only
from policy.catalog import Catalog
from policy.catalog_document import rule_document, selection_document
from policy.plan_ids import combination_numbers

MOST_LISTED: Final = 20
"""Ids of plans that a document lists of each kind, unless told otherwise."""

GONE: Final = -1
"""Stands in a mapping for a plan that the other catalog does not have."""


@dataclass(frozen=True, slots=True)
class LevelName:
    """A level of a factor, by name."""

    factor: str
    level: str


@dataclass(frozen=True, slots=True)
class WeightChange:
    """A level whose doctrine weight differs; None where it has none.

    Attributes:
        level: Which level.
        old: Its weight before.
        new: Its weight after.
    """

    level: LevelName
    old: float | None
    new: float | None


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A feasibility rule that says the same `because` with another content.

    Attributes:
        because: Its reason, in both.
        old: The rule before, as it may be written in a catalog.
        new: The rule after.
    """

    because: str
    old: Mapping[str, Any]
    new: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class CatalogDiff:
    """The difference between two catalogs.

    Attributes:
        old: The catalog before.
        new: The catalog after.
        factors_added: Names of the factors that only `new` has.
        factors_removed: Names of the factors that only `old` has.
        levels_added: Levels that only `new` has, of factors that both have.
        levels_removed: Levels that only `old` has, of factors that both have.
        mapping: Shape (old plans,), read-only: old action to new action; `GONE` where gone.
        added: Actions in `new` of the plans that `old` does not have, ascending.
        removed: Actions in `old` of the plans that `new` does not have, ascending.
        kept: Actions in `old` of the plans that both have, ascending.
        default: Ids of the default plans before and after; None where they are the same.
        weights: Levels in both whose doctrine weights differ.
        doctrine: Levels in both whose line of doctrine differs.
        rules_added: Rules that only `new` has, as they may be written.
        rules_removed: Rules that only `old` has.
        rules_changed: Rules whose reason stayed and whose content did not.
        forbid_added: Constraints that only `new` has, as they may be written.
        forbid_removed: Constraints that only `old` has.
        attributes: Names of the attributes that were added, removed, or differ in a kept plan.
    """

    old: Catalog
    new: Catalog
    factors_added: tuple[str, ...]
    factors_removed: tuple[str, ...]
    levels_added: tuple[LevelName, ...]
    levels_removed: tuple[LevelName, ...]
    mapping: IntArray
    added: IntArray
    removed: IntArray
    kept: IntArray
    default: tuple[str, str] | None
    weights: tuple[WeightChange, ...]
    doctrine: tuple[LevelName, ...]
    rules_added: tuple[Mapping[str, Any], ...]
    rules_removed: tuple[Mapping[str, Any], ...]
    rules_changed: tuple[RuleChange, ...]
    forbid_added: tuple[Mapping[str, Any], ...]
    forbid_removed: tuple[Mapping[str, Any], ...]
    attributes: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """True if nothing differs but, perhaps, the version's name and the order of plans."""
        return (
            self.default is None
            and not any(map(len, (self.added, self.removed)))
            and not any((
                self.factors_added, self.factors_removed, self.levels_added,
                self.levels_removed, self.weights, self.doctrine, self.rules_added,
                self.rules_removed, self.rules_changed, self.forbid_added,
                self.forbid_removed, self.attributes,
            ))
        )  # fmt: skip

    @property
    def is_renumbered(self) -> bool:
        """True if a plan that stays has another action than before."""
        return bool((self.mapping[self.kept] != self.kept).any())

    def document(self, most: int = MOST_LISTED) -> dict[str, Any]:
        """The difference as plain values.

        Args:
            most: Most plan ids listed of each kind; the counts are always whole.
        """
        return {
            "discipline": self.new.discipline,
            "old": {"version": self.old.version, "content_hash": self.old.content_hash},
            "new": {"version": self.new.version, "content_hash": self.new.content_hash},
            "is_empty": self.is_empty,
            "factors": {"added": list(self.factors_added), "removed": list(self.factors_removed)},
            "levels": {
                "added": [f"{name.factor}={name.level}" for name in self.levels_added],
                "removed": [f"{name.factor}={name.level}" for name in self.levels_removed],
            },
            "plans": {
                "n_old": self.old.n_plans,
                "n_new": self.new.n_plans,
                "n_kept": len(self.kept),
                "n_added": len(self.added),
                "n_removed": len(self.removed),
                "is_renumbered": self.is_renumbered,
                "added": _some(self.new, self.added, most),
                "removed": _some(self.old, self.removed, most),
            },
            "default": None
            if self.default is None
            else {"old": self.default[0], "new": self.default[1]},
            "weights": [
                {"level": f"{c.level.factor}={c.level.level}", "old": c.old, "new": c.new}
                for c in self.weights
            ],
            "doctrine": [f"{name.factor}={name.level}" for name in self.doctrine],
            "rules": {
                "added": [dict(rule) for rule in self.rules_added],
                "removed": [dict(rule) for rule in self.rules_removed],
                "changed": [
                    {"because": c.because, "old": dict(c.old), "new": dict(c.new)}
                    for c in self.rules_changed
                ],
            },
            "forbid": {
                "added": [dict(constraint) for constraint in self.forbid_added],
                "removed": [dict(constraint) for constraint in self.forbid_removed],
            },
            "attributes": list(self.attributes),
        }


def _some(catalog: Catalog, actions: IntArray, most: int) -> list[str]:
    return [catalog.plan_ids[action] for action in actions[: max(0, most)].tolist()]


def diff_catalogs(old: Catalog, new: Catalog) -> CatalogDiff:
    """What differs between two catalogs, usually two versions of one discipline.

    Args:
        old: The catalog before.
        new: The catalog after.

    Returns:
        The difference; its arrays are read-only.
    """
    mapping = plan_mapping(old, new)
    is_kept = mapping != GONE
    is_known = np.zeros(new.n_plans, dtype=np.bool_)
    is_known[mapping[is_kept]] = True
    before, after = _levels(old), _levels(new)
    shared = {factor.name for factor in old.factors} & {factor.name for factor in new.factors}
    both = [name for name in before if name in after]
    rules_removed, rules_added, rules_changed = _rules(old, new)
    defaults = old.plan_ids[old.default], new.plan_ids[new.default]
    return CatalogDiff(
        old=old,
        new=new,
        factors_added=tuple(f.name for f in new.factors if f.name not in shared),
        factors_removed=tuple(f.name for f in old.factors if f.name not in shared),
        levels_added=tuple(n for n in after if n.factor in shared and n not in before),
        levels_removed=tuple(n for n in before if n.factor in shared and n not in after),
        mapping=read_only(mapping),
        added=read_only(np.flatnonzero(~is_known)),
        removed=read_only(np.flatnonzero(~is_kept)),
        kept=read_only(np.flatnonzero(is_kept)),
        default=None if defaults[0] == defaults[1] else defaults,
        weights=tuple(
            WeightChange(name, before[name][0], after[name][0])
            for name in both
            if before[name][0] != after[name][0]
        ),
        doctrine=tuple(name for name in both if before[name][1] != after[name][1]),
        rules_added=rules_added,
        rules_removed=rules_removed,
        rules_changed=rules_changed,
        forbid_added=_only(_constraints(new), _constraints(old)),
        forbid_removed=_only(_constraints(old), _constraints(new)),
        attributes=_attributes(old, new, mapping),
    )


def plan_mapping(old: Catalog, new: Catalog) -> IntArray:
    """The action in `new` of each plan of `old`, shape (old plans,); `GONE` where gone."""
    if old.listed is None and new.listed is None:
        return _product_mapping(old, new)
    mapping = np.full(old.n_plans, GONE, dtype=np.intp)
    # Whichever side is listed is walked; the other answers from arithmetic or a look-up.
    if new.listed is None:
        for action, plan in enumerate(old.plan_ids):
            found = new.find(plan)
            mapping[action] = GONE if found is None else found
        return mapping
    for there, plan in enumerate(new.plan_ids):
        here = old.find(plan)
        if here is not None:
            mapping[here] = there
    return mapping


def _product_mapping(old: Catalog, new: Catalog) -> IntArray:
    """`plan_mapping` of two enumerated catalogs, without a single id."""
    mapping = np.full(old.n_plans, GONE, dtype=np.intp)
    if [factor.name for factor in old.factors] != [factor.name for factor in new.factors]:
        return mapping
    sizes = [len(factor.levels) for factor in new.factors]
    levels = np.empty_like(old.levels)
    is_there = np.ones(old.n_plans, dtype=np.bool_)
    for position, (mine, theirs) in enumerate(zip(old.factors, new.factors, strict=True)):
        known = {level.name: index for index, level in enumerate(theirs.levels)}
        moved = np.array([known.get(level.name, GONE) for level in mine.levels], dtype=np.intp)
        levels[:, position] = moved[old.levels[:, position]]
        is_there &= levels[:, position] != GONE
    candidates = np.flatnonzero(is_there)
    wanted = combination_numbers(levels[candidates], sizes)
    numbers = combination_numbers(new.levels, sizes)
    found = np.minimum(numbers.searchsorted(wanted), new.n_plans - 1)
    is_legal = numbers[found] == wanted
    mapping[candidates[is_legal]] = found[is_legal]
    return mapping


def _levels(catalog: Catalog) -> dict[LevelName, tuple[float | None, str | None]]:
    """Weight and doctrine of every level, in the catalog's order."""
    return {
        LevelName(factor.name, level.name): (level.weight, level.doctrine)
        for factor in catalog.factors
        for level in factor.levels
    }


def _constraints(catalog: Catalog) -> list[dict[str, Any]]:
    return [selection_document(selection, catalog.factors) for selection in catalog.forbid]


def _only(
    mine: Iterable[dict[str, Any]], theirs: Iterable[dict[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """The documents of one side that the other lacks, each as often as it lacks it."""
    spare = Counter(canonical_json(document) for document in theirs)
    only = []
    for document in mine:
        text = canonical_json(document)
        if spare[text]:
            spare[text] -= 1
        else:
            only.append(document)
    return tuple(only)


def _rules(
    old: Catalog, new: Catalog
) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...], tuple[RuleChange, ...]]:
    """Rules removed, added and changed: what is left of each side, paired by its reason."""
    before = [rule_document(rule, old.factors) for rule in old.rules]
    after = [rule_document(rule, new.factors) for rule in new.rules]
    gone, come = _only(before, after), list(_only(after, before))
    removed: list[dict[str, Any]] = []
    changed: list[RuleChange] = []
    for rule in gone:
        position = _first_because(come, str(rule["because"]))
        if position is None:
            removed.append(rule)
        else:
            changed.append(RuleChange(str(rule["because"]), rule, come.pop(position)))
    return tuple(removed), tuple(come), tuple(changed)


def _first_because(rules: Sequence[Mapping[str, Any]], because: str) -> int | None:
    return next((i for i, rule in enumerate(rules) if rule["because"] == because), None)


def _attributes(old: Catalog, new: Catalog, mapping: IntArray) -> tuple[str, ...]:
    """Names of the attributes that only one side has, or that differ in a plan of both."""
    is_kept = mapping != GONE
    return tuple(
        name
        for name in sorted(old.attributes.keys() | new.attributes.keys())
        if name not in old.attributes
        or name not in new.attributes
        or not np.array_equal(
            old.attributes[name][is_kept], new.attributes[name][mapping[is_kept]], equal_nan=True
        )
    )
