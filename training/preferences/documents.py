"""What an artifact of preferences says, as JSON and arrays."""

from typing import Any, Final

import numpy as np

from canopy.domain.evidence import Lineage
from canopy.domain.ids import canonical_json, content_hash
from policy.arrays import FloatArray
from training.preferences.clustered import Intervals
from training.preferences.order_bias import order_bias
from training.preferences.preference_fit import PreferenceFit
from training.preferences.swaps import CODES

UNDETERMINED: Final = 0.5
"""Share of an item's readable pairs that must be decisive for its score to say much."""


def preference_document(
    found: PreferenceFit, lineage: Lineage
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """An artifact's document and arrays.

    Args:
        found: The fit.
        lineage: Everything that touched the verdicts.
    """
    counts, fit = found.tally, found.fit
    n = len(counts.items)
    empty, square = np.full(n, np.nan), np.full((n, n), np.nan)
    clustered = found.clustered
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "wins": counts.wins,
        "swap_ties": counts.swap_ties,
        "judge_ties": counts.judge_ties,
        "scores": empty if fit.scores is None else fit.scores,
        "difference_variance": square
        if fit.difference_variance is None
        else fit.difference_variance,
        "clustered_difference_variance": square
        if clustered is None
        else clustered.difference_variance,
        "prior_dominated": fit.prior_dominated.astype(np.uint8),
    }
    if found.order_effect is not None and found.order_effect.scores is not None:
        arrays["order_effect_scores"] = found.order_effect.scores
    if found.factored is not None and found.factored.scores is not None:
        arrays["factored_scores"] = found.factored.scores
    names = counts.items
    document = {
        "status": fit.status,
        "scale_kind": counts.scale_kind.value,
        "item_names": list(names),
        "item_set_hash": content_hash(canonical_json(sorted(names))),
        "sources": list(counts.sources),
        "lineage": lineage.document(),
        "components": [[names[i] for i in members] for members in fit.components],
        "groups": [[names[i] for i in members] for members in fit.groups],
        "prior": fit.prior,
        "gradient": fit.gradient,
        "level": found.level,
        "ties": found.ties,
        "n_pairs": sum(sum(judge.counts.values()) for judge in counts.judges),
        "n_comparisons": float(counts.wins.sum()),
        "n_clusters": found.n_clusters,
        "counts": {
            code.value: sum(judge.counts[code] for judge in counts.judges) for code in CODES
        },
        "survival": _survival(found),
        "order_bias": _bias(
            sum(judge.first_both for judge in counts.judges),
            sum(judge.second_both for judge in counts.judges),
            found.level,
        ),
        "judges": [
            judge.document()
            | {"order_bias": _bias(judge.first_both, judge.second_both, found.level)}
            for judge in counts.judges
        ],
        "items": _items(found),
        "resampled": None
        if found.resampled is None
        else {
            "n_resamples": found.resampled.n_resamples,
            "n_undefined": found.resampled.n_undefined,
            "n_clusters": found.resampled.n_clusters,
        },
        "diagnostics": _diagnostics(found),
    }
    return document, arrays


def _survival(found: PreferenceFit) -> float | None:
    survived = found.tally.wins.sum()
    readable = survived + (found.tally.swap_ties.sum() + found.tally.judge_ties.sum()) / 2
    has_swaps = any(judge.survival is not None for judge in found.tally.judges)
    return float(survived / readable) if has_swaps and readable else None


def _bias(first_both: int, second_both: int, level: float) -> dict[str, Any] | None:
    """The order bias; None where no pair tells of it."""
    if not first_both + second_both:
        return None
    bias = order_bias(first_both, second_both, level=level)
    return {
        "b": bias.b,
        "std_err": bias.std_err,
        "interval": list(bias.interval),
        "p_value": bias.p_value,
        "first_both": first_both,
        "second_both": second_both,
    }


def _items(found: PreferenceFit) -> list[dict[str, Any]]:
    """Facts of each item, the highest score first; items without a score last, by name."""
    counts, fit = found.tally, found.fit
    n = len(counts.items)
    scores = np.full(n, np.nan) if fit.scores is None else fit.scores
    best = found.intervals or found.fisher
    low, high = _rank_ranges(best, fit.components)
    survival = counts.survival
    ties = (counts.swap_ties + counts.judge_ties).sum(axis=1)
    has_swaps = _survival(found) is not None
    facts = []
    for item in range(n):
        survives = number(survival[item]) if has_swaps else None
        facts.append({
            "item": counts.items[item],
            "score": number(scores[item]),
            "interval": None if found.intervals is None else _ends(found.intervals, item),
            "fisher_interval": _ends(found.fisher, item),
            "resampled_interval": None
            if found.resampled is None
            else _ends(found.resampled.intervals, item),
            "rank_range": [int(low[item]), int(high[item])] if np.isfinite(scores[item]) else None,
            "component": next(k for k, m in enumerate(fit.components) if item in m),
            "wins": float(counts.wins[item].sum()),
            "losses": float(counts.wins[:, item].sum()),
            "ties": float(ties[item]),
            "survival": survives,
            "is_undetermined": survives is not None and survives < UNDETERMINED,
        })
    return sorted(
        facts, key=lambda f: (f["score"] is None, -(f["score"] or 0.0), f["component"], f["item"])
    )


def _rank_ranges(
    intervals: Intervals, components: tuple[tuple[int, ...], ...]
) -> tuple[FloatArray, FloatArray]:
    """Best and worst rank of each item within its component that its differences leave open."""
    n = len(intervals.lower)
    size = np.ones(n)
    for members in components:
        size[list(members)] = len(members)
    with np.errstate(invalid="ignore"):
        better = (intervals.lower > 0).sum(axis=1)
        worse = (intervals.upper < 0).sum(axis=1)
    return 1.0 + worse, size - better


def _diagnostics(found: PreferenceFit) -> dict[str, Any]:
    """The models beside; None for one that was not fitted."""
    order, davidson = found.order_effect, found.davidson
    controlled, factored = found.controlled, found.factored
    names = found.tally.items
    return {
        "order_effect": None if order is None else {
            "status": order.status,
            "b": order.b,
            "std_err": order.std_err,
            "likelihood_ratio": order.likelihood_ratio,
            "p_value": order.p_value,
        },
        "davidson": None if davidson is None else {
            "status": davidson.status,
            "tie_strength": davidson.tie_strength,
            "scores": _by_name(names, davidson.scores),
        },
        "covariates": None if controlled is None else {
            "status": controlled.status,
            "scores": _by_name(names, controlled.scores),
            "effects": [
                {
                    "name": effect.name,
                    "coefficient": effect.coefficient,
                    "std_err": effect.std_err,
                    "scale": effect.scale,
                }
                for effect in controlled.effects
            ],
        },
        "factored": None if factored is None else {
            "status": factored.status,
            "scores": _by_name(names, factored.scores),
            "n_coefficients": factored.n_coefficients,
            "likelihood_ratio": factored.likelihood_ratio,
            "degrees": factored.degrees,
            "p_value": factored.p_value,
            "are_all_identified": bool(factored.is_identified.all()),
        },
    }  # fmt: skip


def _by_name(names: tuple[str, ...], scores: FloatArray | None) -> dict[str, float | None] | None:
    if scores is None:
        return None
    return {name: number(score) for name, score in zip(names, scores, strict=True)}


def _ends(intervals: Intervals, item: int) -> list[float] | None:
    ends = [number(intervals.score_lower[item]), number(intervals.score_upper[item])]
    return None if None in ends else ends  # type: ignore[return-value]


def number(value: float) -> float | None:
    """A float, or None where it is NaN or infinite: what JSON carries.

    Args:
        value: The number.
    """
    return float(value) if np.isfinite(value) else None
