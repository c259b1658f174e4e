"""Catalogs by name, and what putting another one in force would touch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from canopy.domain.errors import InputError, NotFoundError
from canopy.storage.rows import CatalogRow, PolicyState
from canopy.storage.unit_of_work import UnitOfWork
from policy.catalog import Catalog, load_catalog, parse_catalog
from policy.catalog_diff import CatalogDiff


@dataclass(frozen=True, slots=True)
class TouchedPolicy:
    """A policy that serves now and was trained on the catalog before.

    Attributes:
        policy_id: Its id.
        owner: Whose pointer names it.
        role: `champion`, or `candidate` with its mode.
        n_known: Plans of the new catalog that it has scored before, by id.
        n_unseen: Plans of the new catalog that it has never seen.
        n_gone: Plans it was trained on that the new catalog lacks.
    """

    policy_id: str
    owner: str
    role: str
    n_known: int
    n_unseen: int
    n_gone: int


@dataclass(frozen=True, slots=True)
class Impact:
    """What a new catalog touches in the record.

    Attributes:
        n_episodes: Logged decisions of the discipline.
        n_episodes_kept: Of these, those whose plan the new catalog has.
        n_episodes_gone: Those whose plan it lacks; they stay in the record, and a policy trained
            on the new catalog cannot learn from them.
        gone: Logged decisions by plan that goes away, most first.
        policies: Policies that serve now and choose from the old catalog.
        serves: What happens to serving, in words.
    """

    n_episodes: int
    n_episodes_kept: int
    n_episodes_gone: int
    gone: Mapping[str, int]
    policies: tuple[TouchedPolicy, ...]
    serves: str

    def document(self, most: int) -> dict[str, Any]:
        """The impact as plain values, with at most so many plans listed."""
        return asdict(self) | {"gone": dict(list(self.gone.items())[:most])}


def impact_of(work: UnitOfWork, diff: CatalogDiff) -> Impact:
    """What a new catalog would touch.

    Args:
        work: The tenant whose record is asked; the fleet's pointers count too.
        diff: The change.
    """
    counts = work.decisions.count_by_plan(diff.new.discipline)
    new_ids = _known(diff.new, counts)
    gone = {plan: n for plan, n in counts.items() if plan not in new_ids}
    state = work.states.get(diff.new.discipline)
    policies = tuple(_touched(work, diff, state))
    n_gone = sum(gone.values())
    return Impact(
        n_episodes=sum(counts.values()),
        n_episodes_kept=sum(counts.values()) - n_gone,
        n_episodes_gone=n_gone,
        gone=dict(sorted(gone.items(), key=lambda pair: (-pair[1], pair[0]))),
        policies=policies,
        serves=_serves(state, diff),
    )


def _known(catalog: Catalog, plans: Mapping[str, int]) -> set[str]:
    """Those of the named plans that the catalog has."""
    known = set()
    for plan in plans:
        try:
            catalog.index(plan)
        except InputError:
            continue
        known.add(plan)
    return known


def _touched(work: UnitOfWork, diff: CatalogDiff, state: PolicyState) -> list[TouchedPolicy]:
    named = (("champion", state.champion), (f"candidate ({state.mode})", state.candidate))
    return [
        TouchedPolicy(
            policy_id=policy_id,
            owner=state.tenant_id or "",
            role=role,
            n_known=len(diff.kept),
            n_unseen=len(diff.added),
            n_gone=len(diff.removed),
        )
        for role, policy_id in named
        if policy_id is not None
        and work.policies.get(policy_id).catalog_hash == diff.old.content_hash
    ]


def _serves(state: PolicyState, diff: CatalogDiff) -> str:
    if diff.old.content_hash == diff.new.content_hash:
        return "Nothing changes: it is the same catalog."
    if state.champion is not None:
        return (
            "The champion goes on choosing from the catalog it was trained on: a policy never "
            "serves another. The new catalog is in force once a policy trained on it is promoted."
        )
    if state.catalog_hash is not None:
        return (
            "A transition names the catalog in force, so that the doctrine policy stays on it "
            "until the next transition names another."
        )
    return "No policy serves: the doctrine policy of the new catalog serves once it is added."


def named_catalog(work: UnitOfWork | None, name: str) -> Catalog:
    """A catalog by its file, its stored hash, or the beginning of that hash.

    Args:
        work: Where stored catalogs are; None where only a file may be meant.
        name: File or hash.

    Raises:
        CatalogError: If the file is wrong; the place is file:line:key.
        NotFoundError: If nothing of that name is there, or more than one stored catalog.
    """
    if Path(name).is_file() or Path(name).suffix in {".yaml", ".yml"}:
        return load_catalog(name)
    if work is None:
        raise NotFoundError("catalog file", name, "Name a YAML file.")
    return _parsed(work.catalogs.find(name))


def catalog_in_force(work: UnitOfWork, discipline: str) -> Catalog:
    """The catalog that a discipline chooses from now.

    Raises:
        NotFoundError: If it has none.
    """
    state = work.states.get(discipline)
    catalog_hash = state.catalog_hash
    if state.champion is not None:
        catalog_hash = work.policies.get(state.champion).catalog_hash
    if catalog_hash is not None:
        return _parsed(work.catalogs.get(catalog_hash))
    row = work.catalogs.latest(discipline)
    if row is None:
        raise NotFoundError(
            "catalog of discipline", discipline, "Add one by `canopy catalog add FILE`."
        )
    return _parsed(row)


def add_catalog(work: UnitOfWork, catalog: Catalog) -> bool:
    """Store a version; the doctrine policy serves it where no transition names another.

    Returns:
        False if it was stored before.

    Raises:
        InputError: If its version's name is taken by other content.
    """
    for row in work.catalogs.versions(catalog.discipline):
        if row.tenant_id != work.tenant:
            continue
        if row.catalog_hash == catalog.content_hash:
            return False
        if row.version == catalog.version:
            raise InputError(
                f"catalog of {catalog.discipline}",
                f"version {catalog.version!r} is taken by other content ({row.catalog_hash[:12]}).",
                "Give the new content a version name of its own.",
            )
    work.catalogs.put(catalog.content_hash, catalog.discipline, catalog.version, catalog.to_yaml())
    return True


def _parsed(row: CatalogRow) -> Catalog:
    return parse_catalog(row.text, f"catalog {row.catalog_hash[:12]}")
