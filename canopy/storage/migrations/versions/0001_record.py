"""The record: roles, tables, monthly partitions."""

from typing import Final

from alembic import op

from canopy.domain.errors import ProtectedRowError

revision = "0001"
down_revision = None

# Roles belong to the whole server, so another database may have made them already, at this
# very moment even; they are not dropped on the way back for the same reason. The login of
# `canopy_app` has no password: only a server that trusts its socket folder lets it in.
_ROLES: Final = """
do $$ begin create role canopy_owner nologin nosuperuser nobypassrls;
exception when duplicate_object or unique_violation then null; end $$;
do $$ begin create role canopy_app login nosuperuser nobypassrls nocreatedb nocreaterole;
exception when duplicate_object or unique_violation then null; end $$;
"""

# A superuser may become anybody; elsewhere whoever migrates must be a member to hand over
# tables and, in its own sessions, to take the plain role.
_MEMBERSHIP: Final = """
do $$ declare wanted text; begin
  if not (select rolsuper from pg_roles where rolname = current_user) then
    foreach wanted in array array['canopy_owner', 'canopy_app'] loop
      if not pg_has_role(current_user, wanted, 'set') then
        execute format('grant %I to %I with set true', wanted, current_user);
      end if;
    end loop;
  end if;
end $$;
grant usage, create on schema public to canopy_owner;
grant usage on schema public to canopy_app;
"""

_TABLES: Final = """
create table catalogs (
  tenant_id text not null check (tenant_id <> ''), catalog_hash text not null,
  discipline text not null, version text not null, text text not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, catalog_hash));
create index catalogs_discipline on catalogs (tenant_id, discipline, created_at);

create table policies (
  tenant_id text not null check (tenant_id <> ''), policy_id text not null,
  discipline text not null, catalog_hash text not null, feature_hash text,
  manifest jsonb not null, archive bytea not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, policy_id));
create index policies_discipline on policies (tenant_id, discipline, created_at);
alter table policies alter column archive set storage external;

create table policy_states (
  tenant_id text not null check (tenant_id <> ''), discipline text not null,
  champion text, candidate text,
  mode text not null check (mode in ('observation', 'canary', 'on')),
  catalog_hash text, version integer not null check (version > 0),
  updated_at timestamptz not null default now(),
  primary key (tenant_id, discipline));

create table policy_transitions (
  tenant_id text not null check (tenant_id <> ''), discipline text not null,
  version integer not null check (version > 0), champion text, candidate text,
  mode text not null check (mode in ('observation', 'canary', 'on')),
  catalog_hash text, actor text not null, reason text not null,
  evidence_ids text[] not null, action text not null,
  created_at timestamptz not null default now(),
  primary key (tenant_id, discipline, version));

create table evidence (
  tenant_id text not null check (tenant_id <> ''), evidence_id text not null,
  policy_id text not null, tier text not null, status text not null,
  document jsonb not null, created_at timestamptz not null default now(),
  primary key (tenant_id, evidence_id));
create index evidence_policy on evidence (tenant_id, policy_id, created_at);

create table requests (
  tenant_id text not null check (tenant_id <> ''), request_id text not null,
  decision_id uuid not null, decided_at timestamptz not null, body_hash text not null,
  primary key (tenant_id, request_id));

create table decisions (
  tenant_id text not null check (tenant_id <> ''), decision_id uuid not null,
  decided_at timestamptz not null, request_id text, body_hash text,
  discipline text not null, unit_id text not null,
  kind text not null constraint decisions_kind check (kind in ('real', 'synthetic', 'imported')),
  plan text not null, action integer,
  propensity double precision
    constraint decisions_propensity check (propensity > 0 and propensity <= 1),
  served boolean not null,
  mode text constraint decisions_mode check (mode in ('observation', 'canary', 'on')),
  arm text constraint decisions_arm check (arm in ('control', 'treatment')),
  arm_share double precision, reasons text[] not null, catalog_hash text, feature_hash text,
  policy_id text, kernel text, floor double precision, u double precision,
  logging bytea, logging_digest text, mask bytea, n_plans integer,
  shadow_plan text, shadow bytea, context json not null, reserved boolean not null,
  keep_prob double precision not null
    constraint decisions_keep_prob check (keep_prob > 0 and keep_prob <= 1),
  policy_version text,
  primary key (tenant_id, decision_id, decided_at)) partition by range (decided_at);
create index decisions_discipline on decisions (tenant_id, discipline, decided_at, decision_id);

create table outcomes (
  tenant_id text not null check (tenant_id <> ''), outcome_id uuid not null,
  decision_id uuid not null, metric text not null, value double precision, unit text,
  window_days double precision, observed_at timestamptz not null, final boolean not null,
  recorded_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, outcome_id));
create index outcomes_decision on outcomes (tenant_id, decision_id, metric, observed_at);
"""

_NAMES: Final = (
    *("catalogs", "policies", "policy_states", "policy_transitions"),
    *("evidence", "requests", "decisions", "outcomes"),
)


def upgrade() -> None:
    op.execute(_ROLES)
    op.execute(_MEMBERSHIP)
    op.execute("set role canopy_owner")
    op.execute(_TABLES)
    op.execute("reset role")
    op.execute("grant select on alembic_version to canopy_app")


def downgrade() -> None:
    # By now 0003 has lifted the forced row-level security that would hide rows from the owner.
    real = "select from decisions where kind = 'real' limit 1"
    if op.get_bind().exec_driver_sql(real).first() is not None:
        raise ProtectedRowError("decisions", "downgrade")
    op.execute("revoke select on alembic_version from canopy_app")
    for name in _NAMES:
        op.execute(f"drop table {name}")
    op.execute("revoke usage, create on schema public from canopy_owner")
    op.execute("revoke usage on schema public from canopy_app")
