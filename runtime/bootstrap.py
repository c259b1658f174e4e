"""The composition root of the serving process: everything is built and joined here."""

import asyncio
import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from canopy.settings import Settings
from canopy.storage.database import Database
from canopy.storage.durable import DecisionWriter
from canopy.storage.insertion import EncodedRow
from canopy.storage.rows import DecisionRow, Written
from runtime.access import KeyRing
from runtime.pointer_watch import PointerWatch
from runtime.pointers import Pointers
from runtime.selection import SelectionService
from runtime.telemetry import Metrics

POLICY_CACHE: Final = ("cache", "policies")
"""Folder below home where policies lie unpacked."""


@dataclass(slots=True)
class Runtime:
    """What a serving process holds from start to end.

    Attributes:
        settings: What it was started with.
        database: The record.
        metrics: Its figures.
        pointers: What serves.
        writer: Where decisions become durable.
        keys: Who may ask, and how often.
        selections: Answers selections.
        watch: Keeps the pointers fresh.
        is_ready: True between a finished start and the beginning of the end.
    """

    settings: Settings
    database: Database
    metrics: Metrics
    pointers: Pointers
    writer: DecisionWriter
    keys: KeyRing
    selections: SelectionService
    watch: PointerWatch
    is_ready: bool = False

    async def start(self) -> None:
        """Load what serves and connect the writer."""
        await asyncio.to_thread(self.pointers.start)
        await self.writer.start()
        self.watch.start()
        self.is_ready = True

    async def stop(self) -> None:
        """Flush what waits to be written, then let go of everything."""
        self.is_ready = False
        await self.watch.stop()
        await self.writer.stop()
        self.database.close()


class _MeasuredWriter(DecisionWriter):
    """The durable writer, with the size of every commit observed."""

    def __init__(self, dsn: str, metrics: Metrics) -> None:
        super().__init__(dsn)
        self._metrics = metrics

    async def _write(self, rows: Sequence[EncodedRow]) -> list[Written]:
        self._metrics.writer_batch.observe(len(rows))
        return await super()._write(rows)


def open_runtime(settings: Settings, *, is_public: bool = False) -> Runtime:
    """Build a serving process, starting the embedded servers where none are named.

    Args:
        settings: The installation's.
        is_public: True if others than this machine reach it: keys are then required unless the
            settings say otherwise.

    Returns:
        The runtime, not yet started.

    Raises:
        SchemaBehindError: If the schema is not the one this code needs.
        ServiceUnreachableError: If Postgres does not answer.
    """
    database = Database.connect(settings)
    metrics = Metrics()
    pointers = Pointers(database, settings.home.joinpath(*POLICY_CACHE))
    writer = _MeasuredWriter(database.app_dsn, metrics)
    keys = KeyRing.of(
        database,
        required=is_public if settings.require_keys is None else settings.require_keys,
        tenant_rate_per_s=settings.tenant_rate_per_s,
    )

    def read_stored(tenant: str, request_id: str) -> DecisionRow | None:
        with database.unit_of_work(tenant) as work:
            return work.decisions.by_request(request_id)

    async def stored(tenant: str, request_id: str) -> DecisionRow | None:
        return await asyncio.to_thread(read_stored, tenant, request_id)

    return Runtime(
        settings=settings,
        database=database,
        metrics=metrics,
        pointers=pointers,
        writer=writer,
        keys=keys,
        selections=SelectionService(pointers, writer, stored, metrics),
        watch=PointerWatch(pointers, database.app_dsn, settings.pointer_poll_s, keys.forget),
    )


def settle_gc() -> None:
    """Take what start-up made out of every later collection, and collect less often.

    Full collections over the objects of start-up stall the loop for tens of milliseconds,
    several times a second under load; frozen, they are never looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def runtime_of(app: Any) -> Runtime:
    """The runtime of an application.

    Raises:
        TypeError: If the application was built without one.
    """
    found = app.state.runtime
    if not isinstance(found, Runtime):
        raise TypeError("the application has no runtime: build it with runtime.http.app.")
    return found
