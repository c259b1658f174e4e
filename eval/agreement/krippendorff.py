"""Krippendorff's alpha: any number of raters, missing ratings, four metrics."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from canopy.domain.errors import InputError
from eval.agreement.agreement import Agreement
from eval.agreement.coefficients import Coefficient, Parts
from eval.agreement.ratings import Ratings, scale_of
from policy.arrays import FloatArray, IntArray

Metric = Literal["nominal", "ordinal", "interval", "ratio"]
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)


def krippendorff_alpha(ratings: Sequence[Any], scale: Iterable[Any], metric: Metric) -> Agreement:
    """Krippendorff's alpha: one minus observed over expected disagreement.

    Args:
        ratings: Shape (n_raters, n_units). Labels; None or NaN where missing. Units with fewer
            than two ratings are left out and counted.
        scale: The whole label domain, in order; numbers for `interval`, at least 0 for `ratio`.
        metric: `nominal` any difference alike, `ordinal` by ranks among the ratings at hand,
            `interval` squared difference, `ratio` squared difference over sum.

    Returns:
        The coefficient, at most 1, with the small-sample term; None where every label is the
        same or no unit is rated twice.

    Raises:
        ShapeMismatchError: If the raters do not describe the same units.
        RangeError: If a label is not of the scale; the rater and the row are named, from 1.
        InputError: If the scale does not suit the metric, or there is no such metric.

    Source:
        Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011.
    """
    return alpha_coefficient(scale, metric)(ratings)


def alpha_coefficient(scale: Iterable[Any], metric: Metric) -> Coefficient:
    """Krippendorff's alpha on a scale, to call on ratings or to resample.

    Args:
        scale: As for `krippendorff_alpha`.
        metric: As for `krippendorff_alpha`.

    Raises:
        InputError: As for `krippendorff_alpha`.
    """
    if metric not in METRICS:
        raise InputError("metric", f"there is none named {metric!r}.", f"Use {', '.join(METRICS)}.")
    declared = scale_of(scale, is_ordered=metric == "ordinal")
    fixed: FloatArray | None
    if metric == "ordinal":
        fixed = None
    elif metric == "nominal":
        fixed = 1 - np.eye(len(declared.labels))
    else:
        fixed = _numeric_distance(declared.values(), metric)
    return Coefficient(f"alpha-{metric}", declared, _Coincidences(fixed))


def _numeric_distance(values: FloatArray, metric: Metric) -> FloatArray:
    difference = values[:, None] - values
    if metric == "interval":
        return np.asarray(difference**2)
    if values.min() < 0:
        raise InputError(
            "scale",
            f"{values.min():g} is below 0, and a ratio needs a zero that nothing lies under.",
            "Use interval, or a scale from 0 on.",
        )
    total = values[:, None] + values
    return np.divide(difference, total, out=np.zeros_like(total), where=total > 0) ** 2


@dataclass(frozen=True, slots=True)
class _Coincidences:
    """Alpha's form: how often two ratings of one unit are each pair of labels.

    Attributes:
        distance: Shape (q, q). Squared difference of each pair of labels; None where it follows
            from the ranks of the ratings at hand.
    """

    distance: FloatArray | None

    def columns(self, ratings: Ratings) -> FloatArray:
        counted = ratings.is_counted()
        counts = np.where(counted[:, None], ratings.counts, 0.0)
        pairs = counts[:, :, None] * counts[:, None, :]
        diagonal = np.arange(counts.shape[1])
        pairs[:, diagonal, diagonal] -= counts
        others = np.maximum(counts.sum(axis=1) - 1, 1)
        n_units, n_seen = counts.shape
        return np.asarray((pairs / others[:, None, None]).reshape(n_units, n_seen * n_seen))

    def parts(self, sums: FloatArray, seen: IntArray) -> Parts:
        table = sums.reshape(len(sums), len(seen), len(seen))
        labels = table.sum(axis=2)
        n = labels.sum(axis=1)
        distance = self._distances(labels, seen)
        within = np.einsum("bij,bij->b", table, distance)
        between = np.einsum("bi,bij,bj->b", labels, distance, labels)
        return Parts(
            value=1 - (n - 1) * within / between,
            observed=within / n,
            expected=between / (n * (n - 1)),
            largest=distance.max(axis=(1, 2)),
        )

    def _distances(self, labels: FloatArray, seen: IntArray) -> FloatArray:
        if self.distance is not None:
            fixed = self.distance[np.ix_(seen, seen)]
            return np.broadcast_to(fixed, (len(labels), *fixed.shape))
        # Ratings between two labels, each end counted half: the difference of their mid-ranks.
        middle = np.cumsum(labels, axis=1) - labels / 2
        return np.asarray((middle[:, :, None] - middle[:, None, :]) ** 2)
