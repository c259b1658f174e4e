"""`canopy judge agreement` and `plan`, as their user types them."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from canopy.domain.errors import InputError
from eval.agreement import COEFFICIENTS, kappa
from eval.agreement.rating_files import scale_labels
from eval.agreement_cli import COEFFICIENT_NAMES, judge_agreement, judge_plan


def run(command, *words):
    return CliRunner().invoke(command, [str(word) for word in words])


@pytest.fixture
def ratings(tmp_path):
    rng = np.random.default_rng(0)
    gold = rng.integers(1, 6, 120)
    judge = np.clip(gold + (rng.random(120) < 0.2) * rng.integers(-1, 2, 120), 1, 5)
    rows = [f"{n // 4},{j},{g}" for n, (j, g) in enumerate(zip(judge, gold, strict=True))]
    path = tmp_path / "ratings.csv"
    path.write_text("doc,judge,human\n" + "\n".join(rows) + "\n")
    return path, judge, gold


def agreement(path, *more, floor=0.6, scale="1,2,3,4,5"):
    return run(
        judge_agreement, path, "--rater-a", "judge", "--rater-b", "human", "--scale", scale,
        "--floor", floor, *more,
    )  # fmt: skip


def test_a_judge_that_clears_its_floor_ends_with_0(ratings):
    path, judge, gold = ratings
    found = agreement(path, "--cluster", "doc", "--json")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["value"] == pytest.approx(kappa(judge, gold, (1, 2, 3, 4, 5)).value)
    assert document["lower_bound"] < document["value"]
    assert (document["cleared"], document["n"], document["n_clusters"]) == (True, 120, 30)


def test_a_judge_below_its_floor_ends_with_3_and_the_reason(ratings):
    found = agreement(ratings[0], "--json", floor=0.95)
    assert found.exit_code == 3
    assert json.loads(found.stdout)["reason"] == "below_floor"
    assert "below_floor" in agreement(ratings[0], floor=0.95).stdout


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_every_coefficient_can_be_asked_for(ratings, name):
    found = agreement(ratings[0], "--coefficient", name, "--json", floor=-1)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["coefficient"].startswith(name)


def test_the_command_offers_what_the_code_has():
    assert COEFFICIENT_NAMES == COEFFICIENTS


def test_labels_may_be_words_and_blanks_are_missing(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("judge,human\nbad,bad\ngood,good\n,good\nbad,good\n")
    found = agreement(path, "--json", "--min-clusters", 1, scale="bad,fair,good", floor=-1)
    document = json.loads(found.stdout)
    assert (document["n"], document["n_left_out"]) == (3, 1)
    assert scale_labels("1, 2.5,3") == (1, 2.5, 3)
    assert scale_labels("1,two") == ("1", "two")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("judge,human\n1,1\n2,6\n", "row 2, column human: '6' is not of the scale"),
        ("judge,human\n1,1\nx,1\n", "row 2, column judge: 'x' is not of the scale"),
        ("judge,human\n1\n", "row 1: has 1 cells, the header 2"),
        ("judge,gold\n1,1\n", "has no column 'human'"),
        ("judge,human,human\n1,1,1\n", "more than one column 'human'"),
        ("judge,human\n", "has no rows"),
        ("", "has no rows"),
    ],
)
def test_a_faulty_file_is_refused_by_row_and_column(tmp_path, text, message):
    path = tmp_path / "ratings.csv"
    path.write_text(text)
    found = agreement(path)
    assert isinstance(found.exception, InputError)
    assert message in str(found.exception)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    assert "cannot be read" in str(agreement(tmp_path / "nowhere.csv").exception)
    path = tmp_path / "binary.csv"
    path.write_bytes(b"judge,human\n\xff\xfe,1\n")
    assert "cannot be read" in str(agreement(path).exception)


def test_a_blank_cluster_is_refused(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("judge,human,doc\n1,1,a\n1,2,\n")
    assert "row 2, column doc: is blank" in str(agreement(path, "--cluster", "doc").exception)


def test_pairs_and_items_are_planned():
    pairs = json.loads(run(judge_plan, "--win-rate", 0.6, "--survival", 0.5, "--json").stdout)
    assert (pairs["decisive_pairs"], pairs["critical_wins"], pairs["pairs"]) == (158, 90, 316)
    assert (pairs["calls"], pairs["decisive_pairs_by_normal_approximation"]) == (632, 153)
    items = json.loads(run(judge_plan, "--kappa", 0.7, "--floor", 0.6, "--json").stdout)
    assert items["items"] == items["independent"] == pytest.approx(316, abs=2)
    assert "158" in run(judge_plan, "--win-rate", 0.6).stdout


@pytest.mark.parametrize(
    "words",
    [(), ("--kappa", 0.7), ("--floor", 0.6), ("--win-rate", 0.6, "--kappa", 0.7, "--floor", 0.6),
     ("--win-rate", 0.6, "--floor", 0.5)],
)  # fmt: skip
def test_one_question_at_a_time(words):
    found = run(judge_plan, *words)
    assert "one question at a time" in str(found.exception)
