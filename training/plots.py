"""Pictures of a run, as PNG bytes."""

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Final

import numpy as np

from training.fitting import Candidate
from training.head import Penalty
from training.loop import Curve
from training.report import LevelShare, Reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_BARS: Final = 40
_LONGEST_LABEL: Final = 30
_LOGGED: Final = "#8a8f98"
_SERVED: Final = "#1f6f54"
_DPI: Final = 110


def curve_picture(curve: Curve) -> bytes:
    """Training and validation loss by pass, the kept one marked."""
    figure, axes = _figure(6.4, 4.0)
    steps = np.arange(1, len(curve.train) + 1)
    axes.plot(steps, curve.train, color=_LOGGED, label="training, penalty included")
    axes.plot(steps, curve.validation, color=_SERVED, label="validation")
    axes.axvline(curve.best + 1, color=_SERVED, linestyle=":", label="kept")
    axes.set(xlabel="pass", ylabel="loss (nats)", title="Loss")
    axes.legend(frameon=False)
    return _png(figure)


def share_picture(shares: Sequence[LevelShare]) -> bytes:
    """Share of each level, logged beside served; the most moved ones where there are many."""
    shown = sorted(shares, key=lambda s: -abs(s.served - s.logged))[:_MOST_BARS]
    shown = [share for share in shares if share in shown]
    figure, axes = _figure(7.0, 1.2 + 0.28 * len(shown))
    place = np.arange(len(shown))
    axes.barh(place - 0.2, [s.logged for s in shown], 0.4, color=_LOGGED, label="logged")
    axes.barh(place + 0.2, [s.served for s in shown], 0.4, color=_SERVED, label="served")
    axes.set_yticks(place, [_shortened(f"{s.factor} = {s.level}") for s in shown])
    axes.invert_yaxis()
    axes.set(xlabel="share of decisions", title="Plan share by level, validation units")
    axes.legend(frameon=False)
    return _png(figure)


def _shortened(label: str) -> str:
    """A label that leaves the bars their room; hashed levels are long."""
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def calibration_picture(found: Reliability) -> bytes:
    """Forecast against outcome by bin, with the line on which both agree."""
    figure, axes = _figure(4.8, 4.4)
    top = float(max(found.predicted.max(), found.observed.max(), 1e-9))
    bottom = float(min(found.predicted.min(), found.observed.min(), 0.0))
    axes.plot([bottom, top], [bottom, top], color=_LOGGED, linestyle=":")
    axes.plot(found.predicted, found.observed, marker="o", color=_SERVED)
    axes.set(xlabel="forecast", ylabel="observed", title=f"Calibration: {found.what}")
    return _png(figure)


def temperature_picture(candidates: Sequence[Candidate]) -> bytes:
    """Estimated served value by temperature."""
    figure, axes = _figure(6.4, 4.0)
    points = [(c.temperature, c.served.value) for c in candidates if c.served.value is not None]
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", color=_SERVED)
    axes.set(xscale="log", xlabel="temperature", ylabel="estimated served value")
    axes.set_title("What validation units say; the largest flatters")
    return _png(figure)


def penalty_picture(penalties: Sequence[tuple[Penalty, float]]) -> bytes:
    """Loss on validation units by penalty, in the order tried."""
    figure, axes = _figure(6.4, 1.2 + 0.35 * len(penalties))
    place = range(len(penalties))
    losses = [loss for _, loss in penalties]
    least = min(losses)
    colors = [_SERVED if loss == least else _LOGGED for loss in losses]
    axes.scatter(losses, place, color=colors)
    axes.set_yticks(
        place, [f"all {p.l2:g}, pairs {p.pair_l2:g}, tenants {p.tenant_l2:g}" for p, _ in penalties]
    )
    axes.invert_yaxis()
    axes.set(xlabel="loss on validation units", title="Penalties tried; the least is kept")
    return _png(figure)


def _figure(width: float, height: float) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second, and only to record

    # Without pyplot: no global state, no display, nothing to close.
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _png(figure: "Figure") -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    return buffer.getvalue()
