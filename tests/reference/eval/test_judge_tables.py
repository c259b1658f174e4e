"""Judges against published numbers: LLMBar (MIT) and Krippendorff's example.

LLMBar's published kappa is wrong: it compares verdicts with labels the way that gave .2640 for
GPT-4 with chain of thought on Natural, where the coefficient is .8873.
"""

import csv
from collections import defaultdict

import numpy as np
import pytest

from eval.agreement import kappa, krippendorff_alpha

pytestmark = pytest.mark.reference


def read(path):
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def judging(reference_data):
    return reference_data / "judging"


@pytest.fixture(scope="module")
def cells(judging):
    found = defaultdict(list)
    for row in read(judging / "llmbar_judgments.csv"):
        found[row["subset"], row["judge"], row["strategy"]].append(row)
    return found


def test_all_published_accuracies_come_out_again(judging, cells):
    published = read(judging / "llmbar_published_stats.csv")
    for row in published:
        rows = cells[row["subset"], row["judge"], row["strategy"]]
        right = np.array([
            [one["verdict_12"] == one["label"], one["verdict_21"] == one["label"]] for one in rows
        ])
        assert 100 * right.mean() == pytest.approx(float(row["acc_avg"]), abs=1e-9)
        assert 100 * right.all(axis=1).mean() == pytest.approx(float(row["acc_both"]), abs=1e-9)
    assert len(published) == 499


def test_the_kappa_of_a_judge_is_not_the_published_one(judging, cells):
    key = ("LLMBar/Natural", "GPT-4", "CoT")
    published = next(
        row for row in read(judging / "llmbar_published_stats.csv")
        if (row["subset"], row["judge"], row["strategy"]) == key
    )  # fmt: skip
    by_order = [
        kappa([one[name] or None for one in cells[key]], [one["label"] for one in cells[key]],
              ("1", "2")).value
        for name in ("verdict_12", "verdict_21")
    ]  # fmt: skip
    assert float(published["kappa_12_as_published"]) == pytest.approx(0.2640, abs=1e-4)
    assert np.mean(by_order) == pytest.approx(0.8873, abs=1e-4)


def test_swap_survival_is_no_accuracy(cells):
    """ChatGPT on Neighbor: 73 % of verdicts survive the swap, and 6.1 % of those are right."""
    rows = cells["LLMBar/Adversarial/Neighbor", "ChatGPT", "Vanilla_NoRules"]
    survivors = [r for r in rows if r["verdict_12"] and r["verdict_12"] == r["verdict_21"]]
    assert len(survivors) / len(rows) == pytest.approx(0.7313, abs=1e-4)
    right = np.mean([r["verdict_12"] == r["label"] for r in survivors])
    assert right == pytest.approx(0.0612, abs=1e-4)


@pytest.mark.parametrize(
    ("metric", "value"),
    [("nominal", 0.743421), ("ordinal", 0.815388), ("interval", 0.849107), ("ratio", 0.797403)],
)
def test_krippendorffs_example_comes_out_again_from_its_file(judging, metric, value):
    with (judging / "krippendorff_4observers.csv").open(newline="") as lines:
        ratings = [[int(cell) if cell else None for cell in row] for row in csv.reader(lines)]
    found = krippendorff_alpha(ratings, (1, 2, 3, 4, 5), metric)
    assert found.value == pytest.approx(value, abs=1e-6)
