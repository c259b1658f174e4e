"""The durable writer: a decision is answered only after it is committed.

Commits are shared without a timer: what gathers while one batch is on its way forms the next
one. A lost connection is opened again and the same batch sent again; request ids make that
safe, whether the lost commit had happened or not.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, errors

from canopy.domain.errors import InputError, ServiceUnreachableError
from canopy.storage.insertion import (
    LIST_SEPARATOR,
    STANDING,
    STATEMENT,
    EncodedRow,
    columns_of,
    distinct,
    encode,
    parameters,
    results,
    standing_of,
    unanswered,
)
from canopy.storage.rows import DecisionRow, Written

MAX_BATCH: Final = 512
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0
GIVE_UP_S: Final = 20.0
"""After so long without a server the waiting callers are told; asking again is safe."""

_ASK_AGAIN: Final = "Ask again with the same request id; run `canopy doctor`."
_BIND: Final = "select set_config('canopy.batch', %s, true)"
_LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError)


@dataclass(frozen=True, slots=True)
class _Waiting:
    row: EncodedRow
    answer: asyncio.Future[Written]


class DecisionWriter:
    """Records decisions from one event loop over one connection.

    Args:
        dsn: Connection string of the plain role: `Database.app_dsn`.
        give_up_s: Seconds without a server after which waiting callers are told.
    """

    def __init__(self, dsn: str, *, give_up_s: float = GIVE_UP_S) -> None:
        self._dsn, self._give_up_s = dsn, give_up_s
        self._connection: AsyncConnection[Any] | None = None
        self._waiting: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect and begin to write.

        Raises:
            ServiceUnreachableError: If the database does not answer.
        """
        try:
            await self._connected()
        except _LOST as error:
            raise ServiceUnreachableError("Postgres", f"{error}.", _ASK_AGAIN) from error
        self._is_stopping = False
        self._task = asyncio.create_task(self._run(), name="decision-writer")

    async def stop(self) -> None:
        """Write what waits, then close the connection."""
        self._is_stopping = True
        self._arrived.set()
        if self._task is not None:
            await self._task
            self._task = None
        await self._disconnect()

    async def submit(self, tenant: str, row: DecisionRow) -> Written:
        """Record one decision; comes back once it is durable, or was before.

        Returns:
            The decision that stands for the request; compare its body hash with the caller's.

        Raises:
            InputError: If the row cannot be stored, lacks a request id, or is another tenant's.
            ServiceUnreachableError: If the database is gone for too long, or the writer is
                not running. Whether the row was kept is then unknown; asking again is safe.
        """
        if row.tenant_id != tenant or row.request_id is None:
            raise InputError(
                f"decision {row.decision_id}",
                f"expected tenant {tenant!r} and a request id.",
                "Without a request id a lost answer could not be asked for again.",
            )
        encoded = encode(row)
        if self._task is None or self._is_stopping:
            raise ServiceUnreachableError("Decision writer", "it is not running.", "Start it.")
        answer: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(encoded, answer))
        self._arrived.set()
        return await answer

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                await self._settle(batch)
            if self._is_stopping:
                return

    async def _settle(self, batch: Sequence[_Waiting]) -> None:
        """Write a batch and answer its callers; a row the database refuses fails alone."""
        try:
            answers = await self._write([waiting.row for waiting in batch])
        except ServiceUnreachableError as error:
            _fail(batch, error)
        except Exception as error:  # noqa: BLE001 - one bad row must not end the writer
            if len(batch) > 1:
                for waiting in batch:
                    await self._settle([waiting])
                return
            place = f"decision {batch[0].row.row.decision_id}"
            _fail(batch, InputError(place, f"the database refused it: {error}.", "Correct it."))
        else:
            for waiting, answer in zip(batch, answers, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)

    async def _write(self, rows: Sequence[EncodedRow]) -> list[Written]:
        """Send a batch until it is committed.

        Raises:
            ServiceUnreachableError: If that did not come about in time.
            CheckViolation: If a row breaks a rule of the table.
        """
        deadline, pause_s = time.monotonic() + self._give_up_s, FIRST_PAUSE_S
        has_months = False
        while True:
            try:
                return await self._commit(await self._connected(), rows)
            except errors.CheckViolation as error:
                # The only check without a constraint's name: no partition takes the row.
                if has_months or error.diag.constraint_name is not None:
                    raise
                has_months = await self._add_months(rows)
            except _LOST as error:
                await self._disconnect()
                if time.monotonic() + pause_s > deadline:
                    raise ServiceUnreachableError("Postgres", f"{error}.", _ASK_AGAIN) from error
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    @staticmethod
    async def _commit(
        connection: AsyncConnection[Any], rows: Sequence[EncodedRow]
    ) -> list[Written]:
        """One transaction over the whole batch; it may touch the batch's tenants alone."""
        tenants = LIST_SEPARATOR.join({row.row.tenant_id for row in rows})
        # A pipeline: begin, settings, insert and commit are one round trip.
        async with connection.pipeline(), connection.transaction():
            await connection.execute(_BIND, (tenants,))
            cursor = await connection.execute(STATEMENT, parameters(distinct(rows)), prepare=True)
        wanted = unanswered(rows, set(await cursor.fetchall()))
        if not wanted:
            return results(rows, {})
        async with connection.transaction():
            await connection.execute(_BIND, (tenants,))
            found = await connection.execute(STANDING, columns_of(wanted))
            return results(rows, standing_of(await found.fetchall()))

    async def _add_months(self, rows: Sequence[EncodedRow]) -> bool:
        moments = [row.row.decided_at for row in rows]
        connection = await self._connected()
        async with connection.transaction():
            await connection.execute(
                "select canopy_ensure_partitions(%s, %s)", (min(moments), max(moments))
            )
        return True

    async def _connected(self) -> AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = await AsyncConnection.connect(
                self._dsn, autocommit=True, connect_timeout=5
            )
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                await connection.close()


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        if not waiting.answer.done():
            waiting.answer.set_exception(error)
