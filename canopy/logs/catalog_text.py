"""Catalog texts as a log needs them: plan order, identity, and a plain one where none was given.

Reading rules and masks is `policy.catalog`'s work; a log only has to know which plans there are.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import yaml

from canopy.domain.errors import CatalogError
from canopy.domain.ids import canonical_json, content_hash

_RESERVED: Final = {"%": "%25", ",": "%2C", "=": "%3D"}
"""What may not stand in the name of a level, and how it is written there."""


@dataclass(frozen=True, slots=True)
class CatalogOutline:
    """What a log needs of a catalog.

    Attributes:
        discipline: Whose plans these are.
        version: The author's name of this version.
        plans: Ids by action.
        catalog_hash: Identity of the content, as `policy.catalog` counts it for a catalog in its
            plain form.
    """

    discipline: str
    version: str
    plans: tuple[str, ...]
    catalog_hash: str


def outline(text: str, source: str = "catalog") -> CatalogOutline:
    """Plans and identity of a catalog.

    Args:
        text: The catalog as YAML.
        source: What errors call it.

    Raises:
        CatalogError: If the text is no catalog; its rules are not judged here.
    """
    try:
        content = yaml.safe_load(text)
        document = _normalised(content)
        plans = tuple(_plans(document))
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise CatalogError(
            source, f"is no plan catalog: {error!r}.", "`canopy log template` writes an example."
        ) from error
    if not plans:
        raise CatalogError(source, "names no plan.", "Give every factor at least one level.")
    return CatalogOutline(document["discipline"], document["version"], plans, _identity(document))


def catalog_of_plans(plans: Sequence[str], discipline: str, default: str | None = None) -> str:
    """A catalog that lists plans one by one, for a log that came without one.

    Ids of the form `factor=level,…` that all name the same factors give those factors; any other
    ids become the levels of a single factor `plan`.

    Args:
        plans: Ids by action.
        discipline: Whose plans these are.
        default: The plan that is always legal; None takes the first.
    """
    rows = [_parts(plan) for plan in plans]
    names = tuple(rows[0])
    if not names or any(tuple(row) != names for row in rows):
        names = ("plan",)
        rows = [{"plan": _level(plan)} for plan in plans]
    return listed_catalog(
        discipline, dict(zip(plans, rows, strict=True)), default=default or plans[0]
    )


def of_discipline(text: str, discipline: str) -> str:
    """The same catalog under another discipline's name; comments survive.

    Raises:
        CatalogError: If the text is no catalog.
    """
    if outline(text).discipline == discipline:
        return text
    line = f"discipline: {json.dumps(discipline, ensure_ascii=False)}"
    renamed, count = re.subn(r"(?m)^discipline\s*:.*$", lambda _: line, text, count=1)
    if count:
        return renamed
    content = yaml.safe_load(text) | {"discipline": discipline}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def listed_catalog(
    discipline: str,
    plans: Mapping[str, Mapping[str, str]],
    *,
    default: str,
    attributes: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """A catalog whose plans are listed one by one.

    Args:
        discipline: Whose plans these are.
        plans: Levels by factor, by plan id; every plan names the same factors.
        default: The plan that is always legal.
        attributes: Numbers per plan, by name.
    """
    factors = tuple(next(iter(plans.values())))
    document: dict[str, Any] = {
        "discipline": discipline,
        "version": "1",
        "factors": {
            factor: {"levels": sorted({row[factor] for row in plans.values()}, key=_level_order)}
            for factor in factors
        },
        "default": default,
        "plans": {plan: dict(row) for plan, row in plans.items()},
    }
    if attributes:
        document["attributes"] = {name: dict(values) for name, values in attributes.items()}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _level_order(level: str) -> tuple[bool, int, str]:
    """Numbers by value, then words by alphabet: independent of the order of the listing."""
    return not level.isdecimal(), int(level) if level.isdecimal() else 0, level


def _level(name: str) -> str:
    return "".join(_RESERVED.get(letter, letter) for letter in name)


def _parts(plan: str) -> dict[str, str]:
    # Factor to level; empty where the id has another form.
    found: dict[str, str] = {}
    for part in plan.split(","):
        factor, equals, level = part.partition("=")
        if not equals or not factor or not level or "=" in level or factor in found:
            return {}
        found[factor] = level
    return found


def _normalised(content: Any) -> dict[str, Any]:
    # The plain form: texts as text, weights and attributes as floats, bare levels as a list.
    document = dict(content)
    document["discipline"] = str(document["discipline"])
    document["version"] = str(document["version"])
    document["factors"] = {
        str(name): {"levels": _levels(factor["levels"])}
        for name, factor in document["factors"].items()
    }
    document["default"] = str(document["default"])
    if "plans" in document:
        document["plans"] = {
            str(plan): {str(factor): str(level) for factor, level in row.items()}
            for plan, row in document["plans"].items()
        }
    if "attributes" in document:
        document["attributes"] = {
            str(name): {str(plan): float(value) for plan, value in values.items()}
            for name, values in document["attributes"].items()
        }
    return document


def _levels(levels: Any) -> list[str] | dict[str, Any]:
    if not isinstance(levels, Mapping):
        return [str(level) for level in levels]
    entries = {str(name): dict(entry or {}) for name, entry in levels.items()}
    if not any(entries.values()):
        return list(entries)
    for entry in entries.values():
        if "weight" in entry:
            entry["weight"] = float(entry["weight"])
    return entries


def _plans(document: Mapping[str, Any]) -> Iterable[str]:
    if "plans" in document:
        return list(document["plans"])
    factors = {name: list(factor["levels"]) for name, factor in document["factors"].items()}
    forbidden = [
        {
            str(factor): {
                str(level) for level in (levels if isinstance(levels, list) else [levels])
            }
            for factor, levels in selection.items()
        }
        for selection in document.get("forbid") or ()
    ]
    rows = (dict(zip(factors, levels, strict=True)) for levels in product(*factors.values()))
    return [
        ",".join(f"{factor}={level}" for factor, level in row.items())
        for row in rows
        if not any(
            all(row[factor] in levels for factor, levels in selection.items())
            for selection in forbidden
        )
    ]


def _identity(document: Mapping[str, Any]) -> str:
    # The order of factors, levels and plans numbers the plans; canonical JSON sorts it away.
    ordered = dict(document) | {
        "order": [[name, list(factor["levels"])] for name, factor in document["factors"].items()],
        "listed": list(document["plans"]) if "plans" in document else None,
    }
    return content_hash(canonical_json(ordered))
