"""The schema in code. Migrations write it by hand; a test holds the two equal.

`tenant_id` comes first in every key and index, so that a tenant's rows lie together and a
query can hardly forget it; row-level security refuses the one that does.
"""

import re
from typing import Final

from sqlalchemy import (
    ARRAY,
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
)
from sqlalchemy.dialects.postgresql import JSONB

REVISION: Final = "0004"
"""The schema this code was written for: the newest migration."""

PARTITION_NAME: Final = re.compile(r"decisions_\d{4}_\d{2}\Z")

metadata = MetaData()


def _tenant() -> Column[str]:
    return Column("tenant_id", Text, primary_key=True)


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


def _created(name: str = "created_at") -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


catalogs = Table(
    "catalogs",
    metadata,
    _tenant(),
    _key("catalog_hash"),
    Column("discipline", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("text", Text, nullable=False),
    _created(),
    Index("catalogs_discipline", "tenant_id", "discipline", "created_at"),
)

policies = Table(
    "policies",
    metadata,
    _tenant(),
    _key("policy_id"),
    Column("discipline", Text, nullable=False),
    Column("catalog_hash", Text, nullable=False),
    Column("feature_hash", Text),
    Column("manifest", JSONB, nullable=False),
    Column("archive", LargeBinary, nullable=False),
    _created(),
    Index("policies_discipline", "tenant_id", "discipline", "created_at"),
)

policy_states = Table(
    "policy_states",
    metadata,
    _tenant(),
    _key("discipline"),
    Column("champion", Text),
    Column("candidate", Text),
    Column("mode", Text, nullable=False),
    Column("catalog_hash", Text),
    Column("version", Integer, nullable=False),
    _created("updated_at"),
    Column("canary_salt", Text),
    Column("canary_share", Double),
)

policy_transitions = Table(
    "policy_transitions",
    metadata,
    _tenant(),
    _key("discipline"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("champion", Text),
    Column("candidate", Text),
    Column("mode", Text, nullable=False),
    Column("catalog_hash", Text),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("evidence_ids", ARRAY(Text), nullable=False),
    Column("action", Text, nullable=False),
    _created(),
    Column("canary_salt", Text),
    Column("canary_share", Double),
)

evidence = Table(
    "evidence",
    metadata,
    _tenant(),
    _key("evidence_id"),
    Column("policy_id", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("document", JSONB, nullable=False),
    _created(),
    Index("evidence_policy", "tenant_id", "policy_id", "created_at"),
)

requests = Table(
    "requests",
    metadata,
    _tenant(),
    _key("request_id"),
    Column("decision_id", Uuid, nullable=False),
    Column("decided_at", DateTime(timezone=True), nullable=False),
    Column("body_hash", Text, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    _tenant(),
    Column("decision_id", Uuid, primary_key=True),
    # Part of the key only because Postgres wants the partition column in it.
    Column("decided_at", DateTime(timezone=True), primary_key=True),
    Column("request_id", Text),
    Column("body_hash", Text),
    Column("discipline", Text, nullable=False),
    Column("unit_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("action", Integer),
    Column("propensity", Double),
    Column("served", Boolean, nullable=False),
    Column("mode", Text),
    Column("arm", Text),
    Column("arm_share", Double),
    Column("reasons", ARRAY(Text), nullable=False),
    Column("catalog_hash", Text),
    Column("feature_hash", Text),
    Column("policy_id", Text),
    Column("kernel", Text),
    Column("floor", Double),
    Column("u", Double),
    Column("logging", LargeBinary),
    Column("logging_digest", Text),
    Column("mask", LargeBinary),
    Column("n_plans", Integer),
    Column("shadow_plan", Text),
    Column("shadow", LargeBinary),
    # Text-preserving json, not jsonb: -0.0 and the order of keys survive, as a replay needs.
    Column("context", JSON, nullable=False),
    Column("reserved", Boolean, nullable=False),
    Column("keep_prob", Double, nullable=False),
    Column("policy_version", Text),
    CheckConstraint("kind in ('real', 'synthetic', 'imported')", name="decisions_kind"),
    CheckConstraint("propensity > 0 and propensity <= 1", name="decisions_propensity"),
    CheckConstraint("keep_prob > 0 and keep_prob <= 1", name="decisions_keep_prob"),
    Index("decisions_discipline", "tenant_id", "discipline", "decided_at", "decision_id"),
    postgresql_partition_by="RANGE (decided_at)",
)

outcomes = Table(
    "outcomes",
    metadata,
    _tenant(),
    # Identity by content: the same measurement sent twice is one row.
    Column("outcome_id", Uuid, primary_key=True),
    Column("decision_id", Uuid, nullable=False),
    Column("metric", Text, nullable=False),
    Column("value", Double),
    Column("unit", Text),
    Column("window_days", Double),
    Column("observed_at", DateTime(timezone=True), nullable=False),
    Column("final", Boolean, nullable=False),
    _created("recorded_at"),
    Index("outcomes_decision", "tenant_id", "decision_id", "metric", "observed_at"),
)

interventions = Table(
    "interventions",
    metadata,
    _tenant(),
    _key("discipline"),
    _key("kind"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("is_on", Boolean, nullable=False),
    Column("plan", Text),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    _created(),
)

api_keys = Table(
    "api_keys",
    metadata,
    _tenant(),
    _key("key_id"),
    Column("digest", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("rate_per_s", Double),
    Column("created_by", Text, nullable=False),
    _created(),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    Column("revoked_by", Text),
    Column("revoked_because", Text),
    UniqueConstraint("digest", name="api_keys_digest"),
)

corrections = Table(
    "corrections",
    metadata,
    _tenant(),
    Column("decision_id", Uuid, primary_key=True),
    _key("plan"),
    _created("reported_at"),
)

# When something that serving processes hold was last changed, for those that missed the notice.
changes = Table(
    "changes",
    metadata,
    _tenant(),
    Column("changed_at", DateTime(timezone=True), nullable=False),
    Index("changes_moment", "changed_at"),
)

SHARED_TABLES: Final = (
    *("catalogs", "policies", "policy_states", "policy_transitions", "evidence"),
    "interventions",
)
"""Tables whose fleet rows every tenant may read."""

OWN_TABLES: Final = ("requests", "decisions", "outcomes", "api_keys", "corrections", "changes")
"""Tables of which a tenant sees its own rows alone."""
