"""What serves each discipline right now: read without a lock, reloaded behind the readers.

A tenant's own pointer wins over the fleet's. Readers take one look into a plain dict;
whoever reloads builds the new value aside and puts it in by one assignment.
"""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from canopy.domain.decision import Mode
from canopy.domain.errors import ArtifactError, CatalogError, NotFoundError
from canopy.domain.tenant import FLEET
from canopy.storage.database import Database
from canopy.storage.rows import PolicyState
from canopy.storage.unit_of_work import UnitOfWork
from policy.artifact import Artifact
from policy.catalog import Catalog, parse_catalog
from runtime.interventions import Interventions
from runtime.registry import open_archived

OVERLAP: Final = timedelta(seconds=30)
"""How far a sweep looks back behind the last one: a change is stamped before its transaction
commits, and whoever looked in between did not see the stamp. What was seen before is told by its
stamp and not looked at again."""

UNAVAILABLE_RETRY_S: Final = 5.0
"""A policy that failed to load is tried again no sooner."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a selection of one discipline uses.

    Attributes:
        owner: The tenant whose pointer it is, or the fleet.
        version: Number of the transition that set it; 0 before the first.
        mode: State of the candidate; `on` where there is none.
        catalog: Plans to choose from.
        champion: Policy that serves; None: the doctrine policy, or a policy that failed to load.
        candidate: Policy whose choice is logged beside; None without one.
        unavailable: Ids of pointed-to policies that could not be loaded.
        champion_id: Policy that ought to serve; None for the doctrine policy.
        candidate_id: Policy that ought to be the candidate; None without one.
        canary_salt: Name of the canary, which assigns its units; None outside one.
        canary_share: Share of units that the candidate serves; None outside a canary.
    """

    owner: str
    version: int
    mode: Mode
    catalog: Catalog
    champion: Artifact | None
    candidate: Artifact | None
    unavailable: tuple[str, ...] = ()
    champion_id: str | None = None
    candidate_id: str | None = None
    canary_salt: str | None = None
    canary_share: float | None = None

    @property
    def is_unavailable(self) -> bool:
        """True if a champion is set and could not be loaded."""
        return self.champion is None and self.champion_id is not None

    @property
    def lacks_shadow(self) -> bool:
        """True if a candidate ought to be watched and could not be loaded."""
        is_watched = self.mode is Mode.OBSERVATION and self.candidate_id is not None
        return is_watched and self.candidate is None


class Pointers:
    """The active pointers of one process.

    Args:
        database: Where states, catalogs and policies are.
        cache: Folder of unpacked policies.

    Attributes:
        interventions: What people impose, loaded and refreshed with the pointers.
    """

    def __init__(self, database: Database, cache: Path) -> None:
        self.interventions = Interventions()
        self._database, self._cache = database, cache
        # By tenant, then by discipline: the fleet's, and those of every tenant that was asked for.
        self._owned: dict[str, dict[str, Pointer]] = {FLEET: {}}
        self._fleet = self._owned[FLEET]
        self._seen: set[str] = set()
        self._artifacts: dict[str, Artifact] = {}
        self._catalogs: dict[str, Catalog] = {}
        self._failed_at: dict[str, float] = {}
        # Owners that point to a policy which failed to load, and when each is due again.
        self._due_at: dict[str, float] = {}
        self._is_untidy = False
        self._reloading = threading.Lock()
        self._swept_at: datetime | None = None
        self._swept: dict[str, datetime] = {}

    def current(self, tenant: str, discipline: str) -> Pointer | None:
        """The pointer in force; None where the tenant or the discipline was never loaded."""
        if tenant not in self._seen:
            return None
        return self._owned[tenant].get(discipline) or self._fleet.get(discipline)

    def load(self, tenant: str, discipline: str) -> Pointer:
        """Read one pointer from the database and put it in force. Blocks.

        Args:
            tenant: Whose selection it is.
            discipline: The discipline asked for.

        Returns:
            The tenant's own pointer, else the fleet's.

        Raises:
            NotFoundError: If neither has a catalog of that discipline.
        """
        with self._reloading:
            if discipline not in self._fleet:
                with self._database.unit_of_work(FLEET) as work:
                    self._refresh_owner(FLEET, work)
            with self._database.unit_of_work(tenant) as work:
                self._refresh_owner(tenant, work)
                self._seen.add(tenant)
                if self.current(tenant, discipline) is None:
                    self._load_unset(work, tenant, discipline)
                found = self.current(tenant, discipline)
        if found is None:
            raise NotFoundError(
                "discipline",
                discipline,
                f"Neither {tenant} nor the fleet has a catalog of it: register a policy by "
                "`canopy policy promote`, import a log by `canopy log import`, or correct the "
                "name.",
            )
        return found

    def start(self) -> None:
        """Load the fleet's pointers, and begin to keep track of changes. Blocks."""
        with self._database.unit_of_work(FLEET) as work:
            self._swept_at = work.changes.since(None).read_at
        self.refresh([FLEET])

    def refresh(self, owners: Iterable[str]) -> None:
        """Look again at what the named owners serve and impose. Blocks.

        Args:
            owners: Tenants known to have changed, or the fleet; a tenant nobody asked for yet is
                loaded when somebody does.
        """
        with self._reloading:
            for owner in dict.fromkeys(owners):
                if owner in self._seen or owner == FLEET:
                    with self._database.unit_of_work(owner) as work:
                        self._refresh_owner(owner, work)
            self._forget_unused()

    def sweep(self) -> tuple[str, ...]:
        """Look again at whoever changed since the last sweep, and at policies that failed to load.

        Costs the same for any number of tenants. Blocks.

        Returns:
            The owners that changed, whether loaded here or not.
        """
        since = None if self._swept_at is None else self._swept_at - OVERLAP
        with self._database.unit_of_work(FLEET) as work:
            found = work.changes.since(since)
        changed = [
            owner for owner, moment in found.changed_at.items() if self._swept.get(owner) != moment
        ]
        now_s = time.monotonic()
        due = [owner for owner, at_s in list(self._due_at.items()) if at_s <= now_s]
        self.refresh([*changed, *due])
        self._swept_at, self._swept = found.read_at, dict(found.changed_at)
        return tuple(changed)

    def describe(self) -> dict[str, int]:
        """How much is loaded: pointers, policies, catalogs and tenants."""
        return {
            "pointers": sum(map(len, list(self._owned.values()))),
            "policies": len(self._artifacts),
            "catalogs": len(self._catalogs),
            "tenants": len(self._seen),
        }

    def _refresh_owner(self, tenant: str, work: UnitOfWork) -> None:
        held = self._owned.setdefault(tenant, {})
        states = {s.discipline: s for s in work.states.all() if s.tenant_id == tenant}
        for discipline, state in states.items():
            if self._is_stale(held.get(discipline), state):
                pointer = self._build(work, tenant, state, held.get(discipline))
                if pointer is not None:
                    self._put(tenant, discipline, pointer)
        unset = {name for name, pointer in self._fleet.items() if pointer.version == 0}
        unset.update(name for name, pointer in held.items() if pointer.version == 0)
        for discipline in sorted(unset - states.keys()):
            self._load_unset(work, tenant, discipline)
        self.interventions.replace(tenant, work.interventions.standing())
        self._note_outlived_pins(tenant)
        if any(pointer.unavailable for pointer in held.values()):
            self._due_at[tenant] = time.monotonic() + UNAVAILABLE_RETRY_S
        else:
            self._due_at.pop(tenant, None)

    def _note_outlived_pins(self, owner: str) -> None:
        for discipline, plan in self.interventions.pins_of(owner).items():
            pointer = self._owned[owner].get(discipline) or self._fleet.get(discipline)
            if pointer is not None and pointer.catalog.find(plan) is None:
                _log.warning("pin_names_no_plan", owner=owner, discipline=discipline, plan=plan)

    def _put(self, tenant: str, discipline: str, pointer: Pointer) -> None:
        self._owned[tenant][discipline] = pointer
        self._is_untidy = True
        if tenant == FLEET and pointer.version > 0:
            # A tenant that never set its own follows the fleet, whichever came first.
            for own in self._owned.values():
                if discipline in own and own[discipline].version == 0:
                    del own[discipline]
        _log.info(
            "pointer",
            tenant=tenant,
            discipline=discipline,
            version=pointer.version,
            mode=pointer.mode,
            champion=pointer.champion_id,
            candidate=pointer.candidate.policy_id if pointer.candidate else None,
            unavailable=list(pointer.unavailable),
        )

    def _is_stale(self, held: Pointer | None, state: PolicyState) -> bool:
        if held is None or held.version != state.version:
            return True
        now_s = time.monotonic()
        return any(
            now_s - self._failed_at.get(policy_id, 0.0) > UNAVAILABLE_RETRY_S
            for policy_id in held.unavailable
        )

    def _load_unset(self, work: UnitOfWork, tenant: str, discipline: str) -> None:
        """Point at the newest catalog of a discipline whose state nobody ever set."""
        row = work.catalogs.latest(discipline)
        if row is None:
            return
        owner = FLEET if row.tenant_id == FLEET else tenant
        held = self._owned[owner].get(discipline)
        if held and (held.version > 0 or held.catalog.content_hash == row.catalog_hash):
            return
        catalog = self._catalog(row.catalog_hash, row.text)
        if catalog is not None:
            self._put(owner, discipline, Pointer(owner, 0, Mode.ON, catalog, None, None))

    def _build(
        self, work: UnitOfWork, tenant: str, state: PolicyState, held: Pointer | None
    ) -> Pointer | None:
        champion = self._artifact(work, state.champion)
        candidate = self._artifact(work, state.candidate)
        wanted = ((state.champion, champion), (state.candidate, candidate))
        missing = tuple(name for name, loaded in wanted if name is not None and loaded is None)
        catalog = champion.catalog if champion else self._catalog_of(work, state, candidate)
        if catalog is None and held is not None:
            # Better the plans of before than a champion that no transition names any more.
            catalog = held.catalog
        if catalog is None:
            _log.error("no_catalog", tenant=tenant, discipline=state.discipline)
            return None
        if candidate and candidate.catalog.content_hash != catalog.content_hash:
            # Its choices are of other plans: nothing to compare, nothing to log.
            _log.warning(
                "candidate_has_another_catalog",
                discipline=state.discipline,
                candidate=candidate.policy_id,
            )
            candidate = None
        return Pointer(
            owner=tenant,
            version=state.version,
            mode=state.mode if state.candidate else Mode.ON,
            catalog=catalog,
            champion=champion,
            candidate=candidate,
            unavailable=missing,
            champion_id=state.champion,
            candidate_id=state.candidate,
            canary_salt=state.canary_salt,
            canary_share=state.canary_share,
        )

    def _catalog_of(
        self, work: UnitOfWork, state: PolicyState, candidate: Artifact | None
    ) -> Catalog | None:
        """The catalog to choose from where no champion brings its own."""
        catalog_hash = state.catalog_hash
        try:
            if catalog_hash is None and state.champion is not None:
                catalog_hash = work.policies.get(state.champion).catalog_hash
            if catalog_hash is not None:
                return self._catalog(catalog_hash, work.catalogs.get(catalog_hash).text)
        except NotFoundError:
            _log.warning("catalog_not_stored", discipline=state.discipline, catalog=catalog_hash)
        row = work.catalogs.latest(state.discipline)
        if row is not None:
            return self._catalog(row.catalog_hash, row.text)
        return candidate.catalog if candidate else None

    def _catalog(self, catalog_hash: str, text: str) -> Catalog | None:
        """A stored catalog; None where it does not parse, as one that newer code stored may."""
        found = self._catalogs.get(catalog_hash)
        if found is None:
            try:
                found = parse_catalog(text, f"catalog {catalog_hash}")
            except CatalogError as error:
                _log.error("catalog_unavailable", catalog=catalog_hash, because=str(error))
                return None
            self._catalogs[catalog_hash] = found
        return found

    def _artifact(self, work: UnitOfWork, policy_id: str | None) -> Artifact | None:
        if policy_id is None:
            return None
        found = self._artifacts.get(policy_id)
        if found is None:
            try:
                found = self._opened(work, policy_id)
            except ArtifactError as error:
                self._failed_at[policy_id] = time.monotonic()
                _log.error("policy_unavailable", policy=policy_id, because=str(error))
                return None
            self._artifacts[policy_id] = found
        return found

    def _opened(self, work: UnitOfWork, policy_id: str) -> Artifact:
        """A policy out of the record.

        Raises:
            ArtifactError: If it cannot be loaded, whatever keeps it from that: one policy must
                not stop the others.
        """
        place, remedy = f"policy {policy_id}", "Register it again from its folder."
        try:
            row = work.policies.get(policy_id)
        except NotFoundError as error:
            raise ArtifactError(place, "is not registered.", remedy) from error
        try:
            return open_archived(row, self._cache)
        except ArtifactError:
            raise
        except Exception as error:
            raise ArtifactError(place, f"cannot be loaded: {error!r}.", remedy) from error

    def _forget_unused(self) -> None:
        """Drop policies and catalogs that no pointer names any more."""
        if not self._is_untidy:
            return
        self._is_untidy = False
        pointers = [pointer for own in self._owned.values() for pointer in own.values()]
        policies = {a.policy_id for p in pointers for a in (p.champion, p.candidate) if a}
        catalogs = {p.catalog.content_hash for p in pointers}
        for policy_id in self._artifacts.keys() - policies:
            del self._artifacts[policy_id]
        for catalog_hash in self._catalogs.keys() - catalogs:
            del self._catalogs[catalog_hash]
