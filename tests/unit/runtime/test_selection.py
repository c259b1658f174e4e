"""The chooser: one vectorised draw per tick, and no request spoils another's."""

import asyncio
from dataclasses import replace

import pytest

from canopy.domain.decision import Mode
from canopy.domain.errors import (
    FeatureError,
    InputError,
    RequestConflictError,
    RequestInFlightError,
    ServiceUnreachableError,
)
from canopy.storage.rows import Written
from policy.selector import select_many
from runtime.interventions import Interventions
from runtime.pointers import Pointer
from runtime.selection import TICK_LIMIT, Chooser, SelectionService, choice_of
from runtime.telemetry import Metrics


class MemoryPointers:
    """Points at one catalog."""

    def __init__(self, catalog):
        self.pointer = Pointer("fleet", 0, Mode.ON, catalog, None, None)
        self.interventions = Interventions()

    def current(self, tenant, discipline):
        return self.pointer


class MemoryWriter:
    """Keeps rows by request, and answers when it is let."""

    def __init__(self):
        self.rows, self.let, self.fails = {}, asyncio.Event(), None
        self.let.set()

    async def submit(self, tenant, row):
        await self.let.wait()
        if self.fails is not None:
            raise self.fails
        standing = self.rows.setdefault((tenant, row.request_id), row)
        return Written(standing.decision_id, standing is row, standing.body_hash)

    async def stored(self, tenant, request_id):
        return self.rows.get((tenant, request_id))


@pytest.fixture
def choices(make_ask, catalog):
    pointer = Pointer("fleet", 0, Mode.ON, catalog, None, None)
    return [choice_of(make_ask(f"r-{n}"), pointer) for n in range(TICK_LIMIT + 5)]


def service_of(catalog):
    writer = MemoryWriter()
    return SelectionService(MemoryPointers(catalog), writer, writer.stored, Metrics()), writer


def test_what_waits_is_chosen_in_ticks_and_equals_choosing_alone(choices):
    metrics = Metrics()

    async def run():
        chooser = Chooser(metrics)
        return await asyncio.gather(*(chooser.choose(choice) for choice in choices))

    found = asyncio.run(run())
    assert [d.plan for d in found] == [select_many([c])[0].plan for c in choices]
    text = {s.name: s.value for s in metrics.tick_size.collect()[0].samples if not s.labels}
    assert text["canopy_selection_tick_size_count"] == 2
    assert text["canopy_selection_tick_size_sum"] == len(choices)


def test_one_bad_context_fails_alone(choices):
    choices[1] = replace(choices[1], context={"budget": "much"})

    async def run():
        chooser = Chooser(Metrics())
        return await asyncio.gather(*map(chooser.choose, choices[:3]), return_exceptions=True)

    found = asyncio.run(run())
    assert [isinstance(one, FeatureError) for one in found] == [False, True, False]


def test_a_caller_that_left_does_not_stop_the_others(choices):
    async def run():
        chooser = Chooser(Metrics())
        gone, stays = chooser.choose(choices[0]), chooser.choose(choices[1])
        gone.cancel()
        return await stays

    assert asyncio.run(run()).served


def test_a_plan_the_catalog_does_not_have_is_refused_by_place(make_ask, catalog):
    pointer = Pointer("fleet", 0, Mode.ON, catalog, None, None)
    with pytest.raises(InputError, match=r"allowed.*no plan 'x'"):
        choice_of(make_ask(allowed=("x",)), pointer)
    with pytest.raises(InputError, match=r"override.*no plan 'y'"):
        choice_of(make_ask(override="y"), pointer)


def test_a_retry_gives_the_row_that_stands(make_ask, catalog):
    async def run():
        service, _ = service_of(catalog)
        first = await service.select(make_ask())
        return first, await service.select(make_ask())

    first, again = asyncio.run(run())
    assert again is first


def test_another_body_conflicts_and_the_same_in_flight_waits(make_ask, catalog):
    async def run():
        service, writer = service_of(catalog)
        writer.let.clear()
        first = asyncio.create_task(service.select(make_ask()))
        await asyncio.sleep(0)
        with pytest.raises(RequestInFlightError):
            await service.select(make_ask())
        with pytest.raises(RequestConflictError):
            await service.select(make_ask(body_hash="1" * 32))
        writer.let.set()
        await first
        with pytest.raises(RequestConflictError):
            await service.select(make_ask(body_hash="1" * 32))
        assert service.n_in_flight() == 0

    asyncio.run(run())


def test_a_failed_write_frees_the_request(make_ask, catalog):
    async def run():
        service, writer = service_of(catalog)
        writer.fails = ServiceUnreachableError("Postgres", "gone.", "Wait.")
        with pytest.raises(ServiceUnreachableError):
            await service.select(make_ask())
        writer.fails = None
        assert (await service.select(make_ask())).request_id == "r-1"

    asyncio.run(run())
