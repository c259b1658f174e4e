"""Who is admitted as a judge, and the record of it that training reads."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from click.testing import CliRunner

from canopy.domain.clearance import DimensionClearance, parse_clearances, standing_clearance
from canopy.domain.errors import InputError, RangeError, ShapeMismatchError
from eval.agreement.admission import admission, null_baselines
from eval.agreement.agreement import AgreementReason
from eval.agreement.clearances import clearance
from eval.agreement.named import coefficient_named
from eval.agreement_cli import judge_agreement

SCALE = (1, 2, 3, 4, 5)


def world(seed=0, n=200, *, noise=0.2, skew=None):
    rng = np.random.default_rng(seed)
    share = skew or (0.2,) * 5
    gold = rng.choice(SCALE, n, p=share)

    def rater(error):
        moved = gold + (rng.random(n) < error) * rng.choice([-1, 1], n)
        return np.clip(moved, 1, 5).tolist()

    return rater(noise), gold.tolist(), rater(0.1), rng


def admitted(coefficient, judge, gold, *, floor=0.3, **more):
    chosen = coefficient_named(coefficient, SCALE)
    found = clearance(
        chosen, [judge, gold], floor=floor, rng=np.random.default_rng(1), n_resamples=300
    )
    return admission(chosen, found, judge, gold, **more)


def test_a_judge_as_good_as_people_is_admitted():
    judge, gold, second, rng = world()
    length = rng.normal(200, 50, len(gold)).tolist()
    found = admitted("kappa-quadratic", judge, gold, second=second, length=length)
    assert found.is_admitted
    assert found.reason is None
    assert found.ceiling.value > 0.9
    assert [baseline.name for baseline in found.baselines] == [
        *(f"always {label}" for label in SCALE), "longer is higher", "longer is lower",
    ]  # fmt: skip


def test_a_coefficient_that_a_constant_reaches_admits_nobody_for_it():
    """AC1 of a constant judge on skewed gold is high; a floor alone would let it pass."""
    judge, gold, *_ = world(2, skew=(0.0, 0.0, 0.02, 0.06, 0.92), noise=0.3)
    found = admitted("ac1", judge, gold, floor=0.5)
    assert found.clearance.is_cleared
    assert max(b.value for b in found.baselines) > found.clearance.bound.value
    assert (found.is_admitted, found.reason) == (False, AgreementReason.NULL_BASELINE)


def test_a_judge_that_only_measures_length_is_not_admitted():
    """Gold that goes with length: whoever counts characters does as well as the judge."""
    rng = np.random.default_rng(3)
    gold = rng.choice(SCALE, 300)
    length = 100 * gold + rng.normal(0, 60, 300)
    judge = np.clip(np.round((length + rng.normal(0, 40, 300)) / 100), 1, 5).astype(int)
    chosen = {"judge": judge.tolist(), "gold": gold.tolist()}
    without = admitted("kappa-quadratic", **chosen)
    assert without.is_admitted
    found = admitted("kappa-quadratic", **chosen, length=length.tolist())
    assert found.reason is AgreementReason.NULL_BASELINE


def test_people_that_agree_better_are_the_ceiling():
    judge, gold, second, _ = world(4, noise=0.75)
    assert admitted("kappa", judge, gold, floor=0.0, second=second, delta=1.0).is_admitted
    found = admitted("kappa", judge, gold, floor=0.0, second=second, delta=0.1)
    assert found.reason is AgreementReason.BELOW_PEOPLE


def test_two_people_that_never_rated_the_same_are_no_ceiling():
    judge, gold, _, _ = world(5)
    found = admitted("kappa", judge, gold, second=[None] * len(gold))
    assert found.reason is AgreementReason.NO_CEILING


def test_what_fails_its_floor_keeps_that_reason():
    judge, gold, second, _ = world(6, noise=0.9)
    found = admitted("kappa", judge, gold, floor=0.95, second=second)
    assert found.reason is AgreementReason.BELOW_FLOOR


def test_the_length_only_rater_gets_the_gold_s_own_shares_in_the_order_of_length():
    gold, length = [1, 5, 5, 3, None], [10.0, 40.0, 30.0, 20.0, 99.0]
    chosen = coefficient_named("kappa", SCALE)
    by_name = {b.name: b.value for b in null_baselines(chosen, gold, length)}
    assert by_name["longer is higher"] == 1.0
    # Against the order: 5, 5, 3, 1 by falling length is 5 1 3 5 in the gold's order.
    assert by_name["longer is lower"] == chosen([[5, 1, 3, 5], gold[:4]]).value
    equal = {b.name: b.value for b in null_baselines(chosen, [1, 1, 5, 5], [7.0] * 4)}
    # Equal lengths cannot be told apart: one label for all, which agrees with chance.
    assert equal["longer is higher"] == 0


@pytest.mark.parametrize(
    ("more", "error"), [({"delta": -0.1}, RangeError), ({"length": [1.0]}, ShapeMismatchError)]
)
def test_what_cannot_be_asked_is_an_error(more, error):
    judge, gold, *_ = world(7)
    with pytest.raises(error):
        admitted("kappa", judge, gold, **more)


class TestRecord:
    HEADER = (
        "id,judge,human,human_rater,human_date,human_source,"
        "other,other_rater,other_date,other_source,chars\n"
    )
    WORDS = (
        "--discipline", "copy", "--dimension", "clarity", "--rubric", "r1", "--judge", "m@1",
        "--family", "f", "--golden-set", "copy/v1/agreement", "--second-human", "other",
        "--length", "chars",
    )  # fmt: skip

    def file(self, tmp_path, *, source="human", authored_rows=0, other_rater="bo", n=120):
        judge, gold, second, rng = world(8, n=n)
        rows = []
        for k in range(n):
            origin = "authored" if k < authored_rows else source
            rows.append(
                f"{k},{judge[k]},{gold[k]},ann,2026-11-{1 + k % 20:02d},{origin},"
                f"{second[k]},{other_rater},2026-11-30,human,{rng.integers(50, 400)}\n"
            )
        path = tmp_path / "gold.csv"
        path.write_text(self.HEADER + "".join(rows))
        return path

    def run(self, tmp_path, path, *more, words=WORDS):
        return CliRunner().invoke(judge_agreement, [
            str(path), "--rater-a", "judge", "--rater-b", "human", "--scale", "1,2,3,4,5",
            "--coefficient", "kappa-quadratic", "--floor", "0.5", "--resamples", "300", "--json",
            "--record", str(tmp_path / "clearances.jsonl"), *words, *more,
        ])  # fmt: skip

    def rows(self, tmp_path):
        path = tmp_path / "clearances.jsonl"
        return parse_clearances(path.read_text(), str(path))

    def test_a_clearance_says_who_was_cleared_for_what(self, tmp_path):
        found = self.run(tmp_path, self.file(tmp_path))
        assert found.exit_code == 0, found.output
        (row,) = self.rows(tmp_path)
        assert (row.discipline, row.dimension, row.judge, row.family) == (
            "copy", "clarity", "m@1", "f",
        )  # fmt: skip
        assert row.raters == ("ann",)
        assert (row.dated_from, row.dated_to) == ("2026-11-01", "2026-11-20")
        assert row.is_cleared
        assert row.lower_bound >= row.ceiling - row.delta
        assert "longer is higher" in row.baselines
        assert json.loads(found.stdout)["clearance_id"] == row.clearance_id

    def test_authored_rows_never_clear_a_dimension(self, tmp_path):
        found = self.run(tmp_path, self.file(tmp_path, source="authored"))
        assert found.exit_code == 3
        (row,) = self.rows(tmp_path)
        assert (row.is_cleared, row.n, row.n_not_human, row.raters) == (False, 0, 120, ())
        some = self.run(tmp_path, self.file(tmp_path, authored_rows=30))
        assert json.loads(some.stdout)["n"] == 90
        assert json.loads(some.stdout)["n_not_human"] == 30

    def test_a_failure_is_recorded_and_withdraws(self, tmp_path):
        assert self.run(tmp_path, self.file(tmp_path)).exit_code == 0
        assert self.run(tmp_path, self.file(tmp_path), "--floor", "0.999").exit_code == 3
        asked = {"discipline": "copy", "dimension": "clarity", "rubric": "r1", "judge": "m@1"}
        standing = standing_clearance(self.rows(tmp_path), **asked)
        assert (standing.is_cleared, standing.reason) == (False, "below_floor")
        assert standing_clearance(self.rows(tmp_path), **(asked | {"judge": "m@2"})) is None
        assert standing_clearance(self.rows(tmp_path), **(asked | {"rubric": "r2"})) is None

    def test_one_person_is_not_two(self, tmp_path):
        found = self.run(tmp_path, self.file(tmp_path, other_rater="ann"))
        assert "'ann', who gave human too" in str(found.exception)

    @pytest.mark.parametrize("missing", [0, 2, 4, 6, 8, 10, 12, 14])
    def test_nothing_is_recorded_that_says_less(self, tmp_path, missing):
        words = self.WORDS[:missing] + self.WORDS[missing + 2 :]
        found = self.run(tmp_path, self.file(tmp_path), words=words)
        assert isinstance(found.exception, InputError)
        assert self.WORDS[missing] in str(found.exception)
        assert not (tmp_path / "clearances.jsonl").exists()

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("authored", "people", "row 1, column human_source: 'people' is no source"),
            ("2026-11-01,authored", "yesterday,authored", "column human_date: 'yesterday' is no"),
            ("human_rater", "who", "has no column 'human_rater'"),
        ],
    )
    def test_provenance_that_cannot_be_is_an_error(self, tmp_path, old, new, message):
        path = self.file(tmp_path, authored_rows=1)
        path.write_text(path.read_text().replace(old, new, 1))
        found = self.run(tmp_path, path)
        assert isinstance(found.exception, InputError)
        assert message in str(found.exception)

    def test_a_torn_file_is_not_added_to(self, tmp_path):
        (tmp_path / "clearances.jsonl").write_text('{"discipline"')
        found = self.run(tmp_path, self.file(tmp_path))
        assert "ends within a line" in str(found.exception)
        with pytest.raises(InputError, match=r"clearances\.jsonl:1: is no clearance"):
            self.rows(tmp_path)


def row_of(**changes):
    facts = {
        "discipline": "d", "dimension": "x", "rubric": "r", "judge": "j", "family": "f",
        "golden_set": "d/v1/agreement", "gold_hash": "h", "raters": ("ann",),
        "dated_from": "2026-01-01", "dated_to": "2026-01-02", "n": 50, "n_clusters": 20,
        "n_not_human": 0, "coefficient": "kappa", "value": 0.8, "lower_bound": 0.7,
        "level": 0.95, "floor": 0.6, "ceiling": 0.8, "delta": 0.1, "baselines": {"always 1": 0.0},
        "is_cleared": True, "reason": None, "recorded_at": datetime(2026, 1, 3, tzinfo=UTC),
    }  # fmt: skip
    return DimensionClearance(**(facts | changes))


def test_a_clearance_comes_back_as_it_went():
    row = row_of()
    (read,) = parse_clearances(json.dumps(row.document()) + "\n\n", "f")
    assert read == row
    later = replace(row, recorded_at=row.recorded_at + timedelta(days=1))
    assert later.clearance_id == row.clearance_id
    assert replace(row, floor=0.5).clearance_id != row.clearance_id


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reason": "below_floor"}, "reason exactly where"),
        ({"is_cleared": False}, "reason exactly where"),
        ({"raters": ()}, "only gold that people gave"),
        ({"recorded_at": datetime(2026, 1, 3)}, "aware"),  # noqa: DTZ001 - what is refused
    ],
    ids=["reason", "none", "nobody", "naive"],
)
def test_a_clearance_cannot_contradict_itself(changes, message):
    with pytest.raises(TypeError, match=message):
        row_of(**changes)
