"""Five rows whose every estimate was worked out by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

LOGGING = np.array([
    [0.5, 0.3, 0.2],
    [0.2, 0.6, 0.2],
    [0.25, 0.5, 0.25],
    [0.4, 0.6, 0],
    [0.1, 0.8, 0.1],
])
TARGET = np.array([
    [0.7, 0.2, 0.1],
    [0.1, 0.1, 0.8],
    [0.2, 0.2, 0.6],
    [0.5, 0.5, 0],
    [0.3, 0.4, 0.3],
])
MODEL = np.array([
    [0.8, 0.2, 0.4],
    [0.6, 0.1, 0.5],
    [0.3, 0.4, 0.6],
    [0.2, 0.9, 0],
    [0.5, 0.7, 0.2],
])
ACTION = np.array([0, 1, 2, 0, 1])
REWARD = np.array([1, 0, 0.5, 0.25, 1])
KEEP = np.array([1, 0.5, 1, 0.25, 1])


@dataclass(frozen=True)
class Golden:
    reward: np.ndarray
    weight: np.ndarray
    q_taken: np.ndarray
    expected: np.ndarray
    keep: np.ndarray
    target: np.ndarray
    logging: np.ndarray
    q_all: np.ndarray
    action: np.ndarray

    @property
    def model(self):
        return self.q_taken, self.expected


@pytest.fixture
def golden():
    rows = np.arange(5)
    return Golden(
        REWARD,
        TARGET[rows, ACTION] / LOGGING[rows, ACTION],
        MODEL[rows, ACTION],
        (TARGET * MODEL).sum(axis=1),
        KEEP,
        TARGET,
        LOGGING,
        # The plan that row 4 masks has no prediction.
        np.where(LOGGING == 0, np.nan, MODEL),
        ACTION,
    )
