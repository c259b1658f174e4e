"""Copying somebody's log in: through a table of the session, so that it is all or nothing."""

from collections.abc import Iterable
from typing import Any, Final

import psycopg
from sqlalchemy import Connection

from canopy.domain.episode import PRIMARY_METRIC, Outcome
from canopy.domain.errors import InputError, LogError
from canopy.storage.insertion import (
    ARRAY_TYPES,
    COLUMNS,
    EXPRESSIONS,
    driver_of,
    encode,
    ensure_months,
)
from canopy.storage.outcomes import outcome_values
from canopy.storage.rows import DecisionRow, ImportRow

_TYPES: Final = (
    *("int8", *(ARRAY_TYPES[name] for name in COLUMNS)),
    *("uuid", "float8"),
)
_NAMES: Final = ("row", *COLUMNS, "outcome_id", "reward")
_CREATE: Final = "create temporary table given ({}) on commit drop".format(
    ", ".join(f"{name} {kind}" for name, kind in zip(_NAMES, _TYPES, strict=True))
)
_COPY: Final = f"copy given ({', '.join(_NAMES)}) from stdin (format binary)"

_TWICE: Final = """
select row, decision_id from (
  select row, decision_id, row_number() over (partition by decision_id order by row) as turn
  from given) numbered
where turn > 1 order by row limit 1
"""
_THERE: Final = """
select given.row, given.decision_id from given
join decisions using (tenant_id, decision_id) order by given.row limit 1
"""
_DECISIONS: Final = f"""
insert into decisions ({", ".join(COLUMNS)})
select {", ".join(EXPRESSIONS[name] for name in COLUMNS)} from given order by decided_at
"""  # noqa: S608 - made of constants
_OUTCOMES: Final = """
insert into outcomes (tenant_id, outcome_id, decision_id, metric, value, observed_at, final)
select tenant_id, outcome_id, decision_id, %s, reward, decided_at, true from given
where reward is not null
"""


def copy_rows(connection: Connection, tenant: str, rows: Iterable[ImportRow | DecisionRow]) -> int:
    """Copy decisions and their rewards in, within the open transaction.

    Raises:
        LogError: If a row cannot be stored, or its decision id is in the log twice or recorded
            already; names the row, counted from 1.
    """
    driver = driver_of(connection)
    # Two imports of one log at once: the second must see what the first brought in.
    driver.execute(
        "select pg_advisory_xact_lock(hashtextextended('canopy.import:' || %s, 0))", (tenant,)
    )
    driver.execute(_CREATE)
    n_rows = _copy(driver, tenant, rows)
    if n_rows:
        driver.execute("analyze given")
        _refuse(driver, _TWICE, "the decision id comes a second time.")
        _refuse(driver, _THERE, "this decision id is recorded already.")
        span = driver.execute("select min(decided_at), max(decided_at) from given").fetchall()
        ensure_months(connection, span[0])
        try:
            driver.execute(_DECISIONS)
            driver.execute(_OUTCOMES, (PRIMARY_METRIC,))
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            raise LogError("log", f"the database refused it: {error}.", "Correct it.") from error
    driver.execute("drop table given")
    return n_rows


def _copy(
    driver: psycopg.Connection[Any], tenant: str, rows: Iterable[ImportRow | DecisionRow]
) -> int:
    number = 0
    try:
        with driver.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.set_types(_TYPES)
            for number, row in enumerate(rows, start=1):
                copy.write_row(_values(number, tenant, row))
    except (psycopg.DataError, OverflowError) as error:
        raise LogError(f"row {number}", f"it cannot be stored: {error}.", "Correct it.") from error
    return number


def _values(number: int, tenant: str, row: ImportRow | DecisionRow) -> tuple[Any, ...]:
    decision, reward = (row.decision, row.reward) if isinstance(row, ImportRow) else (row, None)
    try:
        values = encode(decision).values
        outcome_id = None
        if reward is not None:
            reward = float(reward)
            outcome = Outcome(PRIMARY_METRIC, reward, decision.decided_at)
            outcome_id = outcome_values(decision.decision_id, outcome)["outcome_id"]
    except InputError as error:
        raise LogError(f"row {number}: {error.place}", error.problem, error.remedy) from error
    if decision.tenant_id != tenant:
        raise LogError(
            f"row {number}",
            f"it belongs to tenant {decision.tenant_id!r}, the import to {tenant!r}.",
            "Import one tenant's log at a time.",
        )
    return (number, *values, outcome_id, reward)


def _refuse(driver: psycopg.Connection[Any], query: str, problem: str) -> None:
    found = driver.execute(query).fetchone()
    if found is not None:
        raise LogError(
            f"row {found[0]}, column decision_id {found[1]}",
            problem,
            "Nothing was imported; drop the rows that are known, or import under another tenant.",
        )
