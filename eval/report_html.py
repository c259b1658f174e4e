"""An evaluation as one self-contained HTML file: tables, and figures drawn as inline SVG."""

import html
import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from canopy.pages import SVG_METADATA, SVG_SETTINGS, bullets, captioned, page
from eval.coverage import EDGES, LevelShare, WeightHistogram
from eval.evaluation import Evaluation, interval_text, number, verdict_table
from eval.reward_models import Calibration
from eval.verdicts import Difference

_INK: Final = "#1f4e79"
_REFUSED: Final = "#9a9a9a"
_ACCENT: Final = "#b5521b"
_STEP: Final = float(EDGES[1] / EDGES[0])
_LONGEST: Final = 48


def report_html(evaluation: Evaluation) -> str:
    """The report's text.

    Args:
        evaluation: What to show.

    Returns:
        A whole HTML document that loads nothing from elsewhere.
    """
    title = f"Off-policy evaluation of {evaluation.target}"
    parts = [
        _facts(evaluation),
        "<h2>Verdicts</h2>",
        verdict_table(evaluation.verdicts),
        _figure(_forest(evaluation), "Values and intervals; the dashed line is the logging "
                "policy's own mean reward. Refused estimators show no value."),
        "<h2>Weights</h2>",
        _figure(_weights(evaluation.histogram), "Importance weights of the rows used; the "
                "dashed line is weight 1."),
        _overlap(evaluation.levels),
        _model(evaluation),
        _differences(evaluation.differences),
        _segments(evaluation),
        _notes(evaluation.notes),
    ]  # fmt: skip
    return page(title, parts)


def write_report(evaluation: Evaluation, path: Path) -> None:
    """Write the report.

    Args:
        evaluation: What to show.
        path: File to write; its folder is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report_html(evaluation), encoding="utf-8")


def _facts(evaluation: Evaluation) -> str:
    log = evaluation.log
    source = f" Source: {html.escape(log.source)}." if log.source else ""
    return (
        f"<p>{log.n_used:,} of {log.n_rows:,} rows ({log.kind}, split {log.split}), "
        f"{log.n_units:,} units. Left out: {log.n_null_propensity:,} not drawn, "
        f"{log.n_null_reward:,} without a measured reward. Logging policy's own value: "
        f"{number(evaluation.logging.value)} {interval_text(evaluation.logging.interval)}. "
        f"Intervals at {evaluation.level:.0%}.{source}</p>"
    )


def _model(evaluation: Evaluation) -> str:
    if evaluation.model is None:
        return ""
    found = evaluation.model.calibration
    return (
        f"<h2>Reward model</h2><p>{html.escape(evaluation.model.source)}. Mean prediction "
        f"{number(found.mean_predicted)}, mean reward {number(found.mean_observed)}, calibration "
        f"error {number(found.error)}.</p>"
        + _figure(_calibration(found), "Mean reward against mean prediction, by tenths of rows.")
    )


def _differences(differences: Sequence[Difference]) -> str:
    if not differences:
        return ""
    rows = "".join(
        f'<tr class="{d.status}"><td>{d.estimator}</td><td>{d.status}</td>'
        f"<td>{number(d.value)}</td><td>{interval_text(d.interval)}</td>"
        f"<td>{html.escape(d.reason or '')}</td></tr>"
        for d in differences
    )
    return (
        f"<h2>Difference to {html.escape(differences[0].against)}, paired</h2><table><thead><tr>"
        "<th>estimator</th><th>status</th><th>difference</th><th>interval</th><th>reason</th>"
        f"</tr></thead><tbody>{rows}</tbody></table>"
    )


def _segments(evaluation: Evaluation) -> str:
    parts = []
    for segment in evaluation.segments:
        name = "empty" if segment.value is None else segment.value
        parts.append(f"<h2>{html.escape(segment.column)}: {html.escape(name)}</h2>")
        parts.append(verdict_table(segment.verdicts))
    return "".join(parts)


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    return "<h2>Notes</h2>" + bullets(notes)


def _figure(drawn: Figure, caption: str) -> str:
    raw = io.StringIO()
    with rc_context(SVG_SETTINGS):
        drawn.savefig(raw, format="svg", metadata=SVG_METADATA)
    return captioned(raw.getvalue(), caption)


def _forest(evaluation: Evaluation) -> Figure:
    verdicts = evaluation.verdicts
    figure = Figure(figsize=(8, 0.9 + 0.45 * len(verdicts)), layout="constrained")
    axes = figure.subplots()
    for row, verdict in enumerate(verdicts):
        if verdict.value is None:
            axes.text(
                0.02, row, "refused", color=_REFUSED, va="center",
                transform=axes.get_yaxis_transform(),
            )  # fmt: skip
            continue
        if verdict.interval is not None:
            axes.plot(verdict.interval, (row, row), color=_INK, linewidth=2)
        axes.plot(verdict.value, row, "o", color=_INK)
    if evaluation.logging.value is not None:
        axes.axvline(evaluation.logging.value, color=_ACCENT, linestyle="--", linewidth=1)
    axes.set_yticks(range(len(verdicts)), [verdict.estimator for verdict in verdicts])
    axes.set_ylim(len(verdicts) - 0.5, -0.5)
    axes.set_xlabel("value per decision, in reward units")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _weights(found: WeightHistogram) -> Figure:
    figure = Figure(figsize=(8, 2.4), layout="constrained")
    axes = figure.subplots()
    used = np.flatnonzero(found.counts)
    if used.size:
        edges = np.concatenate([[EDGES[0] / _STEP], EDGES, [EDGES[-1] * _STEP]])
        low, high = max(int(used[0]) - 1, 0), min(int(used[-1]) + 2, len(found.counts))
        axes.stairs(found.counts[low:high], edges[low : high + 1], fill=True, color=_INK)
        axes.set_xscale("log")
        axes.axvline(1.0, color=_ACCENT, linestyle="--", linewidth=1)
    axes.set_yscale("symlog")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"weight, logarithmic; {found.n_zero:,} of {found.n:,} rows weigh 0")
    axes.set_ylabel("rows")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _overlap(levels: Sequence[LevelShare]) -> str:
    if not levels:
        return ""
    source = (
        "from the whole distributions of both policies"
        if all(level.is_exact for level in levels)
        else "from the plans taken, the target's reweighed"
    )
    return "<h2>Overlap by factor level</h2>" + _figure(
        _level_bars(levels),
        f"Share of decisions by level, {source}. A level that the target takes and the logging "
        "policy hardly ever does is where the estimates rest on few rows.",
    )


def _level_bars(levels: Sequence[LevelShare]) -> Figure:
    names = [_shortened(f"{level.factor} = {level.level}") for level in levels]
    figure = Figure(figsize=(8, 0.9 + 0.36 * len(levels)), layout="constrained")
    axes = figure.subplots()
    place = np.arange(len(levels))
    axes.barh(place - 0.18, [level.logging for level in levels], 0.34, color=_REFUSED,
              label="logging policy")  # fmt: skip
    axes.barh(place + 0.18, [level.target for level in levels], 0.34, color=_INK, label="target")
    for row, (before, level) in enumerate(pairwise(levels), start=1):
        if before.factor != level.factor:
            axes.axhline(row - 0.5, color="#dddddd", linewidth=1)
    axes.set_yticks(place, names)
    axes.set_ylim(len(levels) - 0.5, -0.5)
    axes.set_xlabel("share of decisions")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    return figure


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _calibration(found: Calibration) -> Figure:
    figure = Figure(figsize=(4, 3.2), layout="constrained")
    axes = figure.subplots()
    predicted = [each.predicted for each in found.bins]
    observed = [each.observed for each in found.bins]
    top = max([*predicted, *observed])
    low = min([*predicted, *observed])
    axes.plot((low, top), (low, top), color=_ACCENT, linestyle="--", linewidth=1)
    axes.plot(predicted, observed, "o-", color=_INK)
    axes.set_xlabel("mean prediction")
    axes.set_ylabel("mean reward")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
