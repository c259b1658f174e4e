"""Selection: the one writer of propensities.

mask, scores, floor, draw, record, in this order. Whatever keeps the drawn plan from being
served (an override, a kill switch, a policy that cannot be used) passes through here too, is
named, and nulls the propensity. What imposes a plan, strongest first: killed, override, pinned,
unavailable, suspended, no feasible plan.

A policy's failure never fails whoever asked: the default plan is served in its place. A wrong
argument or context does: nobody could say what was asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from canopy.domain.decision import Arm, Decision, Mode, Reason, Versions
from canopy.domain.errors import ArtifactError, FeatureError, RangeError
from policy.arrays import BoolArray, FloatArray
from policy.artifact import Artifact
from policy.catalog import Catalog
from policy.distributions import check_floor, distribution, doctrine, draw
from policy.draws import Draw, Drawn, draw_all, draw_one, encoded
from policy.kernel import SHADOW_SUFFIX, kernel_fingerprint, uniform
from policy.masks import Mask, mask_context, mask_contexts
from policy.scoring import target_rows

__all__ = [
    "Choice",
    "distribution",
    "doctrine_probabilities",
    "draw",
    "kernel_fingerprint",
    "probabilities",
    "select",
    "select_many",
    "uniform",
]


@dataclass(frozen=True, slots=True)
class Choice:
    """Everything that one selection depends on.

    Attributes:
        catalog: The plans.
        context: What is known before choosing.
        key: What the draw is derived from: the same key draws the same plan.
        artifact: The policy that serves; None for the doctrine policy.
        mode: State of the discipline's candidate.
        allowed: Ids of the plans possible now, as the caller says; None for all.
        override: A plan that the caller imposes.
        pinned: A plan that a standing pin imposes.
        killed: True if a kill switch is set.
        unavailable: True if the policy pointed to could not be loaded.
        floor: Exploration floor; None for the policy's own (0 for the doctrine policy). Where a
            plan is imposed nothing is drawn: the floor is recorded and changes nothing.
        candidate: A policy whose choice is logged beside, and never served; whatever is wrong
            with it leaves the decision as it is.
        arm: Side of the canary that the unit is on, whose policy `artifact` is; None outside a
            canary. The propensity is then conditional on the arm.
        arm_share: Probability of that arm; None outside a canary.
        suspended: True if the policy failed too often of late and is left alone.
    """

    catalog: Catalog
    context: Mapping[str, object]
    key: str
    artifact: Artifact | None = None
    mode: Mode = Mode.ON
    allowed: Sequence[str] | None = None
    override: str | None = None
    pinned: str | None = None
    killed: bool = False
    unavailable: bool = False
    floor: float | None = None
    candidate: Artifact | None = None
    arm: Arm | None = None
    arm_share: float | None = None
    suspended: bool = False


class _Prepared(NamedTuple):
    """A choice after its mask: what is imposed, what is to be drawn, or why neither can be."""

    choice: Choice
    mask: Mask
    floor: float
    u: float
    imposed: tuple[Reason, int] | None
    served: Draw | Reason | None
    shadow: Draw | Reason | None


def select(
    *,
    catalog: Catalog,
    artifact: Artifact | None,
    context: Mapping[str, object],
    key: str,
    mode: Mode = Mode.ON,
    allowed: Sequence[str] | None = None,
    override: str | None = None,
    pinned: str | None = None,
    killed: bool = False,
    unavailable: bool = False,
    floor: float | None = None,
    candidate: Artifact | None = None,
    arm: Arm | None = None,
    arm_share: float | None = None,
    suspended: bool = False,
) -> Decision:
    """Choose a plan for one context; see `Choice` for the arguments.

    Returns:
        The decision. Its propensity is None wherever the plan to serve was not drawn.

    Raises:
        ArtifactError: If the policy to serve was made for another catalog.
        CatalogError: If a plan is named that the catalog does not have.
        FeatureError: If a context value has a wrong type.
        RangeError: If the floor or the arm's share lies outside [0, 1].
    """
    prepared = _prepare(
        Choice(
            catalog=catalog,
            context=context,
            key=key,
            artifact=artifact,
            mode=mode,
            allowed=allowed,
            override=override,
            pinned=pinned,
            killed=killed,
            unavailable=unavailable,
            floor=floor,
            candidate=candidate,
            arm=arm,
            arm_share=arm_share,
            suspended=suspended,
        )
    )
    served, shadow = prepared.served, prepared.shadow
    return _record(
        prepared,
        draw_one(served) if isinstance(served, Draw) else served,
        draw_one(shadow) if isinstance(shadow, Draw) else shadow,
    )


def select_many(requests: Sequence[Choice]) -> list[Decision]:
    """Choose for many contexts at once; each decision has the bits that `select` gives it.

    Args:
        requests: The choices, of any mix of catalogs and policies.

    Returns:
        One decision per choice, in order.

    Raises:
        ArtifactError: If a policy to serve was made for another catalog.
        CatalogError: If a plan is named that its catalog does not have.
        FeatureError: If a context value has a wrong type.
        RangeError: If a floor or an arm's share lies outside [0, 1].
    """
    prepared = [_prepare(choice) for choice in requests]
    wanted = [draw for one in prepared for draw in (one.served, one.shadow)]
    drawn = iter(draw_all([draw for draw in wanted if isinstance(draw, Draw)]))
    ends = iter([next(drawn) if isinstance(draw, Draw) else draw for draw in wanted])
    return [_record(one, next(ends), next(ends)) for one in prepared]


def _prepare(choice: Choice) -> _Prepared:
    """Everything before the draw, one choice at a time: mask, features, what is imposed.

    Raises:
        RangeError: If the floor or the arm's share lies outside [0, 1].
    """
    catalog, artifact = choice.catalog, choice.artifact
    if artifact is not None:
        _check_catalog(artifact, catalog)
    mask = mask_context(catalog, choice.context, choice.allowed)
    u = uniform(choice.key)
    if choice.arm_share is not None and not 0.0 <= choice.arm_share <= 1.0:
        raise RangeError("arm_share", None, choice.arm_share, "a share from 0 to 1")
    if choice.floor is not None:
        check_floor(choice.floor)
        floor = choice.floor
    else:
        floor = 0.0 if artifact is None else artifact.floor
    imposed = _imposed(choice, mask)
    served: Draw | Reason | None = None
    if imposed is None:
        features = None if artifact is None else encoded(artifact, choice.context)
        served = (
            features if isinstance(features, Reason) else Draw(artifact, floor, features, mask, u)
        )
    return _Prepared(choice, mask, floor, u, imposed, served, _shadow(choice, mask))


def _check_catalog(artifact: Artifact, catalog: Catalog) -> None:
    """Refuse to choose among plans that a policy was not made for.

    Raises:
        ArtifactError: If the catalogs differ.
    """
    if artifact.catalog is not catalog and artifact.catalog != catalog:
        raise ArtifactError(
            f"policy {artifact.policy_id}",
            f"was made for catalog {artifact.catalog.content_hash}, not {catalog.content_hash}.",
            "Train it on the catalog in force, or serve that catalog.",
        )


def _imposed(choice: Choice, mask: Mask) -> tuple[Reason, int] | None:
    """The plan that is served without a draw, and why; None where a draw decides."""
    catalog = choice.catalog
    if choice.killed:
        return Reason.KILLED, catalog.default
    if choice.override is not None:
        return Reason.OVERRIDDEN, catalog.index(choice.override)
    if choice.pinned is not None:
        return Reason.PINNED, catalog.index(choice.pinned)
    reason = None
    if choice.unavailable:
        reason = Reason.POLICY_UNAVAILABLE
    elif choice.suspended:
        reason = Reason.POLICY_SUSPENDED
    elif not mask.n_feasible:
        reason = Reason.NO_FEASIBLE_PLAN
    return None if reason is None else (reason, catalog.default)


def _shadow(choice: Choice, mask: Mask) -> Draw | Reason | None:
    """The candidate's own draw; None without a candidate or a feasible plan."""
    candidate = choice.candidate
    if candidate is None or not mask.n_feasible:
        return None
    try:
        _check_catalog(candidate, choice.catalog)
        features = encoded(candidate, choice.context)
    except (ArtifactError, FeatureError):
        # Nobody asked the candidate: a context that it cannot read is no wrong request.
        return Reason.SHADOW_FAILED
    if isinstance(features, Reason):
        return Reason.SHADOW_FAILED
    return Draw(candidate, candidate.floor, features, mask, uniform(choice.key + SHADOW_SUFFIX))


def _record(
    prepared: _Prepared, served: Drawn | Reason | None, shadow: Drawn | Reason | None
) -> Decision:
    """The decision: what was drawn or imposed, and with what."""
    choice, catalog, artifact = prepared.choice, prepared.choice.catalog, prepared.choice.artifact
    row: FloatArray | None = None
    if isinstance(served, Drawn):
        reason = Reason.DOCTRINE if artifact is None else Reason.DRAWN
        action, row = served
    else:
        reason, action = prepared.imposed or (served or Reason.POLICY_FAILED, catalog.default)
        artifact = None
    watched = shadow if isinstance(shadow, Drawn) else None
    return Decision(
        plan=catalog.plan_ids[action],
        action=action,
        distribution=row,
        propensity=None if row is None else float(row[action]),
        served=row is not None,
        mode=choice.mode,
        arm=choice.arm,
        reasons=(reason, Reason.SHADOW_FAILED) if isinstance(shadow, Reason) else (reason,),
        versions=_versions(catalog, artifact),
        mask=prepared.mask.feasible,
        u=prepared.u,
        floor=prepared.floor,
        arm_share=choice.arm_share,
        shadow_plan=None if watched is None else catalog.plan_ids[watched.action],
        shadow=None if watched is None else watched.row,
    )


def _versions(catalog: Catalog, artifact: Artifact | None) -> Versions:
    """What a decision is made with; one value per policy, kept with its catalog."""
    policy = None if artifact is None else artifact.policy_id
    known: dict[str | None, Versions] | None = catalog.compiled.get("versions")
    if known is None:
        known = catalog.compiled["versions"] = {}
    versions = known.get(policy)
    if versions is None:
        versions = known[policy] = Versions(
            catalog=catalog.content_hash,
            features=None if artifact is None else artifact.schema.content_hash,
            policy=policy,
            kernel=kernel_fingerprint(),
        )
    return versions


def probabilities(
    artifact: Artifact,
    columns: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, object]],
    mask: BoolArray | None = None,
    *,
    floor: float | None = None,
    n_rows: int | None = None,
) -> FloatArray:
    """What a policy would serve in each of many contexts, its floor included.

    Args:
        artifact: The policy.
        columns: Context columns by key, or one context per row.
        mask: Shape (n, n_plans): the logged feasibility, which then stands for the rules';
            None to ask the rules.
        floor: Exploration floor; None for the policy's own.
        n_rows: Number of rows, needed where there is no column to count.

    Returns:
        Shape (n, n_plans); each row has the bits of the distribution that `select` records.

    Raises:
        FeatureError: If a context value has a wrong type.
        NonFiniteScoreError: If the policy scores a feasible plan with NaN or +inf.
        RangeError: If a row has no feasible plan, or the floor is out of range.
        ShapeMismatchError: If columns and mask differ in rows.
    """
    catalog, schema = artifact.catalog, artifact.schema
    if isinstance(columns, Mapping):
        n = len(mask) if mask is not None and n_rows is None else n_rows
        features = schema.encode_many(columns, n_rows=n)
        feasible = mask_contexts(catalog, columns, n_rows=n) if mask is None else mask
    else:
        features = np.array([schema.encode(context) for context in columns])
        features = features.reshape(len(columns), schema.width)
        feasible = (
            np.array(
                [mask_context(catalog, context).feasible for context in columns], dtype=np.bool_
            ).reshape(len(columns), catalog.n_plans)
            if mask is None
            else mask
        )
    return target_rows(
        artifact.head,
        features,
        feasible,
        temperature=artifact.temperature,
        floor=artifact.floor if floor is None else floor,
    )


def doctrine_probabilities(catalog: Catalog, mask: BoolArray, *, floor: float = 0.0) -> FloatArray:
    """What the doctrine policy would serve under each mask, shape of `mask`.

    Raises:
        RangeError: If a row has no feasible plan, or the floor is out of range.
    """
    return doctrine(catalog.weights, catalog.default, mask, floor)
