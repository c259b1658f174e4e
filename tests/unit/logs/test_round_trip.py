"""What is written is what is read, in both file formats; a refused log leaves no file."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from canopy.domain.episode import EpisodeKind
from canopy.domain.errors import LogError
from canopy.logs.example import write_example
from canopy.logs.schema import LogFacts
from canopy.logs.tabular import log_of, read_log, save_log, write_log

WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8
).filter(lambda word: word.strip() == word and word)
START = datetime(2026, 1, 1, tzinfo=UTC)


@st.composite
def logs(draw):
    n_rows = draw(st.integers(1, 6))
    plans = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    feasible = rng.random((n_rows, len(plans))) < 0.7
    action = rng.integers(len(plans), size=n_rows)
    feasible[np.arange(n_rows), action] = True
    weights = np.where(feasible, rng.random(feasible.shape) + 0.01, 0)
    propensities = weights / weights.sum(axis=1, keepdims=True)
    drawn = rng.random(n_rows) < 0.8
    propensities[~drawn] = np.nan
    columns = {
        "decision_id": [f"d{i}" for i in range(n_rows)],
        "unit_id": draw(st.lists(WORDS, min_size=n_rows, max_size=n_rows)),
        "ts": [START + timedelta(microseconds=int(rng.integers(10**15))) for _ in range(n_rows)],
        "plan": [plans[a] for a in action],
        "propensity": propensities[np.arange(n_rows), action],
        "reward": draw(st.lists(st.none() | st.floats(0, 1), min_size=n_rows, max_size=n_rows)),
        "drawn": drawn,
        "propensities": propensities,
        "feasible": feasible,
        "keep_prob": rng.random(n_rows) * 0.9 + 0.1,
        "q_all": np.where(feasible, rng.random(feasible.shape), np.nan),
        "x_number": draw(
            st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False),
                     min_size=n_rows, max_size=n_rows)
        ),
        "x_word": [f"word {word}" for word in draw(
            st.lists(WORDS, min_size=n_rows, max_size=n_rows))],
    }  # fmt: skip
    return log_of(columns, LogFacts(plans=tuple(plans), kind=EpisodeKind.SYNTHETIC, source="t"))


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(log=logs())
def test_a_log_survives_parquet_to_the_bit(tmp_path, log):
    save_log(log, tmp_path / "log.parquet")
    found = read_log(tmp_path / "log.parquet")
    assert found.content_hash == log.content_hash
    assert found.facts == log.facts
    assert found.table.schema.equals(log.table.schema)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(log=logs())
def test_a_log_survives_csv(tmp_path, log):
    save_log(log, tmp_path / "log.csv")
    found = read_log(tmp_path / "log.csv", plans=log.plans)
    for name in ("decision_id", "unit_id", "ts", "plan", "x_word"):
        assert found.column(name).tolist() == log.column(name).tolist()
    for name in ("propensity", "reward", "keep_prob"):
        np.testing.assert_array_equal(found.column(name), log.column(name))
    for name in ("propensities", "feasible", "q_all"):
        np.testing.assert_array_equal(found.matrix(name), log.matrix(name))


def test_the_content_hash_depends_on_content_not_on_chunks(tmp_path):
    log = write_example(tmp_path / "log.parquet")
    halves = np.array([True, True, False, False, False])
    assert log.take(np.arange(5)).content_hash == log.content_hash
    assert log.take(halves).content_hash != log.content_hash
    assert log.take(np.arange(5)[::-1]).content_hash != log.content_hash


def test_every_single_change_changes_the_content_hash(tmp_path):
    log = write_example(tmp_path / "log.parquet")
    columns = {name: log.table.column(name) for name in log.table.column_names}
    seen = {log.content_hash}
    for name in ("reward", "x_visits"):
        cells = log.column(name)
        cells[0] = 0.125
        seen.add(log_of(columns | {name: cells}, log.facts).content_hash)
    units = ["x", *log.column("unit_id")[1:]]
    seen.add(log_of(columns | {"unit_id": units}, log.facts).content_hash)
    seen.add(log_of(columns, LogFacts(plans=log.plans, reward_range=(0, 2))).content_hash)
    assert len(seen) == 5


def test_take_keeps_the_facts(tmp_path):
    log = write_example(tmp_path / "log.parquet")
    half = log.take(log.column("unit_id") == "customer-1")
    assert half.n_rows == 2
    assert half.facts == log.facts
    assert half.matrix("propensities").shape == (2, 3)


def test_missing_is_nan_for_numbers_and_none_for_words(tmp_path):
    log = write_example(tmp_path / "log.parquet")
    assert math.isnan(log.column("propensity")[4])
    assert log.column("x_industry").tolist()[3] is None
    assert math.isnan(log.context()["visits"][4])
    assert np.isnan(log.matrix("propensities")[4]).all()
    assert log.matrix("q_all") is None
    with pytest.raises(LogError, match="the log has none"):
        log.column("q")


def test_a_refused_log_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "log.parquet"
    log = write_example(path)
    before = path.read_bytes()
    columns = {name: log.table.column(name) for name in log.table.column_names}
    with pytest.raises(LogError, match="row 2, column propensity"):
        write_log(path, columns | {"propensity": [0.5, 0, 0.25, 0.4, None]}, plans=log.plans)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["log.parquet"]


def test_columns_of_different_length_are_refused(tmp_path):
    with pytest.raises(LogError, match="2 cells"):
        write_log(tmp_path / "log.parquet", {"plan": ["a", "b"], "unit_id": ["u"] * 3})
    assert list(tmp_path.iterdir()) == []
