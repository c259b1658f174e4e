"""The two-arm sequence against the table that the `confseq` package ships (`ate_data.csv`, MIT)."""

import csv

import numpy as np
import pytest

from eval.intervals import two_arm_sequence

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def table(reference_data):
    path = reference_data / "decision" / "confseq" / "ate_data.csv"
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0] if name}


def test_every_row_of_the_published_table_comes_out_again(table):
    found = two_arm_sequence(
        table["y"], table["treatment"], 0.5, 0, 1, 0.05, 50, 0.16, unseen="published"
    )
    assert found.n == 1_000
    assert found.estimate == pytest.approx(table["point_estimate"], abs=1e-9)
    assert found.lower == pytest.approx(table["lower_confidence_bound"], abs=1e-9)
    assert found.upper == pytest.approx(table["upper_confidence_bound"], abs=1e-9)
    assert found.p_value == pytest.approx(table["p_value"], abs=1e-9)


def test_an_unseen_arm_taken_at_mid_range_gives_a_valid_test_of_other_numbers(table):
    found = two_arm_sequence(table["y"], table["treatment"], 0.5, 0, 1, 0.05, 50, 0.16)
    assert found.estimate[-1] == pytest.approx(0.175091, abs=1e-6)
