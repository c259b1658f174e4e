"""The plan catalog: factors, levels, what is never legal, and what is feasible when.

The plan space is enumerated in one numpy step; the id of a plan is worked out when somebody
asks for it. A plan is known outside by its id, which survives a new version of the catalog;
`action` is its index in this one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from canopy.domain.errors import CatalogError
from canopy.domain.ids import canonical_json, content_hash
from policy.arrays import BoolArray, FloatArray, IntArray, read_only
from policy.catalog_document import (
    factor_document,
    plan_document,
    rule_document,
    selection_document,
)
from policy.catalog_reader import (
    context_kinds,
    read_factors,
    read_name,
    read_rule,
    read_selection,
)
from policy.catalog_yaml import Spot, compose, dump
from policy.factors import Factor, Rule, Selection, product_levels
from policy.plan_ids import PlanIds, combination_numbers
from policy.predicates import Kind

MAX_PLANS: Final = 1_000_000
"""More combinations than this are refused: nobody could log or learn them one by one."""

_KEYS: Final = {
    "discipline", "version", "factors", "forbid", "feasibility", "default", "plans", "attributes",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Catalog:
    """The plans of one discipline, in one version.

    Attributes:
        discipline: Whose plans these are.
        version: The author's name of this version.
        factors: The dimensions of a plan.
        levels: Shape (n_plans, n_factors). Level position of each plan in each factor.
        default: Action of the plan that is always legal and never masked by a rule.
        weights: Shape (n_plans,), sums to 1: the doctrine policy before masking; None where
            the author gave no weights.
        attributes: Numbers per plan by name, each of shape (n_plans,), NaN where not given.
        rules: Feasibility rules over the live context.
        forbid: Combinations of levels that are never legal.
        listed: Ids of plans listed one by one; None where the plans are the product of levels.
        kinds: Type of every context key that a rule names.
    """

    discipline: str
    version: str
    factors: tuple[Factor, ...]
    levels: IntArray
    default: int
    weights: FloatArray | None = None
    attributes: Mapping[str, FloatArray] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    forbid: tuple[Selection, ...] = ()
    listed: tuple[str, ...] | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and self.content_hash == other.content_hash

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled forms hold closures; another process compiles its own.
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def n_plans(self) -> int:
        """How many plans there are."""
        return len(self.levels)

    @cached_property
    def plan_ids(self) -> PlanIds | tuple[str, ...]:
        """Id of every plan, by action; equal to the tuple of them."""
        if self.listed is not None:
            return self.listed
        if not self.forbid:
            return PlanIds(self.factors)
        sizes = [len(factor.levels) for factor in self.factors]
        return PlanIds(self.factors, combination_numbers(self.levels, sizes))

    @cached_property
    def _listed_actions(self) -> dict[str, int]:
        return {plan: action for action, plan in enumerate(self.listed or ())}

    @cached_property
    def rule_masks(self) -> BoolArray:
        """Shape (n_rules, n_plans): which plans each rule masks when it fires."""
        masks = np.zeros((len(self.rules), self.n_plans), dtype=np.bool_)
        for position, rule in enumerate(self.rules):
            if rule.selection is not None:
                masks[position] = rule.selection.matches(self.levels)
            masks[position, [self.index(plan) for plan in rule.plans]] = True
        return read_only(masks)

    @cached_property
    def compiled(self) -> dict[str, Any]:
        """Where other modules keep what they derived from this catalog."""
        return {}

    @cached_property
    def content_hash(self) -> str:
        """Identity of the catalog: a hash of its content, order of factors and levels included."""
        document = self.document()
        # Canonical JSON sorts keys, but the order of factors, levels and plans numbers the plans.
        document["order"] = [
            [factor.name, [level.name for level in factor.levels]] for factor in self.factors
        ]
        document["listed"] = None if self.listed is None else list(self.listed)
        return content_hash(canonical_json(document))

    def index(self, plan_id: str) -> int:
        """The action of a plan.

        Raises:
            CatalogError: If the catalog has no such plan.
        """
        action = self.find(plan_id)
        if action is None:
            raise CatalogError(
                f"catalog {self.discipline} {self.version}",
                f"has no plan {plan_id!r}.",
                f"Plans are named like {self.plan_ids[self.default]!r}.",
            )
        return action

    def find(self, plan_id: object) -> int | None:
        """The action of a plan; None where the catalog has no such plan."""
        plan_ids = self.plan_ids
        if isinstance(plan_ids, PlanIds):
            return plan_ids.find(plan_id)
        return self._listed_actions.get(plan_id) if isinstance(plan_id, str) else None

    def document(self) -> dict[str, Any]:
        """The catalog as plain values; `parse_catalog` of its YAML gives the same catalog."""
        document: dict[str, Any] = {
            "discipline": self.discipline,
            "version": self.version,
            "factors": {factor.name: factor_document(factor) for factor in self.factors},
        }
        if self.forbid:
            document["forbid"] = [selection_document(s, self.factors) for s in self.forbid]
        if self.rules:
            document["feasibility"] = [rule_document(rule, self.factors) for rule in self.rules]
        document["default"] = self.plan_ids[self.default]
        if self.listed is not None:
            document["plans"] = {
                plan: plan_document(row, self.factors)
                for plan, row in zip(self.listed, self.levels.tolist(), strict=True)
            }
        if self.attributes:
            document["attributes"] = {
                name: {
                    self.plan_ids[action]: float(column[action])
                    for action in np.flatnonzero(~np.isnan(column)).tolist()
                }
                for name, column in self.attributes.items()
            }
        return document

    def to_yaml(self) -> str:
        """The catalog as a file's text."""
        return dump(self.document())


def _legal(levels: IntArray, forbid: Sequence[Selection]) -> BoolArray:
    """Which combinations no constraint forbids."""
    legal = np.ones(len(levels), dtype=np.bool_)
    for selection in forbid:
        legal &= ~selection.matches(levels)
    return legal


def load_catalog(path: Path | str) -> Catalog:
    """The catalog in a YAML file.

    Raises:
        CatalogError: If the file cannot be read or is wrong; the place is file:line:key.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CatalogError(
            f"{path}:0:", f"cannot be read: {error.strerror}.", "Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise CatalogError(f"{path}:0:", "is not UTF-8.", "Save it as UTF-8.") from error
    return parse_catalog(text, str(path))


def parse_catalog(text: str, source: str = "catalog") -> Catalog:
    """The catalog in a YAML text.

    Args:
        text: The YAML.
        source: What errors call it: a file name, usually.

    Raises:
        CatalogError: If it is wrong; the place is file:line:key.
    """
    top = compose(text, source)
    entries = top.mapping(_KEYS)
    for key in ("discipline", "version", "factors", "default"):
        if key not in entries:
            raise CatalogError(f"{source}:1:{key}", "is missing.", f"Write `{key}: ...`.")
    factors = read_factors(entries["factors"])
    forbid = tuple(read_selection(s, factors) for s in _items(entries, "forbid"))
    rules = tuple(read_rule(s, factors) for s in _items(entries, "feasibility"))
    if "plans" in entries:
        listed, levels = _listed_plans(entries["plans"], factors, forbid)
    else:
        listed, levels = None, _enumerated_plans(entries["factors"], factors, forbid)
    draft = Catalog(
        discipline=read_name(entries["discipline"]),
        version=entries["version"].text(),
        factors=factors,
        levels=read_only(levels),
        default=0,
        rules=rules,
        forbid=forbid,
        listed=listed,
        kinds=context_kinds(entries.get("feasibility"), rules),
    )
    return _completed(draft, entries)


def _items(entries: Mapping[str, Spot], key: str) -> list[Spot]:
    """The entries of an optional list."""
    return entries[key].items() if key in entries else []


def _completed(draft: Catalog, entries: Mapping[str, Spot]) -> Catalog:
    """The catalog with everything that refers to plans by id, checked against them."""
    for position, rule in enumerate(draft.rules):
        for plan in rule.plans:
            _action(draft, plan, entries["feasibility"].items()[position])
    default = _default(draft, entries["default"])
    _check_default(draft, default, entries)
    values = {part.name: getattr(draft, part.name) for part in fields(draft)}
    values["default"] = default
    values["weights"] = _weights(draft, default, entries["factors"])
    if "attributes" in entries:
        values["attributes"] = _attributes(draft, entries["attributes"])
    return Catalog(**values)


def _action(catalog: Catalog, plan: str, spot: Spot) -> int:
    """The action of a plan that is named at a place.

    Raises:
        CatalogError: If there is no such plan.
    """
    try:
        return catalog.index(plan)
    except CatalogError:
        raise CatalogError(
            spot.place,
            f"names {plan!r}, which is no legal plan of this catalog.",
            f"Plans are named like {catalog.plan_ids[0]!r}.",
        ) from None


def _default(catalog: Catalog, spot: Spot) -> int:
    """The action of the default plan."""
    return _action(catalog, spot.text(), spot)


def _check_default(catalog: Catalog, default: int, entries: Mapping[str, Spot]) -> None:
    """Refuse a rule that could ever mask the default plan.

    Raises:
        CatalogError: If a rule selects it; no context is asked, so that none can.
    """
    for position in np.flatnonzero(catalog.rule_masks[:, default]):
        raise CatalogError(
            entries["feasibility"].items()[int(position)].place,
            f"can mask the default plan {catalog.plan_ids[default]!r}.",
            "Choose a default that no rule selects: it is served when nothing else may be.",
        )


def _enumerated_plans(
    spot: Spot, factors: Sequence[Factor], forbid: Sequence[Selection]
) -> IntArray:
    """Levels of every legal combination, shape (n_plans, n_factors), last factor fastest.

    Raises:
        CatalogError: If there are none, or more than `MAX_PLANS`.
    """
    n_combinations = 1
    for factor in factors:
        n_combinations *= len(factor.levels)
    if n_combinations > MAX_PLANS:
        raise CatalogError(
            spot.place,
            f"span {n_combinations:,} plans, more than {MAX_PLANS:,}.",
            "Drop levels, or list the plans one by one under `plans`.",
        )
    levels = product_levels([len(factor.levels) for factor in factors])
    if forbid:
        levels = levels[_legal(levels, forbid)]
    if not len(levels):
        raise CatalogError(spot.place, "leave no legal plan.", "Forbid fewer combinations.")
    return levels


def _listed_plans(
    spot: Spot, factors: Sequence[Factor], forbid: Sequence[Selection]
) -> tuple[tuple[str, ...], IntArray]:
    """Ids and levels of plans listed one by one.

    Raises:
        CatalogError: If a plan misses a factor, has an unknown level, or is forbidden.
    """
    entries = spot.mapping()
    if not entries:
        raise CatalogError(spot.place, "lists no plan.", "List at least one.")
    rows = []
    for plan, entry in entries.items():
        chosen = read_selection(entry, factors).levels
        if len(chosen) != len(factors) or any(len(wanted) != 1 for wanted in chosen.values()):
            raise CatalogError(
                entry.place, f"does not give plan {plan!r} one level per factor.", "Give it each."
            )
        rows.append([chosen[position][0] for position in range(len(factors))])
    levels = np.array(rows, dtype=np.intp)
    for position in np.flatnonzero(~_legal(levels, forbid)):
        plan = list(entries)[position]
        raise CatalogError(
            entries[plan].place, "is forbidden by `forbid`.", "Drop it, or the constraint."
        )
    return tuple(entries), levels


def _weights(catalog: Catalog, default: int, spot: Spot) -> FloatArray | None:
    """The doctrine policy over all plans, shape (n_plans,); None without weights.

    Raises:
        CatalogError: If the default plan, the last resort, would have no weight.
    """
    weighted = [
        f for f, factor in enumerate(catalog.factors) if factor.levels[0].weight is not None
    ]
    if not weighted:
        return None
    weights = np.ones(catalog.n_plans)
    with np.errstate(over="ignore", invalid="ignore"):
        for position in weighted:
            of_level = [level.weight for level in catalog.factors[position].levels]
            weights *= np.array(of_level, dtype=np.float64)[catalog.levels[:, position]]
        total = float(weights.sum())
    if not weights[default] > 0 or not np.isfinite(total):
        raise CatalogError(
            spot.place, "weigh the default plan with 0, or overflow.", "Give its levels a weight."
        )
    return read_only(weights / total)


def _attributes(catalog: Catalog, spot: Spot) -> dict[str, FloatArray]:
    """Numbers per plan, NaN where the author gave none."""
    attributes = {}
    for name, entry in spot.mapping().items():
        column = np.full(catalog.n_plans, np.nan)
        for plan, value in entry.mapping().items():
            column[_action(catalog, plan, value)] = value.number()
        attributes[name] = read_only(column)
    return attributes
