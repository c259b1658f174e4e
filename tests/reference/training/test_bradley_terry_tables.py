"""Bradley-Terry against published tables: baseball, citations and a leaderboard of models."""

import csv

import numpy as np
import pytest

from training.preferences import fit_bradley_terry
from training.preferences.order_effect import fit_order_effect

pytestmark = pytest.mark.reference


def read(path):
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def judging(reference_data):
    return reference_data / "judging"


def tabled(items, wins):
    place = {item: number for number, item in enumerate(items)}
    found = np.zeros((len(items), len(items)))
    for winner, loser, times in wins:
        found[place[winner], place[loser]] += times
    return found


def test_baseball_has_its_published_abilities(judging):
    """Agresti, Categorical Data Analysis, table 10.11; Baltimore is 0."""
    rows = read(judging / "bt_baseball_1987.csv")
    teams = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
    wins = tabled(teams, [
        game
        for row in rows
        for game in (
            (row["home_team"], row["away_team"], float(row["home_wins"])),
            (row["away_team"], row["home_team"], float(row["away_wins"])),
        )
    ])  # fmt: skip
    found = fit_bradley_terry(wins)
    assert found.status == "connected"
    ability = found.scores - found.scores[-1]
    assert ability[:6] == pytest.approx([1.58, 1.44, 1.29, 1.25, 1.11, 0.68], abs=0.005)


def test_baseball_has_its_published_home_effect(judging):
    """Agresti, section 10.6.3: the order effect is playing at home; strengths sum to 1."""
    rows = read(judging / "bt_baseball_1987.csv")
    teams = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
    home = tabled(teams, [(r["home_team"], r["away_team"], float(r["home_wins"])) for r in rows])
    away = tabled(teams, [(r["home_team"], r["away_team"], float(r["away_wins"])) for r in rows])
    found = fit_order_effect(home, away)
    strength = np.exp(found.scores) / np.exp(found.scores).sum()
    assert found.b == pytest.approx(0.302, abs=5e-4)
    assert strength == pytest.approx([0.220, 0.190, 0.164, 0.157, 0.137, 0.088, 0.044], abs=6e-4)
    assert found.likelihood_ratio == pytest.approx(5.41, abs=0.005)


def test_citations_have_their_published_scores(judging):
    """Stigler 1994; a journal is beaten where it cites."""
    with (judging / "bt_citations_stigler1994.csv").open(newline="") as lines:
        _, *rows = csv.reader(lines)
    cited = np.array([[float(cell) for cell in row[1:]] for row in rows])
    np.fill_diagonal(cited, 0)
    found = fit_bradley_terry(cited)
    scores = found.scores - found.scores[0]
    assert scores[1:] == pytest.approx([-2.94907, -0.47957, 0.26895], abs=1e-4)


def test_a_leaderboard_of_59_models_has_its_published_scores(judging):
    """evalica: ties as half wins, scores that sum to 1."""
    golden = {
        row["item"]: float(row["score"])
        for row in read(judging / "evalica_llmfao-golden.csv")
        if row["algorithm"] == "bradley_terry"
    }
    rows = read(judging / "evalica_llmfao.csv")
    models = sorted({row[side] for row in rows for side in ("left", "right")})
    games = []
    for row in rows:
        left, right = row["left"], row["right"]
        if row["winner"] == "tie":
            games += [(left, right, 0.5), (right, left, 0.5)]
        else:
            winner = left if row["winner"] == "left" else right
            games.append((winner, right if winner == left else left, 1.0))
    found = fit_bradley_terry(tabled(models, games))
    strength = np.exp(found.scores) / np.exp(found.scores).sum()
    assert len(golden) == 59
    assert dict(zip(models, strength, strict=True)) == pytest.approx(golden, rel=1e-5)
