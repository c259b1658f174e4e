"""Judges' verdicts in both orders: LLMBar (MIT) and a crowd's leaderboard.

LLMBar counts two unreadable verdicts as agreement; here a blank never agrees. With its rule all 499
published shares come out; ours are up to 8.5 points lower.
"""

import csv
from collections import defaultdict

import choix
import numpy as np
import pytest

from training.preferences import SwapCode, count_swaps, fit_bradley_terry, order_bias
from training.preferences.clustered import clustered_variance
from training.preferences.comparisons import single_comparisons
from training.preferences.order_effect import count_orders, fit_order_effect
from training.preferences.pair_table import PairTable

pytestmark = pytest.mark.reference

WORDS = {"1": "a", "2": "b", "": ""}


def read(path):
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def judging(reference_data):
    return reference_data / "judging"


@pytest.fixture(scope="module")
def verdicts(judging):
    found = defaultdict(list)
    for row in read(judging / "llmbar_judgments.csv"):
        found[row["subset"], row["judge"], row["strategy"]].append((
            WORDS[row["verdict_12"]],
            WORDS[row["verdict_21"]],
        ))
    return found


@pytest.fixture(scope="module")
def crowd(judging):
    """8,931 single verdicts on 59 models; the left one is item a and stood first."""
    rows = read(judging / "evalica_llmfao.csv")
    word = {"left": "a", "right": "b", "tie": "tie"}
    columns = {
        name: [row[name] for row in rows] for name in ("left", "right", "worker", "id", "prompt")
    }

    def clustered_by(name):
        return PairTable.of(
            columns["left"], columns["right"], [word[row["winner"]] for row in rows],
            [None] * len(rows), cluster=columns[name],
        )  # fmt: skip

    return clustered_by


def test_order_agreement_is_the_published_one_but_for_unreadable_verdicts(judging, verdicts):
    published = read(judging / "llmbar_published_stats.csv")
    differences = []
    for row in published:
        pairs = verdicts[row["subset"], row["judge"], row["strategy"]]
        found = count_swaps(*zip(*pairs, strict=True))
        survivors = found.counts[SwapCode.A] + found.counts[SwapCode.B]
        both_blank = sum(ab == ba == "" for ab, ba in pairs)
        theirs = 100 * (survivors + both_blank) / len(pairs)
        assert theirs == pytest.approx(float(row["equal"]), abs=1e-9)
        differences.append(float(row["equal"]) - 100 * survivors / len(pairs))
    assert len(published) == 499
    assert max(differences) == pytest.approx(8.5, abs=0.05)


@pytest.mark.parametrize(
    ("judge", "strategy", "counts", "b", "std_err"),
    [
        ("Falcon", "CoT", (362, 1), None, None),
        ("LLaMA2", "Swap", (0, 151), None, None),
        ("ChatGPT", "CoT", None, 1.93, 0.27),
        ("GPT-4", "Vanilla_NoRules", None, 0.03, 0.16),
    ],
)
def test_judges_favour_a_side(verdicts, judge, strategy, counts, b, std_err):
    mine = [
        pair for (subset, who, how), pairs in verdicts.items()
        if (who, how) == (judge, strategy) and subset.startswith("LLMBar") for pair in pairs
    ]  # fmt: skip
    found = count_swaps(*zip(*mine, strict=True))
    bias = order_bias(found.first_both, found.second_both)
    if counts is not None:
        assert (found.first_both, found.second_both) == counts
        assert (bias.b > 0) == (counts[0] > counts[1])
        return
    assert len(mine) == 419
    assert bias.b == pytest.approx(b, abs=0.005)
    assert bias.std_err == pytest.approx(std_err, abs=0.005)


def test_people_favour_the_left_side_too(crowd):
    found = fit_order_effect(*count_orders(crowd("prompt")))
    assert found.b == pytest.approx(0.188, abs=5e-4)
    assert found.std_err == pytest.approx(0.031, abs=1e-3)


@pytest.mark.parametrize(("name", "std_err"), [("worker", 0.328), ("id", 0.322), ("prompt", 0.415)])
def test_clusters_widen_the_differences_of_models(crowd, name, std_err):
    """Mean standard error of all differences of two models, ties left out."""
    comparisons = single_comparisons(crowd(name))
    fit = fit_bradley_terry(comparisons.wins)
    found = clustered_variance(comparisons, fit)
    pairs = np.triu_indices(len(comparisons.items), 1)
    assert np.sqrt(fit.difference_variance[pairs]).mean() == pytest.approx(0.283, abs=5e-4)
    assert np.sqrt(found.difference_variance[pairs]).mean() == pytest.approx(std_err, abs=5e-4)


def test_the_crowd_s_scores_are_those_of_dense_spectral_ranking(crowd):
    wins = single_comparisons(crowd("prompt"), ties="half").wins
    oracle = choix.ilsr_pairwise_dense(wins, max_iter=500, tol=1e-12)
    assert fit_bradley_terry(wins).scores == pytest.approx(oracle - oracle.mean(), abs=1e-6)
