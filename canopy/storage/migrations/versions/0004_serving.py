"""Serving: canaries, interventions, keys, corrections, and who changed since when."""

from typing import Final

from alembic import op

revision = "0004"
down_revision = "0003"

_COLUMNS: Final = """
alter table policy_states add column canary_salt text,
  add column canary_share double precision
    constraint policy_states_share check (canary_share between 0 and 1);
alter table policy_transitions add column canary_salt text,
  add column canary_share double precision
    constraint policy_transitions_share check (canary_share between 0 and 1);
"""

_TABLES: Final = """
create table interventions (
  tenant_id text not null check (tenant_id <> ''), discipline text not null,
  kind text not null constraint interventions_kind check (kind in ('stop', 'pin')),
  version integer not null check (version > 0), is_on boolean not null, plan text,
  actor text not null, reason text not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, discipline, kind, version));

create table api_keys (
  tenant_id text not null check (tenant_id <> ''), key_id text not null,
  digest text not null constraint api_keys_digest unique,
  name text not null, scopes text[] not null, rate_per_s double precision
    constraint api_keys_rate check (rate_per_s > 0),
  created_by text not null, created_at timestamptz not null default now(),
  expires_at timestamptz, revoked_at timestamptz, revoked_by text, revoked_because text,
  primary key (tenant_id, key_id));

create table corrections (
  tenant_id text not null check (tenant_id <> ''), decision_id uuid not null,
  plan text not null, reported_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, decision_id, plan));

create table changes (
  tenant_id text not null check (tenant_id <> ''), changed_at timestamptz not null,
  primary key (tenant_id));
create index changes_moment on changes (changed_at);
"""

_MINE: Final = "tenant_id = current_setting('canopy.tenant', true)"
_READABLE: Final = "tenant_id in (current_setting('canopy.tenant', true), 'fleet')"
# Whoever presents a key's digest may read that key: its tenant is what the caller asks for.
_PRESENTED: Final = f"{_MINE} or digest = current_setting('canopy.digest', true)"
# The sweep of a serving process learns which tenants changed, and nothing else of them.
_SWEPT: Final = f"{_MINE} or current_setting('canopy.sweep', true) = 'on'"

_SECURITY: Final = f"""
create policy reading on interventions for select using ({_READABLE});
create policy adding on interventions for insert with check ({_MINE});
create policy reading on api_keys for select using ({_PRESENTED});
create policy adding on api_keys for insert with check ({_MINE});
create policy changing on api_keys for update using ({_MINE});
create policy own on corrections using ({_MINE}) with check ({_MINE});
create policy reading on changes for select using ({_SWEPT});
create policy adding on changes for insert with check ({_MINE});
create policy changing on changes for update using ({_MINE});
grant select, insert on interventions, corrections to canopy_app;
grant select, insert, update (revoked_at, revoked_by, revoked_because) on api_keys to canopy_app;
grant select, insert, update on changes to canopy_app;
"""

# A key is revoked once and for all; nothing else of it ever changes.
_TRIGGERS: Final = """
create trigger canopy_keep_rows before delete or update on interventions
  for each row execute function canopy_refuse();
create trigger canopy_keep_whole before truncate on interventions
  for each statement execute function canopy_refuse();
create trigger canopy_keep_rows before delete or update on corrections
  for each row execute function canopy_refuse();
create trigger canopy_keep_whole before truncate on corrections
  for each statement execute function canopy_refuse();
create function canopy_keep_revoked() returns trigger language plpgsql as $$
begin
  if old.revoked_at is not null then
    raise exception 'key % is revoked for good', old.key_id
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end $$;
create trigger canopy_keep_revoked before update on api_keys
  for each row execute function canopy_keep_revoked();
"""

# The mark is for processes that missed the announcement. clock_timestamp and not now(): the
# closer to the commit, the shorter the time by which a sweep has to look back.
_ANNOUNCE: Final = """
create function canopy_announce() returns trigger language plpgsql as $$
begin
  insert into changes (tenant_id, changed_at) values (new.tenant_id, clock_timestamp())
    on conflict (tenant_id) do update set changed_at = excluded.changed_at;
  perform pg_notify('canopy_state', json_build_object('tenant', new.tenant_id)::text);
  return null;
end $$;
create trigger canopy_announce after insert or update on policy_states
  for each row execute function canopy_announce();
create trigger canopy_announce after insert on interventions
  for each row execute function canopy_announce();
create trigger canopy_announce after insert or update on api_keys
  for each row execute function canopy_announce();
create trigger canopy_announce after insert on catalogs
  for each row execute function canopy_announce();
"""

_ANNOUNCING: Final = ("policy_states", "interventions", "api_keys", "catalogs")

_ON_ALTER: Final = r"""
create or replace function canopy_guard.on_alter() returns event_trigger language plpgsql as $$
declare loose text;
begin
  select t.tgname || ' on ' || t.tgrelid::regclass into loose from pg_catalog.pg_trigger t
    where t.tgname like 'canopy\_keep\_%' and t.tgenabled not in ('O', 'A') limit 1;
  if loose is null then
    select t.tgrelid::regclass::text into loose from pg_catalog.pg_trigger t
      where t.tgname = 'canopy_keep_whole'
        and t.tgrelid not in (WHOLE)
        and not exists (select from pg_catalog.pg_inherits i where i.inhrelid = t.tgrelid
          and i.inhparent = 'public.decisions'::regclass and not i.inhdetachpending) limit 1;
  end if;
  if loose is not null then
    raise exception 'the record is protected: % would lose its guard', loose
      using errcode = 'insufficient_privilege';
  end if;
end $$;
"""
_KEPT_BEFORE: Final = ("decisions", "outcomes", "policy_transitions")
_KEPT: Final = (*_KEPT_BEFORE, "interventions", "corrections")
_NEW: Final = ("interventions", "api_keys", "corrections", "changes")


def _guarding(tables: tuple[str, ...]) -> str:
    names = ", ".join(f"'public.{name}'::regclass" for name in tables)
    return _ON_ALTER.replace("WHOLE", names)


def upgrade() -> None:
    op.execute("set role canopy_owner")
    op.execute(_COLUMNS)
    op.execute(_TABLES)
    op.execute("reset role")
    # Before the triggers: the guard refuses a guarded table that it does not know.
    op.execute(_guarding(_KEPT))
    op.execute("set role canopy_owner")
    for name in _NEW:
        op.execute(f"alter table {name} enable row level security")
        op.execute(f"alter table {name} force row level security")
    op.execute(_SECURITY)
    op.execute(_TRIGGERS)
    op.execute(_ANNOUNCE)
    op.execute("reset role")


def downgrade() -> None:
    # The guards hold whatever they guard; they stand again at the end.
    op.execute("drop event trigger if exists canopy_guard_drop")
    op.execute("drop event trigger if exists canopy_guard_alter")
    for name in _ANNOUNCING:
        op.execute(f"drop trigger canopy_announce on {name}")
    op.execute("drop function canopy_announce()")
    for name in _NEW:
        op.execute(f"drop table {name}")
    op.execute("drop function canopy_keep_revoked()")
    for name in ("policy_states", "policy_transitions"):
        op.execute(f"alter table {name} drop column canary_salt, drop column canary_share")
    op.execute(_guarding(_KEPT_BEFORE))
    op.execute("select canopy_guard.arm()")
