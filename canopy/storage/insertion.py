"""The one statement that records decisions, shared by the durable writer and units of work.

A batch is one round trip: requests first, where a request answered before is skipped, then
the decisions of the new requests alone, then which of the rows handed in are new.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import starmap
from typing import Any, Final
from uuid import UUID

import psycopg
from sqlalchemy import Connection, text

from canopy.domain.errors import InputError
from canopy.domain.ids import canonical_json
from canopy.storage.rows import DecisionRow, Written

COLUMNS: Final = tuple(DecisionRow.__dataclass_fields__)

LIST_SEPARATOR: Final = "\x1f"
"""Text arrays cannot nest in unnest, so lists travel joined by the unit separator."""

# Every value is made the column's plain type: an array of a batch must not mix float with
# numpy's float64, or str with an enumeration.
_FLOATS: Final = ("propensity", "arm_share", "floor", "u", "keep_prob")
_INTEGERS: Final = ("action", "n_plans")
_BYTES: Final = ("logging", "mask", "shadow")
_BOOLEANS: Final = ("served", "reserved")
ARRAY_TYPES: Final[Mapping[str, str]] = (
    dict.fromkeys(COLUMNS, "text")
    | {"decision_id": "uuid", "decided_at": "timestamptz"}
    | dict.fromkeys(_FLOATS, "float8")
    | dict.fromkeys(_INTEGERS, "int4")
    | dict.fromkeys(_BYTES, "bytea")
    | dict.fromkeys(_BOOLEANS, "bool")
)
_PLAIN: Final[Mapping[str, Callable[[Any], Any]]] = (
    dict.fromkeys(COLUMNS, str)
    | dict.fromkeys(_FLOATS, float)
    | dict.fromkeys(_INTEGERS, int)
    | dict.fromkeys(_BYTES, bytes)
    | dict.fromkeys(_BOOLEANS, bool)
    | {
        "decision_id": lambda value: value,
        "decided_at": lambda value: value,
        "reasons": LIST_SEPARATOR.join,
        "context": lambda value: canonical_json(dict(value)),
    }
)
EXPRESSIONS: Final[Mapping[str, str]] = {name: f"given.{name}" for name in COLUMNS} | {
    "reasons": f"string_to_array(given.reasons, '{LIST_SEPARATOR}')",
    "context": "given.context::json",
}

STATEMENT: Final = f"""
with given as (
  select * from unnest({", ".join(f"%b::{ARRAY_TYPES[name]}[]" for name in COLUMNS)})
  as given({", ".join(COLUMNS)})
), fresh as (
  insert into requests (tenant_id, request_id, decision_id, decided_at, body_hash)
  select tenant_id, request_id, decision_id, decided_at, body_hash from given
  where request_id is not null order by request_id
  on conflict do nothing returning request_id
)
insert into decisions ({", ".join(COLUMNS)})
select {", ".join(EXPRESSIONS[name] for name in COLUMNS)} from given
where given.request_id is null or given.request_id in (select request_id from fresh)
returning request_id
"""  # noqa: S608 - made of this module's own constants
"""Takes one array per column; gives the request ids that are new. No request id twice in it."""

STANDING: Final = """
select request_id, decision_id, body_hash from requests
where tenant_id = %s and request_id = any(%s)
"""

Standing = Mapping[str, tuple[UUID, str]]
"""By request id: the decision that stands for it and the hash of the body it answered."""


def parameters(rows: Sequence[DecisionRow]) -> list[list[Any]]:
    """One list per column of `STATEMENT`."""
    return [[plain(name, getattr(row, name)) for row in rows] for name in COLUMNS]


def plain(name: str, value: Any) -> Any:
    """A column's value as the plain type it is sent as; None stays None."""
    return None if value is None else _PLAIN[name](value)


def check_row(row: DecisionRow) -> None:
    """Refuse what the table could not hold, before it spoils the batch of others.

    Raises:
        InputError: If the tenant is empty, the time is not aware, a request id comes without a
            body hash, a probability lies outside its range, or the context is not JSON.
    """
    place = f"decision {row.decision_id}"
    if not row.tenant_id:
        raise InputError(place, "the tenant is empty.", "Name the tenant.")
    if row.decided_at.tzinfo is None:
        raise InputError(place, f"{row.decided_at} has no time zone.", "Send an aware time.")
    if (row.request_id is None) != (row.body_hash is None):
        raise InputError(
            place, "a request id and a body hash come together.", "Give both, or neither."
        )
    for name, probability in (("propensity", row.propensity), ("keep_prob", row.keep_prob)):
        if probability is not None and not 0 < probability <= 1:
            raise InputError(
                f"{place}, {name}",
                f"expected a number in (0, 1], got {probability}.",
                "A plan that was drawn had a chance; leave out what is not known.",
            )
    try:
        document = canonical_json(dict(row.context))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{place}, context", f"it is not JSON: {error}.", "Leave out what is missing."
        ) from error
    if "\\u0000" in document or "\x00" in f"{row.unit_id}{row.plan}{row.request_id}":
        raise InputError(place, "it holds the character NUL.", "Leave that character out.")


def distinct(rows: Sequence[DecisionRow]) -> list[DecisionRow]:
    """The rows without those whose request id stands earlier in the batch."""
    first: dict[str, DecisionRow] = {}
    return [
        row
        for row in rows
        if row.request_id is None or first.setdefault(row.request_id, row) is row
    ]


def unanswered(rows: Sequence[DecisionRow], fresh: set[str]) -> list[str]:
    """Request ids of the batch whose answer must be looked up: somebody was there before."""
    asked = {row.request_id for row in rows if row.request_id is not None}
    repeated = len(asked) != sum(row.request_id is not None for row in rows)
    return sorted(asked if repeated else asked - fresh)


def results(rows: Sequence[DecisionRow], standing: Standing) -> list[Written]:
    """What became of each row; a request that is not in `standing` was answered by its row."""
    return list(starmap(_result, ((row, standing.get(row.request_id or "")) for row in rows)))


def _result(row: DecisionRow, found: tuple[UUID, str] | None) -> Written:
    # A batch that was sent again after a lost connection finds its own rows standing.
    if row.request_id is None or found is None or found[0] == row.decision_id:
        return Written(row.decision_id, is_new=True, body_hash=row.body_hash)
    return Written(found[0], is_new=False, body_hash=found[1])


def insert_rows(connection: Connection, tenant: str, rows: Sequence[DecisionRow]) -> list[Written]:
    """Record a batch of one tenant's decisions in the open transaction.

    Raises:
        InputError: If a row belongs to another tenant or cannot be stored.
    """
    if not rows:
        return []
    for row in rows:
        if row.tenant_id != tenant:
            raise InputError(
                f"decision {row.decision_id}",
                f"it belongs to tenant {row.tenant_id!r}, this transaction to {tenant!r}.",
                "Use one unit of work per tenant.",
            )
        check_row(row)
    ensure_months(connection, [row.decided_at for row in rows])
    driver = driver_of(connection)
    cursor = driver.execute(STATEMENT, parameters(distinct(rows)))
    wanted = unanswered(rows, {name for (name,) in cursor if name is not None})
    found = driver.execute(STANDING, (tenant, wanted)) if wanted else ()
    return results(rows, {name: (decision_id, body) for name, decision_id, body in found})


def driver_of(connection: Connection) -> psycopg.Connection[Any]:
    """The psycopg connection under an SQLAlchemy one."""
    driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
    return driver


def ensure_months(connection: Connection, moments: Sequence[datetime]) -> None:
    """Make the monthly partitions that the moments need and that are not there.

    They are made and committed by a connection of their own: inside a long transaction they
    would hold back every other writer that lacks a month.
    """
    first, last = min(moments), max(moments)
    missing = connection.scalar(
        text("""
            select exists (
              select from generate_series(
                date_trunc('month', cast(:first as timestamptz), 'UTC'),
                cast(:last as timestamptz), interval '1 month', 'UTC') as month
              where to_regclass(
                'decisions_' || to_char(month at time zone 'UTC', 'YYYY_MM')) is null)
        """),
        {"first": first, "last": last},
    )
    if missing:
        with connection.engine.begin() as own:
            own.execute(
                text("select canopy_ensure_partitions(:first, :last)"),
                {"first": first, "last": last},
            )
