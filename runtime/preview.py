"""Choosing without recording: what a policy, or a discipline as it is served, would do."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from canopy.domain.decision import Decision, Reason
from canopy.domain.episode import EpisodeKind
from canopy.domain.errors import InputError
from canopy.settings import Settings
from canopy.storage.database import Database
from policy.catalog import Catalog
from policy.contributions import contributions
from policy.masks import mask_context
from policy.selector import Choice, select_many
from runtime.bootstrap import POLICY_CACHE
from runtime.episodes import Ask, draw_key
from runtime.inspection import standing_documents
from runtime.pointers import Pointers
from runtime.registry import is_artifact_folder, resolve_policy
from runtime.selection import choice_of


@dataclass(frozen=True, slots=True)
class Preview:
    """A selection that is not recorded.

    Attributes:
        tenant: On whose behalf.
        policy: Folder, id or beginning of an id; None chooses as the discipline is served.
        discipline: The discipline; None with a policy.
        context: What is known before choosing.
        request_id: What the draw is derived from; None takes a fresh one.
        allowed: Plans possible now; None for all.
        override: A plan to impose; None draws.
        unit_id: Whom it is for, which decides the side of a canary.
    """

    tenant: str
    policy: str | None
    discipline: str | None
    context: dict[str, Any]
    request_id: str | None
    allowed: Sequence[str] | None
    override: str | None
    unit_id: str = ""


@dataclass(frozen=True, slots=True)
class DecisionDocument:
    """A decision as JSON, with its whole distribution by plan id."""

    document: dict[str, Any]


def read_context(text: str) -> dict[str, Any]:
    """A context from a JSON object, or from a file that holds one.

    Raises:
        InputError: If it is neither.
    """
    place = "--context"
    if not text.lstrip().startswith("{"):
        place = text
        try:
            text = Path(text).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(
                place, f"no JSON object and no file: {error.strerror}.", "Pass one of them."
            ) from error
    try:
        context = json.loads(text)
    except ValueError as error:
        raise InputError(place, f"not JSON: {error}.", "Correct it.") from error
    if not isinstance(context, dict):
        raise InputError(place, "expected an object of features.", 'Write {"name": value}.')
    return context


def preview(settings: Settings, asked: Preview) -> DecisionDocument:
    """Choose, and record nothing.

    Args:
        settings: The installation's; a policy's folder needs no server of it.
        asked: What to choose for.

    Returns:
        The decision, whole.

    Raises:
        InputError: If not exactly one of policy and discipline is named, or the context or a
            plan does not fit.
        NotFoundError: If the policy or the discipline is not there.
    """
    if (asked.policy is None) == (asked.discipline is None):
        raise InputError(
            "policy select", "expected a policy or --discipline, one of them.", "Name one."
        )
    request_id = asked.request_id or str(uuid4())
    key = draw_key(asked.tenant, request_id)
    standing: list[dict[str, Any]] = []
    if asked.policy is not None:
        choice = _choice_of_policy(settings, asked, asked.policy, key)
    else:
        choice, standing = _choice_as_served(settings, asked, asked.discipline or "", key)
    decision = select_many([choice])[0]
    document = _document(decision, choice.catalog, choice)
    return DecisionDocument({"request_id": request_id, **document, "interventions": standing})


def _choice_of_policy(settings: Settings, asked: Preview, policy: str, key: str) -> Choice:
    """What a policy would choose, whatever serves and whatever is imposed."""
    if is_artifact_folder(policy):
        artifact = resolve_policy(None, asked.tenant, policy)
    else:
        with Database.connect(settings) as database:
            artifact = resolve_policy(database, asked.tenant, policy)
    return Choice(
        catalog=artifact.catalog,
        artifact=artifact,
        context=asked.context,
        key=key,
        allowed=asked.allowed,
        override=asked.override,
    )


def _choice_as_served(
    settings: Settings, asked: Preview, discipline: str, key: str
) -> tuple[Choice, list[dict[str, Any]]]:
    """What serving would choose from, and the stops and pins that stand."""
    with Database.connect(settings) as database:
        pointers = Pointers(database, settings.home.joinpath(*POLICY_CACHE))
        pointer = pointers.load(asked.tenant, discipline)
        with database.unit_of_work(asked.tenant) as work:
            standing = standing_documents(work, discipline)
    # The very same way from a request to a choice that serving takes, canary and stops included.
    choice = choice_of(
        Ask(
            tenant=asked.tenant,
            request_id="",
            discipline=discipline,
            unit_id=asked.unit_id,
            context=asked.context,
            allowed=None if asked.allowed is None else tuple(asked.allowed),
            override=asked.override,
            kind=EpisodeKind.SYNTHETIC,
            body_hash="",
        ),
        pointer,
        pointers.interventions.on(asked.tenant, discipline),
    )
    return replace(choice, key=key), standing


def _document(decision: Decision, catalog: Catalog, choice: Choice) -> dict[str, Any]:
    masked = mask_context(catalog, choice.context, choice.allowed).reasons()
    versions = decision.versions
    return {
        "plan": decision.plan,
        "propensity": decision.propensity,
        "served": decision.served,
        "mode": decision.mode.value,
        "arm": decision.arm,
        "arm_share": decision.arm_share,
        "reasons": [reason.value for reason in decision.reasons],
        "u": decision.u,
        "floor": decision.floor,
        "n_plans": catalog.n_plans,
        "n_masked": int(np.count_nonzero(~np.asarray(decision.mask, dtype=bool))),
        "distribution": _by_plan(decision.distribution, catalog),
        "shadow_plan": decision.shadow_plan,
        "shadow": _by_plan(decision.shadow, catalog),
        "masked": masked,
        "contributions": _contributions(decision, choice),
        "versions": {
            "catalog": versions.catalog,
            "features": versions.features,
            "policy": versions.policy,
            "kernel": versions.kernel,
        },
    }


def _contributions(decision: Decision, choice: Choice) -> list[dict[str, Any]] | None:
    """What each factor adds to the score of the plan drawn; None where no policy drew it."""
    artifact = choice.artifact
    if artifact is None or Reason.DRAWN not in decision.reasons:
        return None
    mask = np.asarray(decision.mask, dtype=bool)
    return [
        {
            "factors": list(one.factors),
            "levels": list(one.levels),
            "logit": one.logit,
            "against_mean": one.against_mean,
        }
        for one in contributions(artifact, choice.context, decision.action, mask)
    ]


def _by_plan(distribution: Any, catalog: Catalog) -> dict[str, float] | None:
    if distribution is None:
        return None
    return dict(zip(catalog.plan_ids, distribution.tolist(), strict=True))
