"""One tenant, one transaction, one repository per noun."""

from sqlalchemy import Connection

from canopy.storage.catalogs import Catalogs
from canopy.storage.changes import Changes
from canopy.storage.decisions import Decisions
from canopy.storage.evidence import EvidenceRecord
from canopy.storage.interventions import Interventions
from canopy.storage.keys import Keys
from canopy.storage.outcomes import Outcomes
from canopy.storage.policies import Policies
from canopy.storage.states import States


class UnitOfWork:
    """Repositories over one open transaction; `Database.unit_of_work` opens and ends it.

    Attributes:
        tenant: On whose behalf.
        catalogs: Versions of plan catalogs.
        policies: Policy artifacts.
        states: What serves each discipline.
        interventions: What people impose on selections.
        keys: Who may ask.
        changes: Who changed lately, of all tenants.
        evidence: What was found about policies.
        decisions: The decisions.
        outcomes: What became of them.
    """

    def __init__(self, connection: Connection, tenant: str) -> None:
        self.tenant = tenant
        self.catalogs = Catalogs(connection, tenant)
        self.policies = Policies(connection, tenant)
        self.states = States(connection, tenant)
        self.interventions = Interventions(connection, tenant)
        self.keys = Keys(connection, tenant)
        self.changes = Changes(connection)
        self.evidence = EvidenceRecord(connection, tenant)
        self.decisions = Decisions(connection, tenant)
        self.outcomes = Outcomes(connection, tenant)
