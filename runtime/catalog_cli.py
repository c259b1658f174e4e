"""`canopy catalog check|show|diff|add`: what may be chosen, and what changing it would touch."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from canopy.domain.errors import EXIT_BAD_INPUT, CatalogError, InputError
from canopy.domain.tenant import FLEET
from canopy.output import emit_facts, emit_json, emit_table, json_option, note
from canopy.settings import load_settings
from canopy.storage.database import Database
from canopy.storage.servers import endpoints_if_running
from canopy.storage.unit_of_work import UnitOfWork
from policy.catalog import Catalog, load_catalog
from policy.catalog_diff import diff_catalogs
from policy.catalog_document import rule_document, selection_document
from policy.masks import mask_context
from runtime.catalog_changes import (
    Impact,
    add_catalog,
    catalog_in_force,
    impact_of,
    named_catalog,
)
from runtime.preview import read_context

MOST_SHOWN: Final = 20
"""Plans that a table lists unless told; counts are always whole."""

_POINT_MASS: Final = (
    "none: before a policy serves, every choice is the default plan, and nothing else can be "
    "evaluated from that log. Give the levels `weight`s, or serve a policy with a floor."
)
_OVERLAP: Final = "yes: the log has overlap from its first day"

_config_option: Callable[[Any], Any] = click.option(
    "--config", type=click.Path(path_type=Path), help="Config file to read."
)
_tenant_option: Callable[[Any], Any] = click.option(
    "--tenant", default=FLEET, show_default=True, help="On whose behalf; the fleet is everybody."
)


@contextmanager
def _record(config: Path | None, tenant: str, *, needed: bool) -> Iterator[UnitOfWork | None]:
    """The record; None where it is not needed and no server runs here."""
    settings = load_settings(config).settings
    if not needed and endpoints_if_running(settings) is None:
        yield None
        return
    with Database.connect(settings) as database, database.unit_of_work(tenant) as work:
        yield work


def facts_of(catalog: Catalog) -> dict[str, Any]:
    """What a catalog amounts to, as plain values."""
    never = int(np.count_nonzero(~_ever_feasible(catalog)))
    return {
        "discipline": catalog.discipline,
        "version": catalog.version,
        "content_hash": catalog.content_hash,
        "n_factors": len(catalog.factors),
        "n_levels": sum(len(factor.levels) for factor in catalog.factors),
        "n_plans": catalog.n_plans,
        "n_rules": len(catalog.rules),
        "n_forbidden": len(catalog.forbid),
        "default": catalog.plan_ids[catalog.default],
        "has_doctrine_weights": catalog.weights is not None,
        "n_weightless": None
        if catalog.weights is None
        else int(np.count_nonzero(catalog.weights == 0)),
        "n_never_feasible": never,
    }


def _ever_feasible(catalog: Catalog) -> Any:
    """Plans that no pair of opposite rules masks in every context, shape (n_plans,)."""
    always = np.zeros(catalog.n_plans, dtype=np.bool_)
    rules = catalog.rules
    for i, rule in enumerate(rules):
        for j in range(i):
            if rule.predicate == rules[j].predicate and rule.masks_when != rules[j].masks_when:
                always |= catalog.rule_masks[i] & catalog.rule_masks[j]
    return ~always


@click.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def catalog_check(*, files: tuple[Path, ...], as_json: bool) -> None:
    """Check catalog FILES: every fault is named by file, line and key.

    Raises:
        Exit: With code 1 if a file is wrong.
    """
    checked: list[dict[str, Any]] = []
    for path in files:
        try:
            catalog = load_catalog(path)
        except CatalogError as error:
            fault = {"place": error.place, "problem": error.problem, "remedy": error.remedy}
            checked.append({"file": str(path), "ok": False, "fault": fault})
            note(f"canopy: {error}")
        else:
            checked.append({"file": str(path), "ok": True, **facts_of(catalog)})
    if as_json:
        emit_json({"files": checked})
    else:
        for facts in checked:
            if facts["ok"]:
                words = _OVERLAP if facts["has_doctrine_weights"] else _POINT_MASS
                emit_facts(f"{facts['file']}: sound", facts | {"has_doctrine_weights": words})
    if not all(facts["ok"] for facts in checked):
        raise click.exceptions.Exit(EXIT_BAD_INPUT)


@click.command("show")
@click.argument("catalog", required=False)
@click.option("--discipline", help="Show what this discipline chooses from now.")
@_tenant_option
@click.option("--context", help="A JSON object, or a file that holds one: shows its mask.")
@click.option("--plans", "n_listed", type=click.IntRange(0), help="List so many plans.")
@_config_option
@json_option
def catalog_show(
    *,
    catalog: str | None,
    discipline: str | None,
    tenant: str,
    context: str | None,
    n_listed: int | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Show CATALOG (a file, a stored hash or its beginning), or what a discipline chooses from.

    Raises:
        InputError: If not exactly one of CATALOG and --discipline is given.
    """
    if (catalog is None) == (discipline is None):
        raise InputError("catalog show", "expected CATALOG or --discipline.", "Name one.")
    with _record(config, tenant, needed=discipline is not None) as work:
        found = (
            catalog_in_force(work, discipline)
            if work is not None and discipline is not None
            else named_catalog(work, catalog or "")
        )
    n = MOST_SHOWN if n_listed is None else n_listed
    document = _shown(found, n) | ({} if context is None else _masked(found, context, n))
    if as_json:
        emit_json(document)
    else:
        _show(document)


def _shown(catalog: Catalog, n: int) -> dict[str, Any]:
    return facts_of(catalog) | {
        "factors": [
            {
                "name": factor.name,
                "levels": [
                    {"name": level.name, "weight": level.weight, "doctrine": level.doctrine}
                    for level in factor.levels
                ],
            }
            for factor in catalog.factors
        ],
        "forbid": [selection_document(one, catalog.factors) for one in catalog.forbid],
        "rules": [
            rule_document(rule, catalog.factors) | {"n_masked": int(n_masked)}
            for rule, n_masked in zip(catalog.rules, catalog.rule_masks.sum(axis=1), strict=True)
        ],
        "plans": list(catalog.plan_ids[:n]),
    }


def _masked(catalog: Catalog, context: str, n: int) -> dict[str, Any]:
    mask = mask_context(catalog, read_context(context))
    masked = np.flatnonzero(~mask.feasible).tolist()
    reasons = [mask.reason(action) or "" for action in masked]
    listed = zip(masked[:n], reasons, strict=False)
    return {
        "n_feasible": mask.n_feasible,
        "masked_by": dict(Counter(reasons)),
        "masked": {catalog.plan_ids[action]: why for action, why in listed},
    }


def _show(document: dict[str, Any]) -> None:
    whole = ("factors", "forbid", "rules", "plans", "masked", "masked_by")
    facts = {name: value for name, value in document.items() if name not in whole}
    emit_facts(f"Catalog of {document['discipline']}", facts)
    emit_table(
        "Levels",
        ("factor", "level", "weight", "doctrine"),
        [
            (factor["name"], level["name"], level["weight"], level["doctrine"])
            for factor in document["factors"]
            for level in factor["levels"]
        ],
    )
    if document["forbid"]:
        emit_table("Never legal", ("combination",), [[str(one)] for one in document["forbid"]])
    if document["rules"]:
        emit_table(
            "Feasibility",
            ("masks", "plans", "when", "because"),
            [
                (
                    str(rule.get("mask", rule.get("plans"))),
                    rule["n_masked"],
                    f"when {rule['when']}" if "when" in rule else f"unless {rule.get('unless')}",
                    rule["because"],
                )
                for rule in document["rules"]
            ],
        )
    n_plans = document["n_plans"]
    caption = f"{len(document['plans'])} of {n_plans:,}; --plans N lists more."
    emit_table("Plans", ("plan",), [[plan] for plan in document["plans"]], caption=caption)
    if "masked" in document:
        emit_facts(f"Masked: {n_plans - document['n_feasible']:,} plans", document["masked_by"])
        emit_table("Masked plans", ("plan", "because"), list(document["masked"].items()))


@click.command("diff")
@click.argument("names", nargs=-1, required=True, metavar="[OLD] NEW")
@click.option("--discipline", help="Compare NEW with what this discipline chooses from now.")
@_tenant_option
@click.option("--plans", "n_listed", default=MOST_SHOWN, help="Most plans listed of each kind.")
@_config_option
@json_option
def catalog_diff(
    *,
    names: tuple[str, ...],
    discipline: str | None,
    tenant: str,
    n_listed: int,
    config: Path | None,
    as_json: bool,
) -> None:
    """Say what differs from OLD to NEW, and which logged episodes and live policies it touches.

    Each is a file, a stored hash or its beginning; with --discipline OLD is what serves now.

    Raises:
        InputError: If the catalogs are not named as above.
    """
    wanted = 2 if discipline is None else 1
    if len(names) != wanted:
        raise InputError(
            "catalog diff", f"{len(names)} catalogs are named, not {wanted}.",
            "Name OLD and NEW, or --discipline and NEW.",
        )  # fmt: skip
    with _record(config, tenant, needed=discipline is not None) as work:
        new = named_catalog(work, names[-1])
        if discipline is not None and work is not None:
            old = catalog_in_force(work, discipline)
        else:
            old = named_catalog(work, names[0])
        diff = diff_catalogs(old, new)
        impact = None if work is None else impact_of(work, diff)
    document = diff.document(n_listed)
    document["impact"] = None if impact is None else impact.document(n_listed)
    if as_json:
        emit_json(document)
    else:
        _show_diff(document, impact)


def _show_diff(document: dict[str, Any], impact: Impact | None) -> None:
    plans = document["plans"]
    changes = {
        "factors": document["factors"],
        "levels": document["levels"],
        "default": document["default"],
        "doctrine weights": document["weights"],
        "rules": document["rules"],
        "forbidden": document["forbid"],
        "attributes": document["attributes"],
    }
    rows = [(name, _words(change)) for name, change in changes.items()]
    emit_table("What differs", ("what", "how"), [row for row in rows if row[1]])
    emit_facts("Plans", {name: value for name, value in plans.items() if name[:2] in {"n_", "is"}})
    for kind in ("added", "removed"):
        if plans[kind]:
            emit_table(f"Plans {kind}", ("plan",), [[plan] for plan in plans[kind]])
    if impact is None:
        note("The servers do not run here, so the record was not asked what this touches.")
        return
    emit_facts(
        "What it touches",
        {
            "logged episodes": impact.n_episodes,
            "of them, plan stays": impact.n_episodes_kept,
            "of them, plan goes": impact.n_episodes_gone,
            "serving": impact.serves,
        },
    )
    if impact.gone:
        emit_table("Episodes of plans that go", ("plan", "episodes"), list(impact.gone.items()))
    if impact.policies:
        emit_table(
            "Policies trained on the old catalog",
            ("policy", "owner", "role", "plans it knows", "never seen", "gone"),
            [
                (p.policy_id[:12], p.owner, p.role, p.n_known, p.n_unseen, p.n_gone)
                for p in impact.policies
            ],
        )


def _words(change: Any) -> str:
    """A change in words; nothing where there is none."""
    if isinstance(change, dict):
        if set(change) == {"old", "new"}:
            return f"{change['old']} -> {change['new']}"
        parts = [f"{kind}: {_words(some)}" for kind, some in change.items() if some]
        return "; ".join(parts)
    if isinstance(change, list):
        return ", ".join(_item(one) for one in change)
    return "" if change is None else str(change)


def _item(one: Any) -> str:
    if isinstance(one, dict) and {"level", "old", "new"} <= set(one):
        return f"{one['level']} {one['old']} -> {one['new']}"
    if isinstance(one, dict) and "because" in one:
        return f"'{one['because']}'"
    return str(one)


@click.command("add")
@click.argument("file", type=click.Path(path_type=Path))
@_tenant_option
@_config_option
@json_option
def catalog_add(*, file: Path, tenant: str, config: Path | None, as_json: bool) -> None:
    """Store the catalog in FILE; where no policy serves, its doctrine policy does at once."""
    catalog = load_catalog(file)
    with _record(config, tenant, needed=True) as work:
        assert work is not None  # noqa: S101 - it was needed
        before = work.catalogs.latest(catalog.discipline)
        is_new = add_catalog(work, catalog)
        in_force = catalog_in_force(work, catalog.discipline).content_hash
    facts = facts_of(catalog) | {
        "tenant": tenant,
        "is_new": is_new,
        "is_in_force": in_force == catalog.content_hash,
        "replaces": None if before is None or not is_new else before.catalog_hash,
    }
    if as_json:
        emit_json(facts)
    else:
        emit_facts(f"Catalog of {catalog.discipline}", facts)
