"""The Open Bandit layout, on a folder made here."""

import numpy as np
import pytest

from canopy.domain.errors import LogError, ServiceUnreachableError
from canopy.logs import obd_wheel
from canopy.logs.obd import read_obd, thompson_distribution
from canopy.logs.tabular import log_of
from policy.catalog import parse_catalog

THIRD = 1 / 3
HEADER = (
    ",timestamp,item_id,position,click,propensity_score,"
    "user_feature_0,user_feature_1,user_feature_2,user_feature_3,user-item_affinity_0"
)
ROWS = (
    "0,2019-11-24 00:00:02.5+00:00,1,3,1,0.3333333333333333,1234,b,c,d,0.25",
    "1,2019-11-24 00:00:01+00:00,0,1,0,0.3333333333333333,a,b,c,d,0.0",
    "2,2019-11-24 00:00:01+00:00,1,2,0,0.3333333333333333,a,b,c,d,0.0",
)
ITEMS = (
    ",item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3",
    "0,0,-0.5,x,y,00123", "1,1,0.25,x,z,9e9", "2,2,1.5,w,z,9e9",
)  # fmt: skip
PRIOR = "toys: {alpha: [30.0, 300.0, 1.0], beta: [30.0, 1.0, 300.0]}\n"


def folder(tmp_path, rows=ROWS, items=ITEMS, header=HEADER):
    place = tmp_path / "random" / "toys"
    place.mkdir(parents=True, exist_ok=True)
    (place / "toys.csv").write_text("\n".join([header, *rows]) + "\n")
    (place / "item_context.csv").write_text("\n".join(items) + "\n")
    (tmp_path / "prior.yaml").write_text(PRIOR)
    return place


def read(place, **options):
    converted = read_obd(place, **options)
    return log_of(converted.columns, converted.facts)


def test_rows_come_in_the_order_of_time_and_ties_keep_theirs(tmp_path):
    log = read(folder(tmp_path))
    assert log.column("decision_id").tolist() == [
        "random-toys-1", "random-toys-2", "random-toys-0",
    ]  # fmt: skip
    assert log.column("plan").tolist() == ["item=0", "item=1", "item=1"]
    assert log.column("reward").tolist() == [0, 0, 1]


def test_positions_and_hashed_categories_stay_words(tmp_path):
    log = read(folder(tmp_path))
    assert log.context()["position"].tolist() == ["1", "2", "3"]
    assert log.context()["user_feature_0"].tolist() == ["a", "a", "1234"]
    assert "affinity_0" not in log.context()
    assert read(folder(tmp_path), affinities=True).context()["affinity_0"].tolist() == [0, 0, 0.25]


def test_the_catalog_describes_items_by_their_categories(tmp_path):
    catalog = parse_catalog(read(folder(tmp_path)).catalog_text, "catalog")
    assert catalog.plan_ids == ("item=0", "item=1", "item=2")
    assert [factor.name for factor in catalog.factors] == [
        "item", "item_feature_1", "item_feature_2", "item_feature_3",
    ]  # fmt: skip
    assert [level.name for level in catalog.factors[3].levels] == ["00123", "9e9"]
    assert catalog.attributes["item_feature_0"].tolist() == [-0.5, 0.25, 1.5]


def test_the_whole_distribution_is_given_only_for_a_uniform_logger(tmp_path):
    assert read(folder(tmp_path)).matrix("propensities").tolist() == [[THIRD] * 3] * 3
    other = (ROWS[0].replace(f",{THIRD},", ",0.6,"), *ROWS[1:])
    assert read(folder(tmp_path, other)).matrix("propensities") is None


def test_a_prior_gives_the_target_policy_by_position(tmp_path):
    log = read(folder(tmp_path), prior=tmp_path / "prior.yaml", draws=200)
    target = log.matrix("target_propensities")
    np.testing.assert_allclose(target.sum(axis=1), 1)
    assert target[0, 1] > 0.95  # first position: nearly always the better item
    assert target[1, 0] > 0.95  # second position: the next best
    assert log.column("target_propensity").tolist() == [target[0, 0], target[1, 1], target[2, 1]]


def test_the_uniform_target_is_uniform(tmp_path):
    log = read(folder(tmp_path), target="uniform")
    assert log.column("target_propensity").tolist() == [THIRD] * 3


def test_thompson_draws_do_not_depend_on_how_they_are_grouped(monkeypatch):
    alpha, beta = np.array([1.0, 2.0, 3.0, 2.0]), np.array([4.0, 3.0, 5.0, 1.0])
    whole = thompson_distribution(alpha, beta, draws=300, seed=1)
    monkeypatch.setattr("canopy.logs.obd._DRAWS_AT_ONCE", 7)
    np.testing.assert_array_equal(thompson_distribution(alpha, beta, draws=300, seed=1), whole)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rows": (ROWS[0].replace(",1,3,1,", ",1,3,x,"),)}, "row 1, column click"),
        ({"rows": (ROWS[0].replace(",1,3,1,", ",7,3,1,"),)}, "column item_id"),
        (
            {"rows": ("0,2019-11-24 00:00:02,1,3,1,0.3333333333333333,a,b,c,d,0",)},
            "column timestamp",
        ),
        ({"header": HEADER.replace("propensity_score", "pscore")}, "column propensity_score"),
        ({"items": (ITEMS[0], *ITEMS[2:])}, "column item_id"),
    ],
)
def test_a_damaged_folder_is_refused_by_place(tmp_path, changes, problem):
    with pytest.raises(LogError, match=problem):
        read_obd(folder(tmp_path, **changes))


def test_impossible_targets_are_refused(tmp_path):
    place = folder(tmp_path)
    (tmp_path / "prior.yaml").write_text("toys: {alpha: [1.0], beta: [1.0]}\n")
    with pytest.raises(LogError, match="3 positive numbers"):
        read_obd(place, prior=tmp_path / "prior.yaml")
    with pytest.raises(LogError, match="no Beta parameters"):
        read_obd(place, prior=tmp_path / "none.yaml")
    with pytest.raises(LogError, match="two target policies"):
        read_obd(place, prior=tmp_path / "prior.yaml", target="uniform")
    with pytest.raises(LogError, match="expected uniform"):
        read_obd(place, target="greedy")
    with pytest.raises(LogError, match=r"beside item_context\.csv"):
        read_obd(tmp_path)


def test_a_wheel_that_is_not_the_published_one_is_refused_and_nothing_is_kept(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / obd_wheel.WHEEL).write_bytes(b"something else")
    with pytest.raises(LogError, match="SHA-256"):
        obd_wheel.fetch_obd(tmp_path)
    assert [p.name for p in (tmp_path / "data").iterdir()] == [obd_wheel.WHEEL]


def test_an_unreachable_index_is_said_with_the_way_round_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ServiceUnreachableError, match=obd_wheel.WHEEL):
        obd_wheel.fetch_obd(tmp_path)
    assert list((tmp_path / "data").iterdir()) == []


def test_data_that_is_there_needs_no_network(tmp_path):
    there = tmp_path / "data" / "obd"
    there.mkdir(parents=True)
    assert obd_wheel.fetch_obd(tmp_path) == there
