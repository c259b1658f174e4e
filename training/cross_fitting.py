"""What a context is worth whatever the plan, by fits that saw none of its unit."""

from dataclasses import dataclass

import numpy as np

from canopy.domain.errors import TrainingRefusedError
from policy.arrays import FloatArray
from training.data.blocks import Block
from training.problem import Problem


@dataclass(slots=True)
class RidgeSums:
    """What a weighted ridge regression needs of its rows, which may come in parts.

    Attributes:
        gram: Shape (d + 1, d + 1): weighted products of the features, a 1 after them.
        cross: Shape (d + 1,): weighted products of the features with the target.
    """

    gram: FloatArray
    cross: FloatArray

    @classmethod
    def none(cls, n_features: int) -> "RidgeSums":
        """Of no row.

        Args:
            n_features: Columns of the features.
        """
        return cls(np.zeros((n_features + 1, n_features + 1)), np.zeros(n_features + 1))

    def add(self, features: FloatArray, target: FloatArray, weight: FloatArray) -> None:
        """Take rows in.

        Args:
            features: Shape (n, d).
            target: Shape (n,).
            weight: Shape (n,), at least 0.
        """
        with_one = np.column_stack([features, np.ones(len(features))])
        weighted = with_one * weight[:, None]
        self.gram += weighted.T @ with_one
        self.cross += weighted.T @ target

    def __add__(self, other: "RidgeSums") -> "RidgeSums":
        return RidgeSums(self.gram + other.gram, self.cross + other.cross)

    def fit(self, l2: float) -> FloatArray:
        """Slopes, then the free intercept, shape (d + 1,).

        Args:
            l2: Penalty on the slopes, above 0, so that columns that say the same do no harm.
        """
        total = self.gram[-1, -1]
        centre, middle = self.gram[-1, :-1] / total, self.cross[-1] / total
        gram = self.gram[:-1, :-1] - np.outer(centre, centre) * total
        gram[np.diag_indices_from(gram)] += l2
        slopes = np.linalg.solve(gram, self.cross[:-1] - centre * self.cross[-1])
        return np.append(slopes, middle - centre @ slopes)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The reward expected in a context whatever the plan.

    Attributes:
        coefficients: Shape (n_folds, d + 1): slopes and intercept of the fit that saw every other
            fold; in reward units beyond `origin`.
        origin: A reward that all are counted from, so that rewards that never differ are met
            to the bit.
    """

    coefficients: FloatArray
    origin: float

    def __call__(self, block: Block) -> FloatArray:
        """Shape (n,): out of fold for training rows, the mean of all fits for validation rows.

        Args:
            block: The rows.
        """
        n_folds = len(self.coefficients)
        if block.is_training:
            chosen = self.coefficients[block.fold(n_folds)]
            slopes, intercept = chosen[:, :-1], chosen[:, -1]
            found = np.einsum("ij,ij->i", block.features, slopes, dtype=np.float64)
        else:
            *slopes, intercept = self.coefficients.mean(axis=0)
            found = block.features.astype(np.float64) @ np.array(slopes)
        return np.asarray(found + intercept + self.origin)


def fit_baseline(problem: Problem, *, n_folds: int, l2: float) -> Baseline:
    """Ridge regression of the reward on the context, cross-fitted by unit.

    Args:
        problem: The rows to learn from.
        n_folds: Parts of the units, at least 2.
        l2: Penalty on the slopes, above 0.

    Raises:
        TrainingRefusedError: If all rows are in one fold, so that nothing is left to fit on.
    """
    origin, _ = problem.train.reward_extremes
    n_features = problem.shape.n_features
    sums = [RidgeSums.none(n_features) for _ in range(n_folds)]
    for block in problem.train.blocks():
        fold = block.fold(n_folds)
        for number, of_fold in enumerate(sums):
            rows = fold == number
            of_fold.add(
                block.features[rows].astype(np.float64),
                block.reward[rows] - origin,
                1.0 / block.keep_prob[rows],
            )
    if sum(of_fold.gram[-1, -1] > 0 for of_fold in sums) < 2:  # noqa: PLR2004 - one to fit, one to predict
        raise TrainingRefusedError(
            "log", f"all {len(problem.train)} training rows are in one fold.",
            "Train on more units.",
        )  # fmt: skip
    empty = RidgeSums.none(n_features)
    fits = [
        sum((other for other in sums if other is not held_out), start=empty).fit(l2)
        for held_out in sums
    ]
    return Baseline(np.array(fits), origin)
