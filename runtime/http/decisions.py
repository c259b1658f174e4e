"""`GET /v1/decisions/{id}` and what was served after all."""

import asyncio
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import TypeAdapter

from canopy.domain.access import Scope
from canopy.domain.errors import CatalogError, InputError, NotFoundError
from canopy.storage.rows import DecisionRow, OutcomeRow
from canopy.storage.unit_of_work import UnitOfWork
from policy.catalog import Catalog, parse_catalog
from runtime.bootstrap import runtime_of
from runtime.episodes import by_plan, masked_plans
from runtime.http.bodies import read_body
from runtime.http.guard import admit, identified
from runtime.http.responses import GUARDED, guarded_responses, json_response, takes
from runtime.http.schemas import (
    AnsweredVersions,
    Correction,
    MaskedPlan,
    Name,
    OutcomeRecorded,
    ServedReport,
    StoredDecision,
)

_served = TypeAdapter(ServedReport)

router = APIRouter()


@router.get(
    "/v1/decisions/{decision_id}",
    summary="Read a decision",
    operation_id="read_decision",
    response_model=None,
    responses={200: {"model": StoredDecision}, **guarded_responses(400, 404, 503)},
    openapi_extra=GUARDED,
)
async def read(request: Request, decision_id: UUID, tenant: Annotated[Name, Query()]) -> Response:
    """The stored decision, its distribution, what was masked and why, and its outcomes."""
    admit(request, await identified(request), tenant, Scope.READ)
    database = runtime_of(request.app).database

    def load() -> StoredDecision:
        with database.unit_of_work(tenant) as work:
            return _document(work, decision_id)

    document = await asyncio.to_thread(load)
    return json_response(document.model_dump_json().encode())


@router.post(
    "/v1/decisions/{decision_id}/served",
    summary="Say what was served after all",
    operation_id="correct_decision",
    response_model=None,
    responses={200: {"model": StoredDecision}, **guarded_responses(400, 404, 413, 503)},
    openapi_extra=takes(ServedReport),
)
async def correct(request: Request, decision_id: UUID) -> Response:
    """Take the propensity back where what was served is not what was drawn."""
    permit = await identified(request)
    report = _served.validate_json(await read_body(request))
    admit(request, permit, report.tenant, Scope.CORRECT)
    database = runtime_of(request.app).database

    def write() -> StoredDecision:
        with database.unit_of_work(report.tenant) as work:
            row = _required(work, decision_id)
            _require_plan(_catalog(work, row), report.plan)
            if report.imposed or row.plan != report.plan:
                work.decisions.mark_not_served(decision_id, report.plan)
            return _document(work, decision_id)

    document = await asyncio.to_thread(write)
    return json_response(document.model_dump_json().encode())


def _required(work: UnitOfWork, decision_id: UUID) -> DecisionRow:
    row = work.decisions.get(decision_id)
    if row is None:
        raise NotFoundError("decision", str(decision_id), "Check the id and the tenant.")
    return row


def _require_plan(catalog: Catalog | None, plan: str) -> None:
    """Where the catalog is known, what was served must be one of its plans.

    Raises:
        InputError: If it is not.
    """
    if catalog is None:
        return
    try:
        catalog.index(plan)
    except CatalogError as error:
        raise InputError(
            "plan",
            f"the catalog of {catalog.discipline} has no plan {plan!r}.",
            "Name a plan by its id in the catalog the decision was made from.",
        ) from error


def _document(work: UnitOfWork, decision_id: UUID) -> StoredDecision:
    row = _required(work, decision_id)
    catalog = _catalog(work, row)
    masked = masked_plans(row, catalog) if catalog else None
    plan_ids = catalog.plan_ids if catalog else ()
    return StoredDecision(
        decision_id=row.decision_id,
        tenant=row.tenant_id,
        decided_at=row.decided_at,
        request_id=row.request_id,
        discipline=row.discipline,
        unit_id=row.unit_id,
        kind=row.kind.value,
        plan=row.plan,
        propensity=row.propensity,
        served=row.served,
        mode=row.mode.value if row.mode else None,
        arm=row.arm.value if row.arm else None,
        arm_share=row.arm_share,
        reasons=list(row.reasons),
        versions=AnsweredVersions(
            catalog=row.catalog_hash,
            features=row.feature_hash,
            policy=row.policy_id,
            kernel=row.kernel,
        ),
        u=row.u,
        floor=row.floor,
        n_plans=row.n_plans,
        distribution=by_plan(row.logging, plan_ids) if catalog else None,
        shadow_plan=row.shadow_plan,
        shadow=by_plan(row.shadow, plan_ids) if catalog else None,
        n_masked=masked.n_masked if masked else None,
        masked=[MaskedPlan(plan=plan, because=why) for plan, why in masked.shown] if masked else [],
        masked_by=masked.by_reason if masked else {},
        context=dict(row.context),
        reserved=row.reserved,
        corrections=[
            Correction(plan=one.plan, reported_at=one.reported_at)
            for one in work.decisions.corrections(decision_id)
        ],
        outcomes=[_outcome(outcome) for outcome in work.outcomes.of(decision_id)],
    )


def _catalog(work: UnitOfWork, row: DecisionRow) -> Catalog | None:
    if row.catalog_hash is None:
        return None
    try:
        text = work.catalogs.get(row.catalog_hash).text
    except NotFoundError:
        return None
    return parse_catalog(text, f"catalog {row.catalog_hash}")


def _outcome(row: OutcomeRow) -> OutcomeRecorded:
    return OutcomeRecorded(
        decision_id=row.decision_id,
        metric=row.metric,
        value=row.value,
        observed_at=row.observed_at,
        unit=row.unit,
        window_days=row.window,
        final=row.final,
    )
