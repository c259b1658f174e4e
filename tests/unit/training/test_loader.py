"""The one door to training: what passes it, and what is counted instead."""

from dataclasses import replace

import numpy as np
import pytest

from canopy.domain.episode import is_reserved
from canopy.domain.errors import CatalogError, LogError, ShapeMismatchError
from canopy.logs.tabular import read_log
from policy.catalog import parse_catalog
from training.data.loader import catalog_of, load_rows
from training.data.rows import fold_places
from training.data.splitting import split


@pytest.fixture
def loaded(log_path):
    log = read_log(log_path)
    return load_rows(log, catalog_of(log, None))


def test_no_reserved_unit_passes(log_path, loaded):
    log = read_log(log_path)
    units = log.column("unit_id").tolist()
    assert any(is_reserved(unit) for unit in units)
    assert not any(is_reserved(unit) for unit in loaded.rows.unit)
    assert loaded.counts.n_reserved == sum(is_reserved(unit) for unit in units)


def test_rows_of_a_reserved_unit_cannot_be_made_by_hand(loaded):
    reserved = next(f"u{i}" for i in range(1000) if is_reserved(f"u{i}"))
    units = loaded.rows.unit.copy()
    units[4] = reserved
    with pytest.raises(
        LogError, match=rf"training row 5, unit_id: '{reserved}' is a reserved unit"
    ):
        replace(loaded.rows, unit=units)


def test_what_is_left_out_is_counted(loaded):
    counts = loaded.counts
    left_out = counts.n_reserved + counts.n_not_drawn + counts.n_null_reward
    assert counts.n_log == 1200 == left_out + len(loaded.rows)
    assert min(counts.n_not_drawn, counts.n_null_reward) > 0
    assert np.isfinite(loaded.rows.reward).all()
    assert np.isfinite(loaded.rows.propensity).all()


def test_rows_without_a_choice_are_counted_and_kept(make_log):
    only = np.zeros((1200, 6), dtype=bool)
    only[:, 2] = True
    rows = np.arange(1200)
    only[rows % 3 > 0] = True
    first = "f0=l0,f1=l2"
    path = make_log(feasible=only, plan=[first] * 1200)
    log = read_log(path)
    loaded = load_rows(log, catalog_of(log, None))
    assert loaded.counts.n_single_feasible == (~loaded.rows.has_choice).sum() > 200


def test_the_taken_plan_is_feasible_and_the_mask_is_the_logged_one(log_path, loaded):
    rows = loaded.rows
    assert rows.feasible[np.arange(len(rows)), rows.action].all()
    assert not rows.feasible.all()


def test_plans_follow_the_catalog_whatever_their_order_in_the_log(make_log, loaded):
    log = read_log(make_log())
    text = log.catalog_text
    turned = parse_catalog(text.replace("- l0\n    - l1\n    - l2", "- l2\n    - l1\n    - l0"))
    rows = load_rows(log, turned).rows
    straight = parse_catalog(text)
    assert turned.plan_ids != straight.plan_ids
    names = [turned.plan_ids[action] for action in rows.action]
    assert names == [straight.plan_ids[action] for action in loaded.rows.action]
    order = [turned.index(plan) for plan in straight.plan_ids]
    np.testing.assert_array_equal(rows.feasible[:, order], loaded.rows.feasible)


def test_without_a_mask_every_listed_plan_was_feasible(make_log):
    log = read_log(make_log())
    bare = replace(log, table=log.table.drop_columns(["feasible"]))
    assert load_rows(bare, catalog_of(log, None)).rows.feasible.all()


def test_a_log_without_a_catalog_needs_one_by_name(make_log, tmp_path):
    log = read_log(make_log(catalog=False))
    with pytest.raises(CatalogError, match=r"data\.catalog: the log carries no plan catalog"):
        catalog_of(log, None)
    (tmp_path / "c.yaml").write_text(
        "discipline: d\nversion: '1'\nfactors: {f0: {levels: [l0]}, f1: {levels: [l0]}}\n"
        "default: f0=l0,f1=l0\n"
    )
    with pytest.raises(LogError, match="is in the log and not in the catalog"):
        load_rows(log, catalog_of(log, str(tmp_path / "c.yaml")))


def test_a_log_with_nothing_to_learn_from_is_refused(make_log):
    log = read_log(make_log(reward=[None] * 1200))
    with pytest.raises(LogError, match="no row is left to train on"):
        load_rows(log, catalog_of(log, None))


def test_a_unit_trains_or_chooses_never_both(loaded):
    inside, beyond = split(loaded.rows, 0.2)
    assert not set(inside.unit) & set(beyond.unit)
    assert len(inside) + len(beyond) == len(loaded.rows)
    assert 0.1 < len(beyond) / len(loaded.rows) < 0.3


def test_a_split_with_an_empty_side_is_refused(loaded):
    with pytest.raises(LogError, match="leave training or validation empty"):
        split(loaded.rows.take(np.arange(1)), 0.2)


def test_all_rows_of_a_unit_are_in_one_fold(loaded):
    found = (fold_places(loaded.rows) * 3).astype(int)
    of_unit = {}
    for unit, fold in zip(loaded.rows.unit, found, strict=True):
        assert of_unit.setdefault(unit, fold) == fold
    assert set(found) == {0, 1, 2}


def test_columns_of_another_length_are_refused(loaded):
    with pytest.raises(ShapeMismatchError, match="reward has shape"):
        replace(loaded.rows, reward=loaded.rows.reward[1:])
