"""Logs that no window holds: read in passing, put on disk, learnt from as if in memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from canopy.domain.episode import is_reserved
from canopy.domain.errors import ConfigError, LogError
from canopy.logs import batches
from canopy.logs.batches import open_parts
from canopy.logs.tabular import read_log
from tests.unit.training.conftest import written_log
from training.bc.config import BcConfig
from training.config import Device, RewardConfig, SplitBy, Tracking
from training.data import store as stores
from training.data.blocks import Block, Window
from training.data.feed import Feed
from training.data.intake import take_in
from training.data.moments import Moments
from training.data.store import RowWriter, window_rows
from training.direct.config import DirectConfig
from training.run import learn, prepare

CPU = torch.device("cpu")


@pytest.fixture
def in_parts(monkeypatch):
    """Makes a log of a few thousand rows one that is read in parts."""
    monkeypatch.setattr(batches, "BATCH_ROWS", 700)
    monkeypatch.setattr(batches, "PART_ROWS", 700)


@pytest.fixture
def long_log(tmp_path):
    n = 3_000
    ts = [f"2026-01-{1 + 27 * k // n:02d}T00:00:00Z" for k in range(n)]
    return written_log(tmp_path / "long.parquet", n=n, ts=ts)


def told(config, path, **changes):
    return replace(config, data=replace(config.data, path=str(path), **changes))


def test_a_long_log_is_taken_in_as_a_short_one(config, long_log, tmp_path, in_parts):
    parts = list(open_parts(long_log).read())
    assert [first for first, _ in parts] == [1 + 700 * k for k in range(5)]
    data, folder = told(config, long_log).data, tmp_path / "rows"
    found = take_in(data, RewardConfig(), folder, window=500)
    whole = take_in(data, RewardConfig(), folder, window=10**6)
    assert whole.train.is_whole
    assert not found.train.is_whole
    mapped, held = (taken.train.sample(10**6) for taken in (found, whole))
    for name in set(Block.__dataclass_fields__) - {"is_training"}:
        left, right = getattr(mapped, name), getattr(held, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    assert found.log_hash == read_log(long_log).content_hash


def test_what_is_counted_and_sampled_does_not_depend_on_the_parts(
    config, long_log, tmp_path, monkeypatch
):
    short = take_in(told(config, long_log).data, RewardConfig(), tmp_path)
    monkeypatch.setattr(batches, "BATCH_ROWS", 700)
    long = take_in(told(config, long_log).data, RewardConfig(), tmp_path)
    assert short.counts == long.counts
    assert short.schema == long.schema
    assert short.reward.document() == long.reward.document()
    assert short.validation.unit.tolist() == long.validation.unit.tolist()


def test_a_log_with_many_blocks_has_one_identity(long_log, monkeypatch):
    from canopy.logs import identity

    monkeypatch.setattr(identity, "HASHED_ROWS", 300)
    log = read_log(long_log)
    reader = identity.LogIdentity(log.facts)
    for start, stop in ((0, 10), (10, 1_234), (1_234, 1_235), (1_235, 3_000)):
        reader.add(log.take(np.arange(start, stop)).table)
    assert reader.content_hash() == log.content_hash
    other = identity.LogIdentity(log.facts)
    other.add(log.take(np.arange(2_999)).table)
    assert other.content_hash() != log.content_hash


def test_a_folder_of_parts_is_a_log(config, tmp_path):
    from canopy.domain.episode import EpisodeKind
    from canopy.logs.tabular import save_log

    log = read_log(written_log(tmp_path / "whole.parquet"))
    assert log.kind is EpisodeKind.SYNTHETIC
    for number, rows in enumerate((np.arange(500), np.arange(500, 1200))):
        save_log(log.take(rows), tmp_path / "folder" / f"{number}.parquet")
    found = take_in(told(config, tmp_path / "folder").data, RewardConfig(), tmp_path)
    assert (found.log_hash, found.counts.n_log) == (log.content_hash, 1200)


@pytest.mark.parametrize("objective", [{"direct": DirectConfig()}, {"bc": BcConfig()}])
def test_weights_do_not_depend_on_where_the_rows_lie(config, long_log, tmp_path, objective):
    """One window, once in memory and once mapped from disk: the same bits."""
    config = replace(told(config, long_log), objective=objective)
    memory = prepare(config, tmp_path)
    with RowWriter(
        tmp_path, width=memory.taken.schema.width, n_plans=6, window=10
    ) as writer:  # fmt: skip
        for block in memory.problem.train.blocks():
            writer.add(block, n_single=3)
        mapped = writer.store()
    assert list(tmp_path.glob("rows-*")) == []
    assert mapped.n_single == 3
    mapped.window = 10**6
    assert mapped.is_whole
    heads = [
        learn(problem, config)[1].head.table
        for problem in (memory.problem, memory.problem.with_train(mapped))
    ]
    assert heads[0].detach().numpy().tobytes() == heads[1].detach().numpy().tobytes()


def test_several_windows_learn_as_well_as_one(config, known, tmp_path):
    (block,) = known.problem.train.blocks()
    with RowWriter(tmp_path, width=block.features.shape[1], n_plans=6, window=2_048) as writer:
        writer.add(block, n_single=0)
        mapped = writer.store()
    assert len(list(mapped.blocks())) == 3
    quick = replace(config, optim=replace(config.optim, batch_size=512, epochs=12))
    losses, tables = [], []
    for store in (known.problem.train, mapped, mapped):
        _, fitted = learn(
            known.problem.with_train(store), replace(quick, objective={"direct": DirectConfig()})
        )
        losses.append(fitted.curve.least)
        tables.append(fitted.head.table.detach().numpy().tobytes())
    assert losses[1] == pytest.approx(losses[0], abs=0.002)
    assert tables[1] == tables[2]


def test_every_pass_visits_every_row_once_in_another_order(known, tmp_path):
    (block,) = known.problem.train.blocks()
    with RowWriter(tmp_path, width=block.features.shape[1], n_plans=6, window=2_048) as writer:
        writer.add(block, n_single=0)
        store = writer.store()
    kept = Feed(store, {}, lambda part: part.action != 2, CPU)
    everything = Feed(store, {"reward": lambda part: part.reward}, None, CPU)
    order = torch.Generator().manual_seed(3)
    passes = []
    for feed in (everything, everything, kept):
        seen = [window.position[rows] for window, rows in feed.batches(order, 256)]
        passes.append(torch.cat(seen).tolist())
        assert len(passes[-1]) == feed.n_rows
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(len(block)))
    assert passes[0] != passes[1]
    assert sorted(passes[2]) == np.flatnonzero(block.action != 2).tolist()
    again = torch.Generator().manual_seed(3)
    repeated = [w.position[rows] for w, rows in everything.batches(again, 256)]
    assert torch.cat(repeated).tolist() == passes[0]


def test_no_window_holds_more_than_it_may():
    assert window_rows(34, 256) == stores.MOST_WINDOW_ROWS
    assert window_rows(100, 10_240) < 8_192
    assert window_rows(100, 10**6) == 4_096


def test_contexts_without_features_go_to_disk_and_back(known, tmp_path):
    (block,) = known.problem.train.blocks()
    bare = replace(block, features=block.features[:, :0])
    with RowWriter(tmp_path, width=0, n_plans=6, window=10) as writer:
        writer.add(bare, n_single=0)
        (read,) = [next(writer.store().blocks())]
    assert read.features.shape == (10, 0)
    assert Window(read, {}, CPU).features.shape == (10, 0)


def test_reserved_units_are_on_no_side(config, long_log, tmp_path, in_parts):
    found = take_in(told(config, long_log).data, RewardConfig(), tmp_path, window=500)
    units = read_log(long_log).column("unit_id").tolist()
    open_rows = sum(not is_reserved(unit) for unit in units)
    assert found.counts.n_log - found.counts.n_reserved == open_rows
    n_rows = len(found.train) + found.train.n_single + len(found.validation)
    assert n_rows == open_rows - found.counts.n_not_drawn - found.counts.n_null_reward
    assert not any(is_reserved(unit) for unit in found.validation.unit)


def test_a_long_log_chooses_on_few_rows_and_trains_on_the_others(config, long_log, tmp_path):
    data = told(config, long_log, most_validation_rows=100).data
    found = take_in(data, RewardConfig(), tmp_path)
    assert 50 < len(found.validation) < 160
    assert len(found.train) > 1_500


def test_a_split_by_time_chooses_on_the_end_by_units_that_are_new(config, long_log, tmp_path):
    data = told(config, long_log, split=SplitBy.time).data
    found = take_in(data, RewardConfig(), tmp_path)
    cut = found.validation.ts.min()
    log = read_log(long_log)
    early = {u for u, t in zip(log.column("unit_id"), log.column("ts"), strict=True) if t < cut}
    assert 0.1 < len(found.validation) / (len(found.train) + len(found.validation)) < 0.3
    assert not early & set(found.validation.unit)


def test_by_time_later_rows_of_units_that_train_are_left_out_and_counted(config, tmp_path):
    n = 1_200
    ts = [f"2026-01-{1 + 27 * k // n:02d}T00:00:00Z" for k in range(n)]
    units = [f"u{k % 900}" for k in range(n)]
    path = written_log(tmp_path / "back.parquet", n=n, ts=ts, unit_id=units)
    data = told(config, path, split=SplitBy.time, validation_share=0.4).data
    found = take_in(data, RewardConfig(), tmp_path)
    assert found.counts.n_known_units > 100
    assert not set(found.validation.unit) & {u for u in units[:700] if u in units[900:]}


def test_a_part_without_a_row_to_train_on_is_no_end(config, long_log, tmp_path, in_parts):
    log = read_log(long_log)
    reward = log.column("reward").copy()
    reward[:1_000] = np.nan
    path = written_log(tmp_path / "late.parquet", n=3_000, reward=reward)
    found = take_in(told(config, path).data, RewardConfig(), tmp_path)
    assert found.counts.n_null_reward > 700
    reward[:] = np.nan
    nothing = written_log(tmp_path / "never.parquet", n=3_000, reward=reward)
    with pytest.raises(LogError, match="no row is left to train on"):
        take_in(told(config, nothing).data, RewardConfig(), tmp_path)


def test_moments_in_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    values = rng.exponential(size=1_000) + 40
    sums = Moments()
    for part in np.split(values, [3, 3, 400, 999]):
        sums.add(part)
    assert sums.n == 1_000
    assert sums.mean == pytest.approx(values.mean(), rel=1e-13)
    assert sums.deviation == pytest.approx(values.std(), rel=1e-11)
    assert (sums.low, sums.high) == (values.min(), values.max())
    kish = values.sum() ** 2 / (values**2).sum()
    assert sums.effective_sample_size == pytest.approx(kish, rel=1e-12)
    assert Moments().add(np.full(7, 0.1)).add(np.full(5, 0.1)).deviation == 0.0
    assert Moments().add(np.zeros(4)).effective_sample_size == 0.0


def test_an_accelerator_that_is_not_there_is_an_error(config, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    runtime = replace(config.runtime, device=Device.cuda, tracking=Tracking.off)
    with pytest.raises(ConfigError, match=r"runtime\.device: torch finds no accelerator"):
        prepare(replace(config, runtime=runtime), tmp_path)
    assert prepare(config, tmp_path).problem.device == CPU


def test_a_folder_without_a_row_is_refused(config, tmp_path):
    from canopy.logs.tabular import save_log

    log = read_log(written_log(tmp_path / "whole.parquet"))
    save_log(log.take(np.arange(0)), tmp_path / "folder" / "0.parquet")
    with pytest.raises(LogError, match="log: holds no row"):
        take_in(told(config, tmp_path / "folder").data, RewardConfig(), tmp_path)
