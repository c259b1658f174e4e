"""Verifiers: what must hold of a policy whatever it is worth.

Structural checks run on the policy's own probe contexts and on every golden case; golden cases
add what must come out of them. A failed check is a measurement, not a refusal: the gate says
that none may fail.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Any, Final

import numpy as np

from canopy.domain.clock import now
from canopy.domain.decision import Decision, Reason
from canopy.domain.errors import CanopyError, CatalogError, GateFileError
from canopy.domain.evidence import Evidence, EvidenceStatus, Fact, Lineage, Tier
from canopy.domain.ids import canonical_json, content_hash
from eval.gates import FAILED_CHECKS, GOLDEN_CASES
from eval.golden import GoldenCase, GoldenSet, Group
from policy.arrays import BoolArray
from policy.artifact import Artifact
from policy.catalog import Catalog
from policy.probe import probe_contexts
from policy.selector import Choice, probabilities, select, select_many

STRUCTURE: Final = "structure/v1"
"""Name of the structural checks in a lineage; a changed check is a new version."""

SUM_TOLERANCE: Final = 1e-12
"""How far from 1 the probabilities of a decision may sum."""

TIMED_ROUNDS: Final = 20
"""Times that the latency of every context is measured."""

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class _Asked:
    """One selection to check, with what a golden case expects of it."""

    name: str
    choice: Choice
    case: GoldenCase | None = None


def verifier_inputs(policy_id: str, golden: GoldenSet | None) -> str:
    """Identity of what verifier evidence is computed from: policy, checks and golden set."""
    frozen = None if golden is None else [golden.name, golden.content_hash]
    return content_hash(canonical_json([policy_id, STRUCTURE, frozen]))


def verify(artifact: Artifact, golden: GoldenSet | None, *, at: datetime | None = None) -> Evidence:
    """Check a policy's structure and its golden cases.

    Args:
        artifact: The policy, loaded: its hashes and its probe batch agreed.
        golden: Golden set of its discipline; None where there is none.
        at: When, aware; None for now. The day is part of the evidence, so that a repetition on
            a later day is fresh evidence.

    Returns:
        Evidence with the number of failed checks and, in its reasons, the first of them. The
        99th percentile of the selection time stands in its timings; no gate reads it.

    Raises:
        GateFileError: If a golden case names levels or plans that the catalog does not have.
    """
    at = at or now()
    cases = _cases(artifact, golden)
    asked = [*_probes(artifact), *cases]
    decisions = [_select(one.choice) for one in asked]
    failures = [f"{one.name}: {problem}" for one, d in zip(asked, decisions, strict=True)
                for problem in _problems(one, d)]  # fmt: skip
    failures += _batch_problems(artifact, asked, decisions)
    facts = (
        Fact("contexts", len(asked)),
        Fact(FAILED_CHECKS, len(failures)),
        Fact(GOLDEN_CASES, len(cases)),
        Fact("golden_set", None if golden is None else golden.name),
        Fact("parity", artifact.parity),
        Fact("verified_on", at.date().isoformat()),
    )
    notes = list(failures[:_SHOWN])
    if len(failures) > _SHOWN:
        notes.append(f"and {len(failures) - _SHOWN} more.")
    if golden is None:
        notes.append("no golden set: structural checks only.")
    elif not cases:
        notes.append(f"no case of {golden.name} speaks of this catalog's version.")
    return Evidence(
        tier=Tier.VERIFIERS,
        policy_id=artifact.policy_id,
        status=EvidenceStatus.OK,
        margin=None,
        facts=facts,
        reasons=tuple(notes),
        lineage=Lineage(
            verifiers=frozenset({STRUCTURE}),
            golden_sets=frozenset() if golden is None else frozenset({golden.name}),
        ),
        inputs=verifier_inputs(artifact.policy_id, golden),
        created_at=at,
        timings=_timings([one.choice for one in asked]),
    )


def _probes(artifact: Artifact) -> Iterator[_Asked]:
    """The policy's probe contexts: all plans possible, every other one, one, and none."""
    catalog = artifact.catalog
    narrowings: Mapping[str, Sequence[str] | None] = {
        "all": None,
        "half": catalog.plan_ids[:: 2 if catalog.n_plans > 1 else 1],
        "one": (catalog.plan_ids[catalog.default],),
        "none": (),
    }
    for number, context in enumerate(probe_contexts(catalog, artifact.schema), start=1):
        for kind, allowed in narrowings.items():
            name = f"probe {number}/{kind}"
            yield _Asked(
                name,
                Choice(
                    catalog=catalog, artifact=artifact, context=context, key=name, allowed=allowed
                ),
            )


def _cases(artifact: Artifact, golden: GoldenSet | None) -> list[_Asked]:
    catalog = artifact.catalog
    return [
        _Asked(
            f"golden {case.id}",
            Choice(
                catalog=catalog,
                artifact=artifact,
                context=case.context,
                key=case.id,
                allowed=_allowed(catalog, case),
            ),
            case,
        )
        for case in (() if golden is None else golden.cases)
        if case.catalogs is None or catalog.version in case.catalogs
    ]


def _allowed(catalog: Catalog, case: GoldenCase) -> list[str] | None:
    if case.allowed is None:
        return None
    chosen = np.zeros(catalog.n_plans, np.bool_)
    for group in case.allowed:
        chosen |= plans_in(catalog, group, case.id)
    return [catalog.plan_ids[action] for action in np.flatnonzero(chosen)]


def plans_in(catalog: Catalog, group: Group, case: str) -> BoolArray:
    """Shape (n_plans,): which plans a group of a golden case means.

    Raises:
        GateFileError: If the catalog lacks a factor, level or plan that it names.
    """
    chosen = np.ones(catalog.n_plans, np.bool_)
    try:
        if not isinstance(group, dict):
            chosen[:] = False
            chosen[[catalog.index(plan) for plan in group]] = True
            return chosen
        names = [factor.name for factor in catalog.factors]
        for factor, wanted in group.items():
            position = names.index(factor)
            levels = [level.name for level in catalog.factors[position].levels]
            accepted = [levels.index(n) for n in ([wanted] if isinstance(wanted, str) else wanted)]
            chosen &= np.isin(catalog.levels[:, position], accepted)
    except (ValueError, CatalogError) as error:
        raise GateFileError(
            f"golden case {case}",
            f"catalog {catalog.discipline} {catalog.version} lacks what it names: {error}",
            "Name the catalog versions it speaks of under `catalogs`, or write a new version.",
        ) from error
    return chosen


def _select(choice: Choice) -> Decision:
    return select(
        catalog=choice.catalog,
        artifact=choice.artifact,
        context=choice.context,
        key=choice.key,
        allowed=choice.allowed,
    )


def _problems(asked: _Asked, decision: Decision) -> Iterator[str]:
    """What is wrong with one decision."""
    yield from structural_problems(decision)
    if asked.case is not None:
        yield from _unmet(asked.choice.catalog, asked.case, decision)


def structural_problems(decision: Decision) -> Iterator[str]:
    """What no decision of a sound policy shows, whatever the policy is worth."""
    mask = np.asarray(decision.mask)
    if not mask.any():
        if decision.reasons[0] is not Reason.NO_FEASIBLE_PLAN or decision.propensity is not None:
            yield "nothing is feasible, yet a plan was drawn."
    elif decision.distribution is None:
        yield f"no distribution: {decision.reasons[0]}."
    else:
        yield from _distribution_problems(decision, mask)


def _distribution_problems(decision: Decision, mask: BoolArray) -> Iterator[str]:
    row = np.asarray(decision.distribution)
    if abs(row.sum() - 1) > SUM_TOLERANCE:
        yield f"probabilities sum to {row.sum()!r}."
    if (row[~mask] != 0).any():
        yield "an infeasible plan has probability above 0."
    # A little below the share: it is added to a product that rounds.
    if (row[mask] < decision.floor / mask.sum() * (1 - 1e-9)).any():
        yield "a feasible plan has less than its floor share."
    if not mask[decision.action] or row[decision.action] <= 0:
        yield f"chose {decision.plan}, which is not feasible."
    if decision.propensity != row[decision.action]:
        yield "the propensity is not the probability of the plan chosen."


def _unmet(catalog: Catalog, case: GoldenCase, decision: Decision) -> Iterator[str]:
    """Which expectations of a golden case are not met."""
    expect = case.expect
    if expect.reason is not None and decision.reasons[0] is not expect.reason:
        yield f"expected {expect.reason}, got {decision.reasons[0]}."
    if expect.plan is not None and not plans_in(catalog, expect.plan, case.id)[decision.action]:
        yield f"chose {decision.plan}."
    for share in expect.shares:
        if decision.distribution is None:
            yield "no distribution to measure."
            return
        group = plans_in(catalog, share.plans, case.id)
        found = float(np.asarray(decision.distribution)[group].sum())
        if share.at_least is not None and found < share.at_least - SUM_TOLERANCE:
            yield f"gives {share.plans} {found:.3f}, expected at least {share.at_least:g}."
        if share.at_most is not None and found > share.at_most + SUM_TOLERANCE:
            yield f"gives {share.plans} {found:.3f}, expected at most {share.at_most:g}."


def _batch_problems(
    artifact: Artifact, asked: Sequence[_Asked], decisions: Sequence[Decision]
) -> Iterator[str]:
    """Where the batch path and the single path differ."""
    together = select_many([one.choice for one in asked])
    for one, single, batch in zip(asked, decisions, together, strict=True):
        if _bits(single) != _bits(batch):
            yield f"{one.name}: chosen in a batch it comes out otherwise."
    drawn = [
        (one, d) for one, d in zip(asked, decisions, strict=True) if d.distribution is not None
    ]
    try:
        rows = probabilities(
            artifact,
            [one.choice.context for one, _ in drawn],
            np.array([np.asarray(d.mask) for _, d in drawn], np.bool_),
        )
    except CanopyError as error:
        yield f"probabilities of many contexts: {error}"
        return
    for (one, decision), row in zip(drawn, rows, strict=True):
        if row.tobytes() != np.asarray(decision.distribution).tobytes():
            yield f"{one.name}: evaluation sees another distribution than was served."


def _bits(decision: Decision) -> tuple[Any, ...]:
    row = None if decision.distribution is None else decision.distribution.tobytes()
    return (decision.plan, decision.propensity, decision.reasons, decision.u, row)


def _timings(choices: Sequence[Choice]) -> tuple[Fact, ...]:
    """Selection times over all contexts, in microseconds."""
    times_us = []
    for _ in range(TIMED_ROUNDS):
        for choice in choices:
            started_s = perf_counter()
            _select(choice)
            times_us.append((perf_counter() - started_s) * 1e6)
    p50, p99 = np.percentile(times_us, (50, 99))
    return (Fact("select_p50_us", float(p50)), Fact("select_p99_us", float(p99)))
