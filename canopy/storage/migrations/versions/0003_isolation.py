"""Isolation: row-level security on every tenant table, partitions, and guards over DDL."""

from typing import Final

from alembic import op

revision = "0003"
down_revision = "0002"

_SHARED: Final = ("catalogs", "policies", "policy_states", "policy_transitions", "evidence")
_OWN: Final = ("requests", "decisions", "outcomes")

_MINE: Final = "tenant_id = current_setting('canopy.tenant', true)"
# The durable writer commits decisions of several tenants at once; it names exactly those of its
# batch, for that transaction alone. Without this the cost of a commit would grow with tenants.
_BATCH: Final = (
    f"{_MINE} or tenant_id ="
    r" any (string_to_array(current_setting('canopy.batch', true), E'\x1f'))"
)
_BATCHED: Final = ("requests", "decisions")
_READABLE: Final = "tenant_id in (current_setting('canopy.tenant', true), 'fleet')"

# No table grants DELETE or TRUNCATE: nothing the application does removes a row.
_GRANTS: Final = """
grant select, insert on catalogs, policies, policy_transitions, evidence,
  requests, decisions, outcomes to canopy_app;
grant select, insert, update on policy_states to canopy_app;
grant update (propensity, served) on decisions to canopy_app;
"""

# Runs as the owner because the plain role may not create tables; whatever it is handed, it
# does nothing else. The advisory lock keeps two callers from adding the same month. A table is
# made and attached, not made as a partition: that would lock out every reader and writer.
# Partitions carry the policy themselves, though the plain role reaches them only through the
# parent: a grant given by mistake later must not open them. Row triggers of the parent are
# cloned into partitions, statement triggers are not, hence the one against TRUNCATE; it also
# marks the table as a partition whatever it is renamed to.
_PARTITIONS: Final = f"""
create function canopy_ensure_partitions(first timestamptz, last timestamptz) returns integer
language plpgsql security definer set search_path = pg_catalog, public set timezone = 'UTC'
as $$
declare
  month timestamptz := date_trunc('month', first);
  name text;
  made integer := 0;
begin
  if last - first > interval '36500 days' then
    raise exception 'decisions from % to % are not one log', first, last
      using errcode = 'datetime_field_overflow';
  end if;
  perform pg_advisory_xact_lock(hashtext('canopy.partitions'));
  while month <= last loop
    name := 'decisions_' || to_char(month, 'YYYY_MM');
    if to_regclass('public.' || name) is null then
      execute format('create table public.%I'
        ' (like public.decisions including defaults including constraints)', name);
      execute format('alter table public.decisions attach partition public.%I'
        ' for values from (%L) to (%L)', name, month, month + interval '1 month');
      execute format('alter table public.%I enable row level security', name);
      execute format('alter table public.%I force row level security', name);
      execute format('create policy own on public.%I using (%s)', name, $policy${_MINE}$policy$);
      execute format('create trigger canopy_keep_whole before truncate on public.%I'
        ' for each statement execute function public.canopy_refuse()', name);
      made := made + 1;
    end if;
    month := month + interval '1 month';
  end loop;
  return made;
end $$;
revoke all on function canopy_ensure_partitions(timestamptz, timestamptz) from public;
grant execute on function canopy_ensure_partitions(timestamptz, timestamptz) to canopy_app;
"""

# Only DDL can still take a real episode away: dropping or detaching its partition, dropping or
# disabling a trigger. These guards hold even a superuser's hand until they are dropped by name.
# They stand outside the schema they guard and belong to whoever migrates: a guard that goes in
# the same command as what it guards is not asked.
_GUARDS: Final = r"""
create schema canopy_guard;
create function canopy_guard.on_drop() returns event_trigger language plpgsql as $$
declare gone text;
begin
  select object_identity into gone from pg_event_trigger_dropped_objects()
    where object_type = 'trigger' and object_identity like 'canopy\_keep\_%' limit 1;
  if gone is not null then
    raise exception 'the record is protected: % would go', gone
      using errcode = 'insufficient_privilege';
  end if;
end $$;
create function canopy_guard.on_alter() returns event_trigger language plpgsql as $$
declare loose text;
begin
  select t.tgname || ' on ' || t.tgrelid::regclass into loose from pg_catalog.pg_trigger t
    where t.tgname like 'canopy\_keep\_%' and t.tgenabled not in ('O', 'A') limit 1;
  if loose is null then
    select t.tgrelid::regclass::text into loose from pg_catalog.pg_trigger t
      where t.tgname = 'canopy_keep_whole'
        and t.tgrelid not in ('public.decisions'::regclass, 'public.outcomes'::regclass,
          'public.policy_transitions'::regclass)
        and not exists (select from pg_catalog.pg_inherits i where i.inhrelid = t.tgrelid
          and i.inhparent = 'public.decisions'::regclass and not i.inhdetachpending) limit 1;
  end if;
  if loose is not null then
    raise exception 'the record is protected: % would lose its guard', loose
      using errcode = 'insufficient_privilege';
  end if;
end $$;
"""

# Event triggers take a superuser, or the role a managed service gives that right to. Without
# them the application still cannot drop or detach anything, because it owns nothing; only
# whoever may act as canopy_owner could, and `canopy doctor` then says that the guard is missing.
# Every `canopy migrate` asks again, so that a role with the right arms the guards later.
_ARM: Final = """
create function canopy_guard.arm() returns boolean language plpgsql as $$
begin
  if not exists (select from pg_catalog.pg_event_trigger where evtname = 'canopy_guard_drop') then
    create event trigger canopy_guard_drop on sql_drop
      execute function canopy_guard.on_drop();
    create event trigger canopy_guard_alter on ddl_command_end when tag in ('ALTER TABLE')
      execute function canopy_guard.on_alter();
  end if;
  return true;
exception when insufficient_privilege then
  return false;
end $$;
"""


def upgrade() -> None:
    op.execute("set role canopy_owner")
    for name in (*_SHARED, *_OWN):
        op.execute(f"alter table {name} enable row level security")
        op.execute(f"alter table {name} force row level security")
    for name in _OWN:
        bound = _BATCH if name in _BATCHED else _MINE
        op.execute(f"create policy own on {name} using ({bound}) with check ({bound})")
    for name in _SHARED:
        op.execute(f"create policy reading on {name} for select using ({_READABLE})")
        op.execute(f"create policy adding on {name} for insert with check ({_MINE})")
        op.execute(f"create policy changing on {name} for update using ({_MINE})")
    op.execute(_GRANTS)
    op.execute(_PARTITIONS)
    op.execute("reset role")
    op.execute(_GUARDS)
    op.execute(_ARM)


def downgrade() -> None:
    op.execute("drop event trigger if exists canopy_guard_drop")
    op.execute("drop event trigger if exists canopy_guard_alter")
    op.execute("drop schema canopy_guard cascade")
    op.execute("drop function canopy_ensure_partitions(timestamptz, timestamptz)")
    op.execute("revoke update (propensity, served) on decisions from canopy_app")
    for name in (*_SHARED, *_OWN):
        op.execute(f"revoke all on {name} from canopy_app")
        op.execute(f"alter table {name} no force row level security")
        op.execute(f"alter table {name} disable row level security")
    for name in _OWN:
        op.execute(f"drop policy own on {name}")
    for name in _SHARED:
        for policy in ("reading", "adding", "changing"):
            op.execute(f"drop policy {policy} on {name}")
