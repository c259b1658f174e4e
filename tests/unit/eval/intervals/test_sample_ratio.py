"""Sample ratio mismatch: published examples, false alarms, leaks, and when it says nothing."""

import numpy as np
import pytest
from scipy import stats

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.intervals import srm, srm_sequence
from eval.intervals.sample_ratio import _log_evidence


@pytest.mark.parametrize(
    ("counts", "shares", "statistic", "p_value", "status"),
    [
        ((5150, 4850), (0.5, 0.5), 9, 0.0027, "ok"),
        ((9120, 880), (0.9, 0.1), 16, 6.3e-5, "alarm"),
    ],
)
def test_the_chi_square_test_has_its_known_answers(counts, shares, statistic, p_value, status):
    found = srm(counts, shares)
    assert found.statistic == pytest.approx(statistic)
    assert found.p_value == pytest.approx(p_value, rel=0.01)
    assert found.status == status
    assert (found.reason is None) is (status == "ok")


def test_it_is_scipys_test():
    counts, shares = [410, 300, 290], [0.4, 0.3, 0.3]
    theirs = stats.chisquare(counts, np.array(shares) * 1_000)
    assert srm(counts, shares).p_value == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize(
    ("counts", "shares", "log_evidence"),
    [((5150, 4850), (0.5, 0.5), 2.147), ((9120, 880), (0.9, 0.1), 5.959)],
)
def test_the_sequential_evidence_has_its_known_values(counts, shares, log_evidence):
    found = _log_evidence(np.array([counts], dtype=float), np.array(shares))
    assert found[0] == pytest.approx(log_evidence, abs=5e-4)


def test_the_evidence_is_the_product_of_a_plain_loop():
    """Unit by unit: predictive probability under the prior over the assigned share."""
    rng = np.random.default_rng(0)
    arm, share = rng.integers(0, 3, 200), np.array([0.5, 0.3, 0.2])
    seen, logs = 100 * share, 0.0
    for row, one in enumerate(arm):
        logs += np.log(seen[one] / seen.sum()) - np.log(share[one])
        seen[one] += 1
        if row % 50 == 49:
            evidence = srm_sequence(arm[: row + 1], share).log_evidence[-1]
            assert evidence == pytest.approx(logs, abs=1e-9)


def test_it_rarely_alarms_without_cause_however_often_one_looks():
    rng = np.random.default_rng(0)
    alarms = [
        srm_sequence(rng.random(2_000) < 0.5, [0.5, 0.5], alpha=0.05).status == "alarm"
        for _ in range(1_000)
    ]
    assert np.mean(alarms) <= 0.065


def test_it_finds_a_ratio_of_48_to_52_in_time():
    rng = np.random.default_rng(1)
    found = [srm_sequence(rng.random(20_000) < 0.48, [0.5, 0.5]) for _ in range(20)]
    assert sum(one.status == "alarm" for one in found) >= 16
    rows = [one.alarm_row for one in found if one.alarm_row is not None]
    assert 5_000 < np.median(rows) < 16_000


def test_an_alarm_once_raised_stands():
    arm = np.concatenate([np.zeros(300), np.tile([0, 1], 20_000)])
    found = srm_sequence(arm, [0.5, 0.5])
    assert found.status == "alarm"
    assert found.alarm_row <= 300
    assert found.log_evidence[-1] < np.log(1_000), "the counts alone would no longer tell"
    assert (np.diff(found.p_value) <= 0).all()


def test_an_arm_that_was_to_get_nobody_is_a_leak_and_no_mere_alarm():
    fixed = srm([500, 500, 1], [0.5, 0.5, 0])
    assert (fixed.status, fixed.p_value) == ("leak", None)
    assert "arm 3 was to get nobody" in fixed.reason
    found = srm_sequence([0, 1, 2, 0, 1], [0.5, 0.5, 0])
    assert (found.status, found.alarm_row) == ("leak", 3)
    assert np.isinf(found.log_evidence[2:]).all()


@pytest.mark.parametrize("counts", [(0, 0), (3, 4), (4, 5)])
def test_too_few_units_say_nothing(counts):
    found = srm(counts, (0.5, 0.5))
    assert (found.status, found.p_value) == ("too_few", None)
    assert found.reason
    assert srm([10], [1.0]).status == "too_few"
    assert srm_sequence([], [0.5, 0.5]).status == "too_few"


@pytest.mark.parametrize(
    ("counts", "shares", "message"),
    [
        ((1, -1), (0.5, 0.5), "counts, row 2"),
        ((1, 1.5), (0.5, 0.5), "counts, row 2"),
        ((10, 10), (0.5, 0.6), "shares"),
        ((10, 10), (-0.5, 1.5), "shares, row 1"),
    ],
)
def test_counts_and_shares_that_cannot_be_are_errors(counts, shares, message):
    with pytest.raises(RangeError, match=message):
        srm(counts, shares)
    with pytest.raises(RangeError, match="alpha"):
        srm((10, 10), (0.5, 0.5), alpha=0)


def test_a_unit_in_no_arm_is_named():
    with pytest.raises(RangeError, match="assigned, row 2"):
        srm_sequence([0, 2], [0.5, 0.5])
    with pytest.raises(ShapeMismatchError):
        srm([1, 2, 3], [0.5, 0.5])
