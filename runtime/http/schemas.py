"""What the HTTP surface takes and answers: typed, bounded, with examples."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from canopy.domain.episode import PRIMARY_METRIC

MAX_ITEMS: Final = 1024
MAX_BODY_BYTES: Final = 16 * 2**20
MAX_WINDOW_DAYS: Final = 3650

# A NUL cannot be stored as text, and one such row would fail the whole commit it shares.
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
PlanId = Annotated[str, StringConstraints(min_length=1, max_length=4000, pattern=r"^[^\x00]+$")]

FIRST_MOMENT: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MOMENT: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""Within these a moment reads back in every zone; a database takes more than it gives back."""

EXAMPLE_ID: Final = "0197f3a2-5c1e-7d4b-9a60-3f1d2c4b5a69"
EXAMPLE_PLAN: Final = "opening=story,length=short"


_EXAMPLE_PROBLEM: Final = {
    "error": "not_found",
    "message": "no catalog of a discipline named 'publc_copy'. Register a policy first.",
    "place": "discipline",
}
_EXAMPLE_SELECTION: Final = {
    "request_id": "order-7781",
    "tenant": "acme",
    "discipline": "public_copy",
    "unit_id": "customer-42",
    "context": {"channel": "mail", "past_replies": 3},
}
_EXAMPLE_VERSIONS: Final = {
    "catalog": "c0ffee",
    "features": "f00d",
    "policy": "5eed",
    "kernel": "numpy-2.3/AVX512",
}
_EXAMPLE_ANSWER: Final = {
    "decision_id": EXAMPLE_ID,
    "plan": EXAMPLE_PLAN,
    "propensity": 0.31,
    "served": True,
    "mode": "on",
    "arm": None,
    "reasons": ["drawn"],
    "versions": _EXAMPLE_VERSIONS,
}
_EXAMPLE_REPORT: Final = {
    "tenant": "acme",
    "decision_id": EXAMPLE_ID,
    "metric": "reward",
    "value": 1.0,
    "window_days": 7,
}
_EXAMPLE_RECORDED: Final = {
    "decision_id": EXAMPLE_ID,
    "metric": "reward",
    "value": 1.0,
    "observed_at": "2026-03-01T12:00:00Z",
    "unit": None,
    "window_days": 7.0,
    "final": True,
}
_EXAMPLE_CORRECTION: Final = {
    "plan": "opening=question,length=short",
    "reported_at": "2026-03-01T12:00:05Z",
}
_EXAMPLE_MASKED: Final = {
    "plan": "opening=story,length=long",
    "because": "long texts need a budget of 3",
}
_EXAMPLE_STORED: Final = _EXAMPLE_ANSWER | {
    "propensity": None,
    "served": False,
    "tenant": "acme",
    "decided_at": "2026-03-01T12:00:00Z",
    "request_id": "order-7781",
    "discipline": "public_copy",
    "unit_id": "customer-42",
    "kind": "real",
    "arm_share": None,
    "u": 0.4711,
    "floor": 0.05,
    "n_plans": 3,
    "distribution": {EXAMPLE_PLAN: 0.31, _EXAMPLE_CORRECTION["plan"]: 0.69},
    "shadow_plan": None,
    "shadow": None,
    "n_masked": 1,
    "masked": [_EXAMPLE_MASKED],
    "masked_by": {_EXAMPLE_MASKED["because"]: 1},
    "context": _EXAMPLE_SELECTION["context"],
    "reserved": False,
    "corrections": [_EXAMPLE_CORRECTION],
    "outcomes": [_EXAMPLE_RECORDED],
}


def _config(example: dict[str, Any]) -> ConfigDict:
    # Strict: "1" is no number and 1 is no text; nothing is guessed from the wrong type.
    return ConfigDict(
        frozen=True, extra="forbid", strict=True, json_schema_extra={"examples": [example]}
    )


def _answer(example: dict[str, Any]) -> ConfigDict:
    # Fields may be added to answers, so nothing is forbidden there.
    return ConfigDict(frozen=True, json_schema_extra={"examples": [example]})


class Selection(BaseModel):
    """A request to choose a plan.

    Attributes:
        request_id: The caller's own id; the same id and body read the same answer.
        tenant: Whose decision this is.
        discipline: Which catalog and policy choose.
        unit_id: Whom the decision concerns; units, not requests, are reserved and split.
        context: What is known before choosing, by feature name.
        allowed: Plans that are possible right now; null leaves it to the catalog's rules.
        override: A plan the caller imposes; the row then carries no propensity.
        kind: `synthetic` for generated traffic, which no evidence ever mixes with real.
    """

    model_config = _config(_EXAMPLE_SELECTION)

    request_id: Name
    tenant: Name
    discipline: Name
    unit_id: Name
    context: dict[str, Any]
    allowed: list[PlanId] | None = None
    override: PlanId | None = None
    kind: Literal["real", "synthetic"] = "real"


class SelectionBatch(BaseModel):
    """Many selections in one call; each succeeds or fails by itself."""

    model_config = _config({"items": [_EXAMPLE_SELECTION]})

    items: Annotated[list[Selection], Field(min_length=1, max_length=MAX_ITEMS)]


class AnsweredVersions(BaseModel):
    """Everything whose change could change the choice; null where it played no part."""

    model_config = _answer(_EXAMPLE_VERSIONS)

    catalog: str | None
    features: str | None
    policy: str | None
    kernel: str | None


class SelectionAnswer(BaseModel):
    """The plan to serve.

    Attributes:
        decision_id: Name of the stored decision, for its outcomes.
        plan: The plan to serve.
        propensity: Probability of that plan; null where it was not drawn.
        served: Whether the plan to serve is the plan drawn.
        mode: State of the discipline's candidate.
        arm: Side of a canary; null outside one.
        reasons: Why this plan, most important first.
        versions: What it was chosen with.
    """

    model_config = _answer(_EXAMPLE_ANSWER)

    decision_id: UUID
    plan: str
    propensity: float | None
    served: bool
    mode: str
    arm: str | None
    reasons: list[str]
    versions: AnsweredVersions


class Problem(BaseModel):
    """What went wrong.

    Attributes:
        error: A stable code to branch on.
        message: What is wrong and what to do about it.
        place: Where: a field, a row, a name; null where the whole request is meant.
    """

    model_config = _config(_EXAMPLE_PROBLEM)

    error: str
    message: str
    place: str | None = None


class SelectionBatchAnswer(BaseModel):
    """One answer or problem per item, in the order of the items."""

    model_config = _answer({"items": [_EXAMPLE_ANSWER, _EXAMPLE_PROBLEM]})

    items: list[SelectionAnswer | Problem]


class OutcomeReport(BaseModel):
    """One measurement of what a decision led to; a later report corrects, never replaces.

    Attributes:
        tenant: Whose decision.
        decision_id: Which decision.
        metric: What was measured.
        value: The measurement; null where it was looked for and could not be measured.
        observed_at: When, with its zone, from 1970 to 9998; null means now.
        unit: Unit of `value`; null for a plain number.
        window_days: Time after the decision that the measurement covers; null if open.
        final: Whether no later measurement of this metric will come.
    """

    model_config = _config(_EXAMPLE_REPORT)

    tenant: Name
    decision_id: UUID
    metric: Name = PRIMARY_METRIC
    # Required on purpose: a forgotten value must not read as "could not be measured".
    value: Annotated[float, Field(allow_inf_nan=False)] | None
    observed_at: Annotated[AwareDatetime, Field(ge=FIRST_MOMENT, lt=LAST_MOMENT)] | None = None
    unit: Name | None = None
    window_days: Annotated[float, Field(gt=0, le=MAX_WINDOW_DAYS)] | None = None
    final: bool = True


class OutcomeBatch(BaseModel):
    """Many measurements in one call; each succeeds or fails by itself."""

    model_config = _config({"items": [_EXAMPLE_REPORT]})

    items: Annotated[list[OutcomeReport], Field(min_length=1, max_length=MAX_ITEMS)]


class OutcomeRecorded(BaseModel):
    """A measurement as it now stands in the record; fields as they were reported."""

    model_config = _answer(_EXAMPLE_RECORDED)

    decision_id: UUID
    metric: str
    value: float | None
    observed_at: datetime
    unit: str | None
    window_days: float | None
    final: bool


class OutcomeBatchAnswer(BaseModel):
    """One record or problem per item, in the order of the items."""

    model_config = _answer({"items": [_EXAMPLE_RECORDED, _EXAMPLE_PROBLEM]})

    items: list[OutcomeRecorded | Problem]


class ServedReport(BaseModel):
    """What the caller served after all.

    Attributes:
        tenant: Whose decision.
        plan: The plan served.
        imposed: True where the plan was not taken from the answer, even if it happens to be the
            same one: it was then not drawn, and the row leaves off-policy estimates.
    """

    model_config = _config({"tenant": "acme", "plan": EXAMPLE_PLAN})

    tenant: Name
    plan: PlanId
    imposed: bool = False


class Correction(BaseModel):
    """A plan that was served instead of the one in the answer."""

    model_config = _answer(_EXAMPLE_CORRECTION)

    plan: str
    reported_at: datetime


class MaskedPlan(BaseModel):
    """A plan that could not be served, and why."""

    model_config = _answer(_EXAMPLE_MASKED)

    plan: str
    because: str


class StoredDecision(BaseModel):
    """A decision as the record holds it.

    A field is null where the record does not say, as for decisions imported from elsewhere.

    Attributes:
        plan: The plan of the answer.
        propensity: Its probability when it was drawn; null where it was not, or was not served.
        served: False if something else was served than what was drawn.
        kind: `real`, `synthetic`, or `imported` from elsewhere.
        arm_share: Share of the arm it was assigned to; null outside a canary.
        u: The number in [0, 1) that the plan was drawn by.
        floor: Share of the distribution spread evenly over feasible plans.
        n_plans: How many plans the catalog has.
        distribution: Probability by plan the plan was drawn from; null above 256 plans, where
            only its digest is stored, and where nothing was drawn.
        shadow: The candidate's own probabilities in observation; never a propensity.
        n_masked: How many plans could not be served.
        masked: Up to 256 of them, in catalog order.
        masked_by: How many plans each reason masked.
        corrections: What was served instead, oldest first.
        outcomes: Every measurement, oldest first.
    """

    model_config = _answer(_EXAMPLE_STORED)

    decision_id: UUID
    tenant: str
    decided_at: datetime
    request_id: str | None
    discipline: str
    unit_id: str
    kind: str
    plan: str
    propensity: float | None
    served: bool
    mode: str | None
    arm: str | None
    arm_share: float | None
    reasons: list[str]
    versions: AnsweredVersions
    u: float | None
    floor: float | None
    n_plans: int | None
    distribution: dict[str, float] | None
    shadow_plan: str | None
    shadow: dict[str, float] | None
    n_masked: int | None
    masked: list[MaskedPlan]
    masked_by: dict[str, int]
    context: dict[str, Any]
    reserved: bool
    corrections: list[Correction]
    outcomes: list[OutcomeRecorded]


class Health(BaseModel):
    """Whether the process lives, or is ready; `because` says what it waits for."""

    model_config = _answer({"status": "ok", "because": None})

    status: Literal["ok", "unready"]
    because: str | None = None
