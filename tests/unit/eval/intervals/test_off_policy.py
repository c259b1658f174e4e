"""The off-policy confidence sequence: golden rows and bounds, validity, missing rewards, drift."""

import numpy as np
import pytest

from canopy.domain.errors import RangeError, ShapeMismatchError
from eval.intervals import off_policy_sequence
from eval.intervals.off_policy import terms
from eval.intervals.plan_rows import plan_rows
from eval.intervals.sequences import side_threshold
from eval.intervals.wagers import wager

LOGGING = np.array([
    [0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.25, 0.5, 0.25], [0.4, 0.6, 0.0], [0.1, 0.8, 0.1],
])  # fmt: skip
TARGET = np.array([
    [0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6], [0.5, 0.5, 0.0], [0.3, 0.4, 0.3],
])  # fmt: skip
MODEL = np.array([
    [0.8, 0.2, 0.4], [0.6, 0.1, 0.5], [0.3, 0.4, 0.6], [0.2, 0.9, np.nan], [0.5, 0.7, 0.2],
])  # fmt: skip
TAKEN = np.array([0, 1, 2, 0, 1])
REWARD = np.array([1, 0, 0.5, 0.25, 1])
WEIGHT = TARGET[np.arange(5), TAKEN] / LOGGING[np.arange(5), TAKEN]


def tiled(times, **more):
    whole = {
        "target": np.tile(TARGET, (times, 1)), "logging": np.tile(LOGGING, (times, 1)),
        "taken": np.tile(TAKEN, times), "q": np.tile(MODEL, (times, 1)),
    }  # fmt: skip
    return off_policy_sequence(np.tile(REWARD, times), np.tile(WEIGHT, times), **whole, **more)


@pytest.mark.parametrize(
    ("cap", "below", "above"),
    [
        (0, (1.4, 0, 1.2, 0.3125, 0.5), (0, 0.166667, 1.2, 0.9375, 0)),
        (1, (0.98, 0.253333, 0.59, 0.6125, 0.59), (0.08, 0.346667, 0.74, 0.3875, 0.17)),
    ],
)
def test_the_terms_of_the_golden_log_are_known(cap, below, above):
    rows = plan_rows(TARGET, LOGGING, TAKEN, WEIGHT)
    model = np.nan_to_num(MODEL)
    assert terms(REWARD, WEIGHT, rows, model, cap) == pytest.approx(below, abs=1e-6)
    assert terms(1 - REWARD, WEIGHT, rows, 1 - model, cap) == pytest.approx(above, abs=1e-6)


@pytest.mark.parametrize(
    ("method", "cap", "n", "interval"),
    [
        ("prpl_eb", 0, 50, (0.413563, 0.790872)),
        ("prpl_eb", 0, 200, (0.548663, 0.665811)),
        ("prpl_eb", 1, 200, (0.520406, 0.738873)),
        ("mixture", 0, 200, (0.559819, 0.652593)),
        ("mixture", 1, 200, (0.537068, 0.715877)),
        ("schedule", 0, 200, (0.567144, 0.656835)),
        ("schedule", 1, 200, (0.540089, 0.712377)),
    ],
)
def test_the_golden_log_repeated_has_its_known_bounds(method, cap, n, interval):
    found = tiled(n // 5, method=method, cap=cap)
    assert found.interval == pytest.approx(interval, abs=1e-6)


def test_the_wealth_of_the_golden_log_is_known():
    rows = plan_rows(np.tile(TARGET, (40, 1)), np.tile(LOGGING, (40, 1)), np.tile(TAKEN, 40),
                     np.tile(WEIGHT, 40))  # fmt: skip
    phi = terms(np.tile(REWARD, 40), np.tile(WEIGHT, 40), rows,
                np.nan_to_num(np.tile(MODEL, (40, 1))), 1)  # fmt: skip
    logs = wager("mixture", (phi + 1) / 2, side_threshold(0.05)).log_wealth((0.4 + 1) / 2)
    assert logs[[4, 49, 199]] == pytest.approx((0.127943, 3.251052, 20.283907), abs=1e-6)


def drawn(rng, n, spread=1.0, k=6):
    """A log of a known world: true value and everything an estimator may want."""
    logits = rng.normal(0, spread, (n, k))
    logging = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    target = np.exp(-logits / 2) / np.exp(-logits / 2).sum(axis=1, keepdims=True)
    means = np.tile(np.linspace(0.1, 0.7, k), (n, 1))
    taken = (logging.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    reward = (rng.random(n) < means[np.arange(n), taken]).astype(float)
    weight = (target / logging)[np.arange(n), taken]
    return {
        "reward": reward, "weight": weight, "target": target, "logging": logging,
        "taken": taken, "q": np.clip(means + 0.1, 0, 1),
    }, means  # fmt: skip


@pytest.mark.parametrize("cap", [0, 2])
def test_peeked_at_every_row_its_lower_side_is_rarely_wrong(cap):
    """By the wealth at the true value: 1,000 streams, each side allowed .025, up to .0325 here."""
    rng = np.random.default_rng(0)
    threshold = side_threshold(0.05)
    value = 0.4
    n_wrong = 0
    for _ in range(1_000):
        log, _ = drawn(rng, 200, spread=1.5)
        truth = 0.1 + 0.6 * np.tile(np.arange(6) / 5, (200, 1))
        rows = plan_rows(log["target"], log["logging"], log["taken"], log["weight"])
        # Centred by context, so that every row has the same value, as the claim asks.
        gap = (log["target"] * truth).sum(axis=1)
        mean = np.clip(truth + (value - gap)[:, None], 0, 1)
        is_exact = np.isclose((log["target"] * mean).sum(axis=1), value)
        reward = (rng.random(200) < rows.of_taken(mean)).astype(float)
        phi = terms(reward, log["weight"], rows, log["q"], cap)[is_exact]
        logs = wager("mixture", (phi + cap) / (1 + cap), threshold).log_wealth(
            (value + cap) / (1 + cap)
        )
        n_wrong += logs.max() >= threshold
    assert n_wrong <= 33


def test_mass_that_was_never_logged_widens_and_never_misleads():
    rng = np.random.default_rng(1)
    log, means = drawn(rng, 1_500)
    log["logging"][:, 5] = 0
    log["logging"] /= log["logging"].sum(axis=1, keepdims=True)
    log["taken"] = (log["logging"].cumsum(axis=1) < rng.random((1_500, 1))).sum(axis=1).clip(max=4)
    picked = np.arange(1_500), log["taken"]
    log["weight"] = log["target"][picked] / log["logging"][picked]
    log["reward"] = (rng.random(1_500) < means[picked]).astype(float)
    found = off_policy_sequence(**log)
    value = (log["target"] * means).sum(axis=1).mean()
    naive = float((log["weight"] * log["reward"]).mean())
    assert found.unsupported_mass > 0.1
    assert found.interval[0] <= value <= found.interval[1]
    assert naive < value - 0.05


def test_a_missing_reward_counts_as_the_worst_of_each_side():
    reward = np.tile(REWARD, 40)
    weight = np.tile(WEIGHT, 40)
    missing = reward.copy()
    missing[::7] = np.nan
    found = off_policy_sequence(missing, weight)
    worst = off_policy_sequence(np.nan_to_num(missing, nan=0.0), weight)
    best = off_policy_sequence(np.nan_to_num(missing, nan=1.0), weight)
    assert found.n_null_reward == np.isnan(missing).sum()
    assert found.lower == pytest.approx(worst.lower)
    assert found.upper == pytest.approx(best.upper)


def test_a_value_that_changes_is_an_alarm_of_drift():
    reward = np.concatenate([np.zeros(600), np.ones(3_000)])
    found = off_policy_sequence(reward, np.ones(3_600))
    assert (found.status, found.interval) == ("drift", None)
    assert "drift" in found.reason


def test_a_declared_range_is_only_a_scale():
    plain, scaled = tiled(20), off_policy_sequence(
        10 * np.tile(REWARD, 20) - 5, np.tile(WEIGHT, 20), lo=-5, hi=5,
        target=np.tile(TARGET, (20, 1)), logging=np.tile(LOGGING, (20, 1)),
        taken=np.tile(TAKEN, 20), q=10 * np.tile(MODEL, (20, 1)) - 5,
    )  # fmt: skip
    assert plain.cap == scaled.cap == 2
    assert scaled.lower == pytest.approx(10 * plain.lower - 5)


def test_dropped_rows_count_where_they_happened():
    rng = np.random.default_rng(0)
    reward = (rng.random(400) < 0.6).astype(float)
    keep = np.where(reward > 0, 1.0, 0.5)
    is_kept = rng.random(400) < keep
    place = np.flatnonzero(is_kept) + 1
    found = off_policy_sequence(
        reward[is_kept], 1 / keep[is_kept], keep_prob=keep[is_kept], decision=place,
        n_decisions=400,
    )  # fmt: skip
    assert (found.status, found.n) == ("ok", 400)
    assert found.interval[0] <= 0.6


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"reward": [], "weight": []}, "no data"),
        ({"cap": 1.0}, "a cap above 0 needs target"),
        ({"keep_prob": [0.5, 1]}, "rows were dropped and it is not known where"),
        (
            {"keep_prob": [0.5, 1], "decision": [1, 3], "units": ["a", "b"]},
            "the units of those are unknown",
        ),
    ],
)
def test_what_cannot_be_bounded_is_refused_with_its_remedy(more, reason):
    found = off_policy_sequence(**({"reward": [1, 0], "weight": [1, 1]} | more))
    assert (found.status, found.interval) == ("refused", None)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"reward": [1, 2]}, RangeError, "reward, row 2"),
        ({"weight": [1, -1]}, RangeError, "weight, row 2"),
        ({"weight": [1, np.nan]}, RangeError, "weight, row 2"),
        ({"weight": [1]}, ShapeMismatchError, "weight"),
        ({"alpha": 1.5}, RangeError, "alpha"),
        ({"cap": -1}, RangeError, "cap"),
        ({"keep_prob": [0.5, 0]}, RangeError, "keep_prob, row 2"),
    ],
)
def test_numbers_that_mean_nothing_are_errors(more, error, message):
    with pytest.raises(error, match=message):
        off_policy_sequence(**({"reward": [1, 0], "weight": [1, 1]} | more))


def test_a_weight_that_is_not_its_ratio_is_an_error():
    with pytest.raises(RangeError, match="weight, row 1: expected the target's over the logging"):
        off_policy_sequence(
            REWARD, np.ones(5), target=TARGET, logging=LOGGING, taken=TAKEN, q=MODEL
        )
