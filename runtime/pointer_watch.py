"""Keeps what serves fresh: at once when a change is announced, and by a sweep twice a second.

The announcement makes a stop effective within milliseconds; the sweep makes it effective
even where the announcement was lost, such as during a reconnect.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import psycopg
import structlog

from canopy.storage.states import STATE_CHANNEL
from runtime.pointers import Pointers

RECONNECT_S: Final = 0.5

_LISTENER: Final = "pointer-listen"
_log = structlog.get_logger()


class PointerWatch:
    """Two background tasks of one process: one polls, one listens.

    Args:
        pointers: What to refresh.
        dsn: Connection string of the application's role, for the listener.
        poll_s: Seconds between two sweeps.
        on_change: Told the owners that changed, before their pointers are looked at again.
    """

    def __init__(
        self,
        pointers: Pointers,
        dsn: str,
        poll_s: float,
        on_change: Callable[[Iterable[str]], None] = lambda _: None,
    ) -> None:
        self._pointers, self._dsn, self._poll_s = pointers, dsn, poll_s
        self._on_change = on_change
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        # A thread of its own: behind a crowd of first selections in the loop's pool a stop would
        # come late.
        self._thread = ThreadPoolExecutor(1, "pointer-watch")

    def start(self) -> None:
        """Begin to watch."""
        self._tasks = [
            asyncio.create_task(self._poll(), name="pointer-poll"),
            asyncio.create_task(self._listen(), name=_LISTENER),
        ]

    async def stop(self) -> None:
        """End both tasks; a look under way is finished, for it holds a connection."""
        self._is_stopping = True
        self._woken.set()
        for task in self._tasks:
            if task.get_name() == _LISTENER:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._thread.shutdown()

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._poll_s)
            if self._is_stopping:
                return
            self._woken.clear()
            changed, self._changed = self._changed, set()
            self._on_change(changed)
            try:
                if changed:
                    await loop.run_in_executor(self._thread, self._pointers.refresh, changed)
                self._on_change(await loop.run_in_executor(self._thread, self._pointers.sweep))
            except Exception as error:  # noqa: BLE001 - the last pointers keep serving
                self._changed |= changed
                _log.error("pointers_not_refreshed", because=str(error))

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (psycopg.Error, OSError) as error:
                _log.warning("listener_lost", because=str(error))
            await asyncio.sleep(RECONNECT_S)

    async def _listen_once(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
        async with connection:
            await connection.execute(f"listen {STATE_CHANNEL}")
            # Whatever was announced before this moment is found by looking once.
            self._woken.set()
            async for notice in connection.notifies():
                self._note(notice.payload)

    def _note(self, payload: str) -> None:
        try:
            tenant = json.loads(payload)["tenant"]
        except (ValueError, KeyError, TypeError):
            _log.warning("notice_not_understood", payload=payload)
        else:
            self._changed.add(tenant)
        self._woken.set()
