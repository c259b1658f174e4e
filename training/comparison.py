"""Two training runs side by side, as one self-contained HTML page."""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from canopy.output import cell
from canopy.pages import SVG_METADATA, SVG_SETTINGS, bullets, captioned, page, paragraph, table

_COLORS: Final = ("#1f4e79", "#b5521b")
_LOGGED: Final = "#9a9a9a"
_MOST_LEVELS: Final = 40
_VALUES: Final = (
    ("logged value, validation units", "logged_value"),
    ("served value", "served_value"),
    ("effective sample size of that", "served_ess"),
    ("greedy value", "greedy_value"),
    ("effective sample size of that", "greedy_ess"),
    ("effective sample size of the weights", "ess"),
    ("calibration error", "calibration_error"),
    ("temperature", "temperature"),
    ("l2", "l2"),
    ("pair_l2", "pair_l2"),
    ("tenant_l2", "tenant_l2"),
    ("rows trained on", "n_train"),
    ("rows that chose", "n_validation"),
    ("rows of reserved units, unread", "n_reserved"),
    ("rows with one feasible plan", "n_single_feasible"),
    ("seconds", "seconds"),
)


def comparison_html(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """The page's text.

    Args:
        first: Summary of one run, as `canopy-train print=json` prints it.
        second: Summary of another.

    Returns:
        A whole HTML document that loads nothing from elsewhere.
    """
    runs = (first, second)
    names = tuple(f"{letter}: {run['objective']}" for letter, run in zip("AB", runs, strict=True))
    parts = [
        bullets(_cautions(*runs)),
        "<h2>Runs</h2>",
        table(("", *names), [
            (name, *(str(run.get(key) or "none") for run in runs))
            for name, key in (("policy", "policy_id"), ("run", "run_id"), ("model", "model"),
                              ("data", "data_hash"), ("catalog", "catalog_hash"))
        ]),
        "<h2>Values</h2>",
        table(("", *names), [
            (name, *(cell(run.get(key)) for run in runs)) for name, key in _VALUES
        ]),
        paragraph("Values are estimates on validation units, which chose the policy: they flatter. "
                  "Served is with the exploration floor, greedy always the likeliest plan."),
        "<h2>Settings that differ</h2>",
        _settings(*runs, names),
        "<h2>Loss</h2>",
        _drawn(_curves(runs, names), "Loss by pass: training dashed, validation solid, the pass "
               "kept marked. Losses of different objectives are not on one scale."),
        "<h2>Calibration</h2>",
        _drawn(_calibrations(runs, names), "Mean outcome against mean forecast, by "
               "tenths of rows."),
        "<h2>Plan share</h2>",
        _drawn(_shares(runs, names), "Share of decisions by factor level on each run's validation "
               "rows; the levels that differ most."),
        "<h2>Lineage</h2>",
        table(("", *names), [
            (kind, *(", ".join(run["lineage"].get(kind, [])) or "none" for run in runs))
            for kind in first["lineage"]
        ]),
    ]  # fmt: skip
    return page(f"{names[0]} beside {names[1]}", parts)


def _cautions(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """What keeps the two from being compared as they stand."""
    told = []
    if first["data_hash"] != second["data_hash"]:
        told.append("The runs learnt from different logs: their values are not of the same rows.")
    if first["catalog_hash"] != second["catalog_hash"]:
        told.append("The catalogs differ: levels of one may be unknown to the other.")
    if first["settings"].get("data.validation_share") != second["settings"].get(
        "data.validation_share"
    ):
        told.append("The validation shares differ: their values are of different rows.")
    if first["reward"] != second["reward"]:
        told.append("The rewards are made of different components.")
    if first["synthetic"] or second["synthetic"]:
        told.append("Synthetic data.")
    return told


def _settings(first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[str, ...]) -> str:
    one, two = first["settings"], second["settings"]
    rows = [
        (key, *(str(settings[key]) if key in settings else "not set" for settings in (one, two)))
        for key in sorted({*one, *two})
        if one.get(key) != two.get(key)
    ]
    return table(("setting", *names), rows) if rows else paragraph("None.")


def _drawn(drawing: Figure, caption: str) -> str:
    raw = io.StringIO()
    with rc_context(SVG_SETTINGS):
        drawing.savefig(raw, format="svg", metadata=SVG_METADATA)
    return captioned(raw.getvalue(), caption)


def _curves(runs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Figure:
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for axes, run, name, color in zip(figure.subplots(1, 2), runs, names, _COLORS, strict=True):
        curve = run["curve"]
        steps = np.arange(1, len(curve["train"]) + 1)
        axes.plot(steps, curve["train"], linestyle="--", color=color)
        axes.plot(steps, curve["validation"], color=color)
        axes.axvline(curve["best"] + 1, color=_LOGGED, linestyle=":")
        axes.set(title=name, xlabel="pass", ylabel="loss")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _calibrations(runs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Figure:
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for axes, run, name, color in zip(figure.subplots(1, 2), runs, names, _COLORS, strict=True):
        found = run["calibration"]
        ends = [min(found["predicted"] + found["observed"]),
                max(found["predicted"] + found["observed"])]  # fmt: skip
        axes.plot(ends, ends, color=_LOGGED, linestyle=":")
        axes.plot(found["predicted"], found["observed"], "o-", color=color)
        axes.set(title=f"{name}: {found['what']}", xlabel="forecast", ylabel="observed")
        axes.title.set_fontsize(9)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _shares(runs: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Figure:
    served = [{(share["factor"], share["level"]): share for share in run["shares"]} for run in runs]
    both = [key for key in served[0] if key in served[1]]
    both.sort(key=lambda key: -abs(served[0][key]["served"] - served[1][key]["served"]))
    shown = [key for key in served[0] if key in both[:_MOST_LEVELS]]
    figure = Figure(figsize=(8, 1.2 + 0.42 * len(shown)), layout="constrained")
    axes = figure.subplots()
    place = np.arange(len(shown))
    logged = [served[0][key]["logged"] for key in shown]
    axes.barh(place - 0.27, logged, 0.25, color=_LOGGED, label="logged")
    for offset, shares, name, color in zip((0.0, 0.27), served, names, _COLORS, strict=True):
        values = [shares[key]["served"] for key in shown]
        axes.barh(place + offset, values, 0.25, color=color, label=name)
    axes.set_yticks(place, [f"{factor} = {level}" for factor, level in shown])
    axes.invert_yaxis()
    axes.set_xlabel("share of decisions")
    axes.spines[["top", "right"]].set_visible(False)
    # Beside the bars: within, it would cover some.
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure
