"""From verdicts to preferences: what survives, the scores, their intervals, the diagnostics."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from canopy.domain.errors import InputError, RangeError
from canopy.domain.evidence import Lineage
from canopy.domain.ids import HASH_LENGTH
from policy.arrays import IntArray
from training.preferences.artifact import Preferences
from training.preferences.bradley_terry import fit_bradley_terry
from training.preferences.clustered import (
    clustered_intervals,
    clustered_variance,
    fisher_intervals,
)
from training.preferences.comparisons import (
    Comparisons,
    ScaleKind,
    Ties,
    single_comparisons,
    surviving_comparisons,
)
from training.preferences.covariates import fit_with_covariates
from training.preferences.davidson import Davidson, fit_davidson
from training.preferences.documents import preference_document
from training.preferences.factored import fit_factored
from training.preferences.order_effect import count_orders, fit_order_effect
from training.preferences.pair_table import PairTable
from training.preferences.preference_fit import PreferenceFit
from training.preferences.resampled import resampled_intervals
from training.preferences.swaps import joint_verdicts
from training.preferences.tally import Tally, tally

N_RESAMPLES: Final = 1_000
MOST_RESAMPLED: Final = 100
"""Items up to which replicates are drawn unasked."""
MOST_DIAGNOSED: Final = 300
"""Items up to which the models beside are fitted."""
MAX_UNPARSED: Final = 0.05
"""Share of unreadable verdicts, of a judge in an order, beyond which a fit is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """How to fit.

    Attributes:
        scale_kind: `SWAP_SURVIVOR`, or `SINGLE_VERDICT` for pairs judged in one order only.
        ties: What single verdicts' ties count for.
        prior: Precision of a normal prior on each score; 0 for none.
        level: Coverage of every interval.
        n_resamples: Replicates of the cluster bootstrap; None for `N_RESAMPLES` up to
            `MOST_RESAMPLED` items and none beyond.
        seed: Of the bootstrap.
        max_unparsed: Share of unreadable verdicts that a judge may have in an order.
    """

    scale_kind: ScaleKind = ScaleKind.SWAP_SURVIVOR
    ties: Ties = "drop"
    prior: float = 0.0
    level: float = 0.95
    n_resamples: int | None = None
    seed: int = 12345
    max_unparsed: float = MAX_UNPARSED

    def __post_init__(self) -> None:
        if self.scale_kind is ScaleKind.ORDER_EFFECT:
            raise InputError(
                "scale_kind", "order_effect is fitted beside.", "Ask for one of the others."
            )
        if self.ties == "half" and self.scale_kind is ScaleKind.SWAP_SURVIVOR:
            raise InputError(
                "ties", "of survivors are excluded, never half a win.", "Ask for single verdicts."
            )
        if not 0 <= self.max_unparsed <= 1:
            raise RangeError("max_unparsed", None, self.max_unparsed, "a share from 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where verdicts come from, beside their judges.

    Attributes:
        rubrics: Rubrics they judged by.
        corpora: Logs that the items come from.
        golden_sets: Golden sets that judges were cleared on.
    """

    rubrics: Sequence[str] = ()
    corpora: Sequence[str] = ()
    golden_sets: Sequence[str] = ()


def parse_objection(counts: Tally, ceiling: float) -> str | None:
    """Why too many verdicts could not be read; None where it holds.

    Args:
        counts: What was judged.
        ceiling: Share that a judge may have in an order.
    """
    for judge in counts.judges:
        for order, share in zip(("a first", "b first"), judge.unparsed_share, strict=True):
            if share is not None and share > ceiling:
                return (
                    f"{share:.1%} of the verdicts of {judge.judge!r} with item {order} could not "
                    f"be read, the ceiling is {ceiling:.1%}"
                )
    return None


def fit_preferences(
    pairs: PairTable,
    settings: FitSettings,
    *,
    families: Mapping[str, str] | None = None,
    levels: IntArray | None = None,
) -> PreferenceFit:
    """Fit verdicts.

    Args:
        pairs: What was judged.
        settings: How to fit.
        families: Family of each judge: who trained the model, or `human`.
        levels: Shape (n_items, n_factors). Level position of each plan in each factor, where
            items are plans.

    Returns:
        The fit, whatever its status.

    Raises:
        InputError: If a family names nobody, or single verdicts are asked of pairs judged in both
            orders.
        RangeError: If the prior, the level or the number of replicates is out of range.
    """
    named = families or {}
    unknown = sorted(set(named) - set(pairs.judge.names))
    if unknown:
        raise InputError(
            f"family of {unknown[0]!r}", "names no judge of the file.",
            f"Judges: {', '.join(sorted(pairs.judge.names))}.",
        )  # fmt: skip
    comparisons = _comparisons(pairs, settings)
    fit = fit_bradley_terry(comparisons.wins, settings.prior)
    variance = clustered_variance(comparisons, fit)
    n = len(pairs.items)
    counts = tally(pairs, comparisons, named, verdicts_hash(pairs))
    n_resamples = settings.n_resamples
    if n_resamples is None:
        n_resamples = N_RESAMPLES if n <= MOST_RESAMPLED else 0
    is_diagnosed = n <= MOST_DIAGNOSED
    return PreferenceFit(
        tally=counts,
        fit=fit,
        level=settings.level,
        ties=settings.ties,
        fisher=fisher_intervals(fit, level=settings.level),
        clustered=variance,
        intervals=clustered_intervals(fit, variance, level=settings.level),
        resampled=resampled_intervals(
            comparisons, fit, rng=np.random.default_rng(settings.seed),
            n_resamples=n_resamples, level=settings.level,
        ) if n_resamples and fit.scores is not None else None,
        order_effect=fit_order_effect(*count_orders(pairs)) if is_diagnosed else None,
        davidson=_davidson(counts, settings) if is_diagnosed else None,
        controlled=fit_with_covariates(comparisons, prior=settings.prior)
        if pairs.covariates and len(comparisons) else None,
        factored=None if levels is None else fit_factored(
            comparisons.wins, levels, prior=settings.prior
        ),
        n_clusters=variance.n_speaking,
    )  # fmt: skip


def preferences_of(found: PreferenceFit, origin: Origin) -> Preferences:
    """The artifact of a fit.

    Args:
        found: The fit.
        origin: Where the verdicts come from.
    """
    judges = {judge.family or f"unknown:{judge.judge}" for judge in found.tally.judges}
    lineage = Lineage(
        judges=frozenset(judges),
        rubrics=frozenset(origin.rubrics),
        corpora=frozenset(origin.corpora),
        golden_sets=frozenset(origin.golden_sets),
    )
    return Preferences.of(*preference_document(found, lineage))


def pool_preferences(first: Preferences, second: Preferences) -> Preferences:
    """Preferences from the counts of two artifacts.

    Args:
        first: One artifact.
        second: Another, of other verdicts.

    Returns:
        The fit of all counts. Its intervals take comparisons for independent: which clusters
        they belong to is not in the counts; fit the verdicts together to have it.

    Raises:
        InputError: If their scale kinds, rubrics, priors or ties differ, or verdicts are in both.
    """
    for name, one, other in (
        ("rubrics", first.lineage.rubrics, second.lineage.rubrics),
        ("prior", first.document["prior"], second.document["prior"]),
        ("ties", first.document["ties"], second.document["ties"]),
    ):
        if one != other:
            raise InputError(
                name, f"are {one!r} here and {other!r} there.", "Pool what was judged alike."
            )
    counts = first.tally + second.tally
    level = min(first.document["level"], second.document["level"])
    fit = fit_bradley_terry(counts.wins, first.document["prior"])
    pooled = PreferenceFit(
        tally=counts, fit=fit, level=level, ties=first.document["ties"],
        fisher=fisher_intervals(fit, level=level),
    )  # fmt: skip
    return Preferences.of(*preference_document(pooled, first.lineage | second.lineage))


def _comparisons(pairs: PairTable, settings: FitSettings) -> Comparisons:
    if settings.scale_kind is ScaleKind.SINGLE_VERDICT:
        return single_comparisons(pairs, ties=settings.ties)
    return surviving_comparisons(pairs)


def _davidson(counts: Tally, settings: FitSettings) -> Davidson:
    halves = counts.judge_ties / 2 if settings.ties == "half" else np.zeros(())
    return fit_davidson(counts.wins - halves, counts.judge_ties)


def verdicts_hash(pairs: PairTable) -> str:
    """Content hash of verdicts: the same rows in the same order, whatever their file.

    Args:
        pairs: What was judged.
    """
    digest = hashlib.sha256()
    for names in (pairs.items, pairs.judge.names, pairs.cluster.names):
        digest.update("\0".join(names).encode())
        digest.update(b"\0\0")
    for numbers, n_names in (
        (pairs.item_a, len(pairs.items)),
        (pairs.item_b, len(pairs.items)),
        (pairs.judge.numbers, len(pairs.judge.names)),
        (pairs.cluster.numbers, len(pairs.cluster.names)),
    ):
        # The fewest bytes that hold them, which the number of names alone decides.
        width = np.min_scalar_type(max(n_names - 1, 0)).newbyteorder("<")
        digest.update(np.ascontiguousarray(numbers, dtype=width).data)
    digest.update(joint_verdicts(pairs.verdict_ab, pairs.verdict_ba).data)
    return digest.hexdigest()[:HASH_LENGTH]
