"""What a policy is trained on: blends, clearances, and what is left out of them."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from canopy.domain.clearance import DimensionClearance
from canopy.domain.errors import ConfigError, InputError, LogError, TrainingRefusedError
from canopy.logs.tabular import read_log
from canopy.settings import Settings
from training.config import ComponentConfig, RewardConfig
from training.data.loader import catalog_of, load_rows
from training.reward_spec import reward_of
from training.run import train

DISCIPLINE = "factored-world"
JUDGED = ComponentConfig(column="r_clarity", low=1, high=5, judge="m@1", rubric="r1")


@pytest.fixture
def log_of(make_log):
    return lambda **changes: read_log(make_log(**changes))


@pytest.fixture
def log(log_of):
    return log_of(
        n=40,
        r_settled=[float(k % 2) for k in range(40)],
        r_clarity=[None if k % 4 == 0 else 1.0 + k % 5 for k in range(40)],
    )


def spec(clearances=None, **components):
    named = {name.replace("_", ":", 1): one for name, one in components.items()}
    return RewardConfig(components=named, clearances=clearances)


def cleared(tmp_path, **changes):
    facts = {
        "discipline": DISCIPLINE, "dimension": "clarity", "rubric": "r1", "judge": "m@1",
        "family": "f", "golden_set": "w/v1/agreement", "gold_hash": "h", "raters": ("ann",),
        "dated_from": "2026-01-01", "dated_to": "2026-01-02", "n": 50, "n_clusters": 20,
        "n_not_human": 0, "coefficient": "kappa", "value": 0.8, "lower_bound": 0.7,
        "level": 0.95, "floor": 0.6, "ceiling": 0.8, "delta": 0.1, "baselines": {},
        "is_cleared": True, "reason": None, "recorded_at": datetime(2026, 1, 3, tzinfo=UTC),
    }  # fmt: skip
    row = DimensionClearance(**(facts | changes))
    path = tmp_path / "clearances.jsonl"
    with path.open("a") as lines:
        lines.write(json.dumps(row.document()) + "\n")
    return str(path)


def test_the_log_s_own_reward_stays_in_its_units(log):
    for config in (RewardConfig(), spec(reward=ComponentConfig(weight=7))):
        found = reward_of(log, config, DISCIPLINE)
        assert np.array_equal(found.values, log.column("reward"), equal_nan=True)
        assert [(one.name, one.weight) for one in found.components] == [("reward", 1.0)]
        assert not found.lineage


def test_an_unmeasured_component_is_blended_out_and_never_a_zero(log, tmp_path):
    config = spec(
        cleared(tmp_path),
        settlement=ComponentConfig(column="r_settled", weight=1),
        rubric_clarity=replace(JUDGED, weight=3),
    )
    found = reward_of(log, config, DISCIPLINE)
    settled, clarity = log.column("r_settled"), log.column("r_clarity")
    both = (settled + 3 * (clarity - 1) / 4) / 4
    assert found.values == pytest.approx(np.where(np.isnan(clarity), settled, both))
    shares = {one.name: (one.weight, one.share_measured) for one in found.components}
    assert shares == {"settlement": (0.25, 1.0), "rubric:clarity": (0.75, 0.75)}


def test_where_nothing_was_measured_the_reward_is_unmeasured(log_of):
    gone = log_of(n=40, r_one=[None, 1.0] * 20, r_two=[None, None] * 20)
    config = spec(
        gate_one=ComponentConfig(column="r_one"), scorer_two=ComponentConfig(column="r_two")
    )
    found = reward_of(gone, config, DISCIPLINE)
    assert np.isnan(found.values[::2]).all()
    assert (found.values[1::2] == 1).all()


class TestClearances:
    def found(self, log, clearances):
        config = spec(
            clearances, settlement=ComponentConfig(column="r_settled"), rubric_clarity=JUDGED
        )
        return reward_of(log, config, DISCIPLINE)

    def test_a_dimension_counts_while_its_clearance_stands(self, log, tmp_path):
        found = self.found(log, cleared(tmp_path))
        assert found.components[1].left_out is None
        assert found.lineage.document() == {
            "judges": ["f"], "rubrics": ["r1/clarity"], "corpora": [], "verifiers": [],
            "golden_sets": ["w/v1/agreement"],
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            (None, "no clearance is recorded"),
            ({"rubric": "r2"}, "no clearance is recorded"),
            ({"judge": "m@2"}, "no clearance is recorded"),
            ({"discipline": "other"}, "no clearance is recorded"),
            ({"is_cleared": False, "reason": "below_floor"}, "not cleared (below_floor)"),
        ],
        ids=["none", "rubric", "judge", "discipline", "failed"],
    )
    def test_without_one_it_has_no_weight_and_no_part_in_the_lineage(
        self, log, tmp_path, changes, told
    ):
        found = self.found(log, None if changes is None else cleared(tmp_path, **changes))
        assert told in found.components[1].left_out
        assert found.components[1].weight == 0
        assert np.array_equal(found.values, log.column("r_settled"))
        assert not found.lineage

    def test_a_later_failure_withdraws_it(self, log, tmp_path):
        cleared(tmp_path)
        path = cleared(
            tmp_path, is_cleared=False, reason="below_people",
            recorded_at=datetime(2026, 2, 1, tzinfo=UTC),
        )  # fmt: skip
        assert "below_people" in self.found(log, path).components[1].left_out

    def test_nothing_left_is_refused(self, log):
        with pytest.raises(TrainingRefusedError, match="leave nothing to train on: rubric:clarity"):
            reward_of(log, spec(rubric_clarity=JUDGED), DISCIPLINE)

    def test_clearances_that_cannot_be_read_are_an_error(self, log, tmp_path):
        with pytest.raises(InputError, match=r"reward\.clearances .*cannot be read"):
            self.found(log, str(tmp_path / "none.jsonl"))


def test_a_verifier_in_the_reward_is_in_the_lineage(log):
    config = spec(verifier_settled=ComponentConfig(column="r_settled"))
    assert reward_of(log, config, DISCIPLINE).lineage.verifiers == {"settled"}


@pytest.mark.parametrize(
    ("name", "component", "error", "message"),
    [
        ("vibes", ComponentConfig(), ConfigError, "vibes: is no component"),
        ("scorer", ComponentConfig(), ConfigError, "scorer: is no component"),
        ("reward:x", ComponentConfig(), ConfigError, "reward:x: is no component"),
        ("bt", ComponentConfig(), ConfigError, "objective=preference"),
        ("scorer:x", ComponentConfig(weight=0), ConfigError, "expected a positive number"),
        ("scorer:x", ComponentConfig(low=1), ConfigError, "has the range 1 to None"),
        ("scorer:x", ComponentConfig(low=2, high=1), ConfigError, "has the range 2 to 1"),
        ("rubric:x", ComponentConfig(), ConfigError, "does not say whose verdicts"),
        ("scorer:x", ComponentConfig(), LogError, "column r_scorer:x: the log has none"),
        ("scorer:x", ComponentConfig(column="x_0"), ConfigError, "no column of rewards"),
    ],
    ids=range(10),
)
def test_a_specification_that_cannot_be_is_refused(log, name, component, error, message):
    with pytest.raises(error, match=message):
        reward_of(log, RewardConfig(components={name: component}), DISCIPLINE)


def test_a_value_beyond_its_range_is_named(log):
    config = spec(
        settlement=ComponentConfig(column="r_settled"),
        scorer_clarity=ComponentConfig(column="r_clarity", low=1, high=4),
    )
    with pytest.raises(LogError, match=r"row 10, column r_clarity: 5 lies beyond 1 to 4"):
        reward_of(log, config, DISCIPLINE)


def test_reserved_rows_are_no_part_of_it(log):
    loaded = load_rows(log, catalog_of(log, None), reward=spec(
        settlement=ComponentConfig(column="r_settled")
    ))  # fmt: skip
    assert loaded.counts.n_reserved > 0
    assert len(loaded.reward.values) == 40 - loaded.counts.n_reserved


def test_a_run_says_what_counted(config, make_log, tmp_path):
    path = make_log(r_settled=[float(k % 2) for k in range(1_200)])
    config = replace(
        config, data=replace(config.data, path=str(path)),
        reward=spec(reward=ComponentConfig(), settlement=ComponentConfig(column="r_settled"),
                    rubric_clarity=replace(JUDGED, column="r_settled", low=0, high=1)),
    )  # fmt: skip
    run = train(config, Settings(home=tmp_path / "home"))
    facts = run.artifact.manifest["reward_components"]
    assert [(one["component"], one["weight"]) for one in facts] == [
        ("reward", 0.5), ("settlement", 0.5), ("rubric:clarity", 0.0),
    ]  # fmt: skip
    assert facts[2]["left_out"] == "no clearance is recorded"
