"""Protection: real episodes stay, and what is append-only is only appended to."""

from typing import Final

from alembic import op

revision = "0002"
down_revision = "0001"

# insufficient_privilege, so that callers can tell a rule of the record from a fault.
_FUNCTIONS: Final = """
create function canopy_keep_real() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    if old.kind = 'real' then
      raise exception 'a real episode is never deleted: %', old.decision_id
        using errcode = 'insufficient_privilege';
    end if;
    return old;
  end if;
  if to_jsonb(new) - array['propensity', 'served', 'context']
     is distinct from to_jsonb(old) - array['propensity', 'served', 'context']
     or new.context::text <> old.context::text then
    raise exception 'a decision is never rewritten: %', old.decision_id
      using errcode = 'insufficient_privilege';
  end if;
  if (new.propensity is not null and new.propensity is distinct from old.propensity)
     or (new.served and not old.served) then
    raise exception 'a propensity is taken back, never given: %', old.decision_id
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end $$;

create function canopy_refuse() returns trigger language plpgsql as $$
begin
  raise exception '% on % is forbidden: its rows are never removed or rewritten',
    tg_op, tg_table_name using errcode = 'insufficient_privilege';
end $$;
"""

# TRUNCATE is refused whatever the kinds are: under forced row-level security a trigger run by
# the owner cannot see whether a real row is there. Retention deletes rows instead.
_TRIGGERS: Final = """
create trigger canopy_keep_real before delete or update on decisions
  for each row execute function canopy_keep_real();
create trigger canopy_keep_whole before truncate on decisions
  for each statement execute function canopy_refuse();
create trigger canopy_keep_rows before delete or update on outcomes
  for each row execute function canopy_refuse();
create trigger canopy_keep_whole before truncate on outcomes
  for each statement execute function canopy_refuse();
create trigger canopy_keep_rows before delete or update on policy_transitions
  for each row execute function canopy_refuse();
create trigger canopy_keep_whole before truncate on policy_transitions
  for each statement execute function canopy_refuse();
"""

_NAMES: Final = (
    ("canopy_keep_real", "decisions"),
    ("canopy_keep_whole", "decisions"),
    ("canopy_keep_rows", "outcomes"),
    ("canopy_keep_whole", "outcomes"),
    ("canopy_keep_rows", "policy_transitions"),
    ("canopy_keep_whole", "policy_transitions"),
)


def upgrade() -> None:
    op.execute("set role canopy_owner")
    op.execute(_FUNCTIONS)
    op.execute(_TRIGGERS)
    op.execute("reset role")


def downgrade() -> None:
    for trigger, table in _NAMES:
        op.execute(f"drop trigger {trigger} on {table}")
    op.execute("drop function canopy_keep_real()")
    # Partitions carry triggers of their own over this function.
    op.execute("drop function canopy_refuse() cascade")
