"""Preferences as one self-contained HTML page: ranking, intervals, wins and order bias."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from canopy.output import cell
from canopy.pages import SVG_METADATA, SVG_SETTINGS, bullets, captioned, page, paragraph, table
from training.preferences.artifact import Preferences
from training.preferences.wording import (
    SCALE_MEANING,
    STATUS_MEANING,
    interval_text,
    rank_text,
    survival_text,
)

_INK: Final = "#1f4e79"
_PALE: Final = "#9a9a9a"
_ACCENT: Final = "#b5521b"
_LONGEST: Final = 40
_MOST_CELLS: Final = 16
_MOST_DRAWN: Final = 60
_DARK: Final = 0.3


def page_html(preferences: Preferences) -> str:
    """The page's text.

    Args:
        preferences: What to show.

    Returns:
        A whole HTML document that loads nothing from elsewhere.
    """
    document = preferences.document
    items = document["items"]
    shown = items[:_MOST_DRAWN]
    cut = f" The first {_MOST_DRAWN} of {len(items)} items." if len(items) > len(shown) else ""
    parts = [
        paragraph(_facts(document)),
        paragraph(f"{document['status']}: {STATUS_MEANING[document['status']]} "
                  f"{SCALE_MEANING[document['scale_kind']]}"),
        _groups(document),
        "<h2>Ranking</h2>",
        _ranking(document),
    ]  # fmt: skip
    if any(facts["score"] is not None for facts in shown):
        parts.append(_drawn(_forest(shown), "Scores less their component's mean, with intervals "
                            "by whole clusters; grey where only comparisons taken for independent "
                            f"give one.{cut}"))  # fmt: skip
    if len(items) > 1:
        parts += [
            "<h2>Wins</h2>",
            _drawn(_matrix(preferences, shown), "How often the item of the row beat that of the "
                   f"column, as a share of their decisive pairs; empty where none was.{cut}"),
        ]  # fmt: skip
    parts += [
        "<h2>Judges</h2>",
        _judges(document),
    ]  # fmt: skip
    biased = [judge for judge in document["judges"] if judge["order_bias"] is not None]
    if biased:
        parts.append(
            _drawn(_biases(biased), "Order bias on the scale of scores: above 0 the side shown "
                   "first is favoured. The dashed line is no bias.")
        )  # fmt: skip
    parts += [
        "<h2>Beside</h2>",
        bullets(_beside(document)),
        "<h2>Lineage</h2>",
        bullets(_lineage(document)),
    ]  # fmt: skip
    return page("Preferences", parts)


def write_page(preferences: Preferences, path: Path) -> None:
    """Write the page.

    Args:
        preferences: What to show.
        path: File to write; its folder is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page_html(preferences), encoding="utf-8")


def _facts(document: Mapping[str, Any]) -> str:
    counts = document["counts"]
    clusters = document["n_clusters"]
    survival = document["survival"]
    survived = "not measured" if survival is None else f"{survival:.1%}"
    drawn = document["resampled"]
    resampled = "" if drawn is None else (
        f" Bootstrap: {drawn['n_resamples']:,} replicates of whole clusters, "
        f"{drawn['n_undefined']:,} of them without scores."
    )  # fmt: skip
    return (
        f"{document['n_pairs']:,} pairs: {counts['a'] + counts['b']:,} with a winner in both "
        f"orders, {counts['swap_tie']:,} swap ties, {counts['judge_tie']:,} judge ties, "
        f"{counts['unparsed']:,} unreadable, {counts['incomplete']:,} judged in one order. "
        f"{document['n_comparisons']:,g} comparisons are fitted"
        + ("" if clusters is None else f", in {clusters:,} clusters")
        + f". Survival of the swap: {survived}, which is no accuracy. Intervals "
        f"at {document['level']:.0%}.{resampled} Prior precision {document['prior']:g}. Artifact "
        f"{document['artifact_id']}."
    )


def _groups(document: Mapping[str, Any]) -> str:
    if document["status"] == "disconnected":
        return bullets(f"Component: {', '.join(m)}" for m in document["components"])
    if document["status"] == "separated":
        return bullets(f"Group {k}: {', '.join(m)}" for k, m in enumerate(document["groups"], 1))
    return ""


def _ranking(document: Mapping[str, Any]) -> str:
    return table(
        ("item", "score", "by clusters", "if independent", "bootstrap", "rank", "wins", "losses",
         "ties", "survival"),
        [
            (
                facts["item"],
                cell(facts["score"]) if facts["score"] is None else f"{facts['score']:.3f}",
                interval_text(facts["interval"]),
                interval_text(facts["fisher_interval"]),
                interval_text(facts["resampled_interval"]),
                rank_text(facts["rank_range"]),
                f"{facts['wins']:g}",
                f"{facts['losses']:g}",
                f"{facts['ties']:g}",
                survival_text(facts),
            )
            for facts in document["items"]
        ],
    )  # fmt: skip


def _judges(document: Mapping[str, Any]) -> str:
    return table(
        ("judge", "family", "pairs", "survival", "swap ties", "judge ties", "unread, a or b first",
         "order bias", "interval", "p"),
        [
            (
                judge["judge"],
                judge["family"] or "not said",
                f"{sum(judge['counts'].values()):,}",
                cell(None) if judge["survival"] is None else f"{judge['survival']:.1%}",
                f"{judge['counts']['swap_tie']:,}",
                f"{judge['counts']['judge_tie']:,}",
                " / ".join(f"{n:,}" for n in judge["unparsed"]),
                *_bias_cells(judge["order_bias"]),
            )
            for judge in document["judges"]
        ],
    )  # fmt: skip


def _bias_cells(bias: Mapping[str, Any] | None) -> tuple[str, str, str]:
    if bias is None:
        return (cell(None),) * 3
    return f"{bias['b']:.3f}", interval_text(bias["interval"]), f"{bias['p_value']:.2g}"


def _beside(document: Mapping[str, Any]) -> list[str]:
    """What the other models say."""
    beside = document["diagnostics"]
    lines = []
    order = beside["order_effect"]
    if order is not None and order["b"] is not None:
        lines.append(
            f"Order effect fitted with the scores on every verdict: {order['b']:.3f} (standard "
            f"error {order['std_err']:.3f}, likelihood ratio "
            f"{_short_number(order['likelihood_ratio'])})."
        )
    davidson = beside["davidson"]
    if davidson is not None and davidson["tie_strength"] is not None:
        lines.append(
            f"Davidson's model with the judge's own ties: tie strength "
            f"{davidson['tie_strength']:.3f}."
        )
    lines += [
        f"{effect['name']}: {_short_number(effect['coefficient'])} per {effect['scale']:.4g} of "
        f"difference (standard error {_short_number(effect['std_err'])})."
        for effect in (beside["covariates"] or {"effects": []})["effects"]
    ]
    factored = beside["factored"]
    if factored is not None:
        lines.append(
            f"Scores by levels and pairs of levels ({factored['status']}, "
            f"{factored['n_coefficients']} dimensions): the free scores gain a likelihood ratio of "
            f"{_short_number(factored['likelihood_ratio'])} on {cell(factored['degrees'])} more, p "
            f"{_short_number(factored['p_value'])}."
        )
    return lines or ["No other model was fitted, or none exists on these verdicts."]


def _lineage(document: Mapping[str, Any]) -> list[str]:
    named = [f"{kind}: {', '.join(names)}" for kind, names in document["lineage"].items() if names]
    return [
        *named,
        f"items: {document['item_set_hash']}",
        *(f"verdicts: {s}" for s in document["sources"]),
    ]


def _drawn(drawing: Figure, caption: str) -> str:
    raw = io.StringIO()
    with rc_context(SVG_SETTINGS):
        drawing.savefig(raw, format="svg", metadata=SVG_METADATA)
    return captioned(raw.getvalue(), caption)


def _forest(items: list[dict[str, Any]]) -> Figure:
    scored = [facts for facts in items if facts["score"] is not None]
    figure = Figure(figsize=(8, 0.9 + 0.3 * len(scored)), layout="constrained")
    axes = figure.subplots()
    for place, facts in enumerate(scored):
        ends = facts["interval"] or facts["fisher_interval"]
        color = _INK if facts["interval"] else _PALE
        if ends is not None:
            axes.plot(ends, [place, place], color=color, linewidth=2)
        axes.plot(facts["score"], place, "o", color=color)
    axes.axvline(0, color=_PALE, linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(scored)), [_short(facts["item"]) for facts in scored])
    axes.invert_yaxis()
    axes.set_xlabel("score (log-odds)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _matrix(preferences: Preferences, items: list[dict[str, Any]]) -> Figure:
    names = [facts["item"] for facts in items]
    place = {name: number for number, name in enumerate(preferences.items)}
    rows = np.array([place[name] for name in names])
    wins = np.asarray(preferences.arrays["wins"])[np.ix_(rows, rows)]
    played = wins + wins.T
    share = np.where(played > 0, wins / np.maximum(played, 1), np.nan)
    side = 1.6 + 0.42 * min(len(names), 40)
    figure = Figure(figsize=(side + 1.5, side), layout="constrained")
    axes = figure.subplots()
    picture = axes.imshow(np.ma.masked_invalid(share), cmap="RdBu", vmin=0, vmax=1)
    if len(names) <= _MOST_CELLS:
        for row, column in zip(*np.nonzero(played), strict=True):
            axes.text(
                column,
                row,
                f"{wins[row, column]:g}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if abs(share[row, column] - 0.5) > _DARK else "#222",
            )
    labels = [_short(name) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), labels)
    figure.colorbar(picture, ax=axes, label="share won", shrink=0.7)
    return figure


def _biases(judges: Sequence[Mapping[str, Any]]) -> Figure:
    figure = Figure(figsize=(8, 1.0 + 0.35 * len(judges)), layout="constrained")
    axes = figure.subplots()
    for row, judge in enumerate(judges):
        bias = judge["order_bias"]
        axes.plot(bias["interval"], [row, row], color=_ACCENT, linewidth=2)
        axes.plot(bias["b"], row, "o", color=_ACCENT)
    axes.axvline(0, color=_PALE, linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(judges)), [_short(judge["judge"]) for judge in judges])
    axes.set_ylim(len(judges) - 0.5, -0.5)
    axes.set_xlabel("order bias (log-odds)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _short_number(value: float | None) -> str:
    return cell(None) if value is None else f"{value:.3g}"
