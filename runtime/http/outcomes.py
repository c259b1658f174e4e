"""`POST /v1/outcomes`: what became of decisions, added to and never replaced."""

import asyncio

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from canopy.domain.access import Scope
from canopy.domain.clock import now
from canopy.domain.episode import Outcome
from canopy.domain.errors import CanopyError
from canopy.storage.database import Database
from canopy.storage.unit_of_work import UnitOfWork
from runtime.bootstrap import runtime_of
from runtime.http.bodies import Shape, read_body
from runtime.http.guard import admit, identified, screened
from runtime.http.problems import Failure, failure_of
from runtime.http.responses import batch_response, guarded_responses, json_response, takes
from runtime.http.schemas import (
    OutcomeBatch,
    OutcomeBatchAnswer,
    OutcomeRecorded,
    OutcomeReport,
)

_shape = Shape(TypeAdapter(OutcomeReport))
_dump = TypeAdapter(OutcomeRecorded).dump_json

router = APIRouter()


@router.post(
    "/v1/outcomes",
    summary="Report what became of a decision",
    operation_id="report_outcome",
    response_model=None,
    responses={
        200: {"model": OutcomeRecorded | OutcomeBatchAnswer},
        **guarded_responses(400, 404, 413, 503),
    },
    openapi_extra=takes(OutcomeReport, OutcomeBatch),
)
async def report(request: Request) -> Response:
    """Record one measurement, or one per item."""
    permit = await identified(request)
    database = runtime_of(request.app).database
    parsed = _shape.read(await read_body(request))
    if isinstance(parsed, OutcomeReport):
        admit(request, permit, parsed.tenant, Scope.OUTCOME)
        return json_response(_dump(await asyncio.to_thread(_record, database, parsed)))
    items = screened(request, permit, parsed, Scope.OUTCOME)
    return batch_response(await asyncio.to_thread(_record_items, database, items))


def _record_items(database: Database, items: list[OutcomeReport | Failure]) -> list[bytes]:
    """Record in one transaction per tenant; an item that is wrong fails alone."""
    bodies = [item.body() if isinstance(item, Failure) else b"" for item in items]
    by_tenant: dict[str, list[tuple[int, OutcomeReport]]] = {}
    for place, item in enumerate(items):
        if isinstance(item, OutcomeReport):
            by_tenant.setdefault(item.tenant, []).append((place, item))
    for tenant, own in by_tenant.items():
        try:
            with database.unit_of_work(tenant) as work:
                answers = [(place, _item(work, place, item)) for place, item in own]
        except Exception as error:  # noqa: BLE001 - nothing of this tenant was kept
            answers = [
                (place, failure_of(error, place=f"items.{place}").body()) for place, _ in own
            ]
        for place, body in answers:
            bodies[place] = body
    return bodies


def _item(work: UnitOfWork, place: int, report: OutcomeReport) -> bytes:
    try:
        return _dump(_add(work, report))
    except CanopyError as error:
        return failure_of(error, place=f"items.{place}").body()


def _record(database: Database, report: OutcomeReport) -> OutcomeRecorded:
    with database.unit_of_work(report.tenant) as work:
        return _add(work, report)


def _add(work: UnitOfWork, report: OutcomeReport) -> OutcomeRecorded:
    outcome = Outcome(
        metric=report.metric,
        value=report.value,
        observed_at=report.observed_at or now(),
        unit=report.unit,
        window=report.window_days,
        final=report.final,
    )
    work.outcomes.add(report.decision_id, outcome)
    return OutcomeRecorded(
        decision_id=report.decision_id,
        metric=outcome.metric,
        value=outcome.value,
        observed_at=outcome.observed_at,
        unit=outcome.unit,
        window_days=outcome.window,
        final=outcome.final,
    )
