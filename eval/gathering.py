"""Gathering evidence: run the tiers that can be run, and store what they found."""

from collections.abc import Sequence
from dataclasses import dataclass

from canopy.domain.errors import InputError
from canopy.domain.evidence import Evidence, Tier
from canopy.logs.tabular import DecisionLog
from canopy.storage.database import Database
from canopy.storage.unit_of_work import UnitOfWork
from eval.golden import find_golden
from eval.looks import look_number
from eval.promotion import evidence_row, stored_evidence
from eval.tiers.backtest import backtest, backtest_inputs, reserve_of
from eval.tiers.verifiers import verify
from policy.artifact import Artifact

GATHERED: tuple[Tier, ...] = (Tier.VERIFIERS, Tier.BACKTEST)
"""Tiers that this version can give evidence of."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A piece of evidence, and whether it was found just now."""

    evidence: Evidence
    is_new: bool


def gather(
    database: Database,
    tenant: str,
    discipline: str,
    artifact: Artifact,
    *,
    log: DecisionLog | None = None,
    tiers: Sequence[Tier] | None = None,
    level: float,
    seed: int = 0,
) -> list[Gathered]:
    """Run tiers on a registered policy and store their evidence.

    A backtest that was run before on the same rows is read back, not run again: it is no new
    look.

    Args:
        database: Where to.
        tenant: On whose behalf.
        discipline: The craft whose decisions the log holds.
        artifact: The policy.
        log: Decisions to backtest on; only reserved units are read.
        tiers: Which; None for all that can be run.
        level: Probability with which bounds must hold.
        seed: Of everything random.

    Raises:
        InputError: If a tier is asked for that cannot be run.
        LogError: If no unit of the log is reserved.
    """
    chosen = tiers or (GATHERED if log is not None else (Tier.VERIFIERS,))
    found = []
    for tier in chosen:
        if tier is Tier.VERIFIERS:
            evidence = verify(artifact, find_golden(artifact.catalog.discipline))
            found.append(_stored(database, tenant, evidence))
        elif tier is Tier.BACKTEST and log is not None:
            found.append(
                _backtest(database, tenant, discipline, artifact, log, level=level, seed=seed)
            )
        else:
            known = "a backtest needs --log." if tier is Tier.BACKTEST else "it cannot be run here."
            raise InputError(f"--tier {tier}", known, f"There are: {', '.join(GATHERED)}.")
    return found


def _backtest(
    database: Database,
    tenant: str,
    discipline: str,
    artifact: Artifact,
    log: DecisionLog,
    *,
    level: float,
    seed: int,
) -> Gathered:
    reserve = reserve_of(log)
    inputs = backtest_inputs(
        artifact.policy_id, discipline, reserve.content_hash, level=level, seed=seed
    )
    with database.unit_of_work(tenant) as work:
        ledger = _all_evidence(work)
    for known in ledger:
        if known.tier is Tier.BACKTEST and known.inputs == inputs:
            return Gathered(known, is_new=False)
    evidence = backtest(
        log,
        artifact,
        discipline=discipline,
        level=level,
        seed=seed,
        look=look_number(reserve, ledger),
    )
    return _stored(database, tenant, evidence)


def _all_evidence(work: UnitOfWork) -> list[Evidence]:
    """Evidence about every policy the tenant sees: the ledger of looks."""
    return [
        evidence
        for policy in work.policies.list()
        for evidence in stored_evidence(work, policy.policy_id)
    ]


def _stored(database: Database, tenant: str, evidence: Evidence) -> Gathered:
    with database.unit_of_work(tenant) as work:
        known = {e.evidence_id for e in stored_evidence(work, evidence.policy_id)}
        work.evidence.put(evidence_row(evidence))
    return Gathered(evidence, is_new=evidence.evidence_id not in known)
