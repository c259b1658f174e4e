"""Cross-fitted reward models: nothing is predicted by a model that saw it."""

import numpy as np
import pytest

from canopy.domain.errors import ConfigError
from eval.intervals.units import units_of
from eval.reward_features import MAX_LEVELS, PlanEncoding, encode_context, encode_plans
from eval.reward_models import RewardModelSpec, RewardRows, calibrate, cross_fit
from policy.catalog import parse_catalog

CATALOG = """
discipline: test
version: "1"
factors:
  tone: {levels: [plain, warm, bold]}
  size: {levels: [short, long]}
default: tone=plain,size=short
attributes:
  cost:
    tone=plain,size=short: 1
    tone=bold,size=long: 3
"""


def sample(n=300, *, reward=None, seed=0, **more):
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, 2))
    action = rng.integers(0, 3, n)
    chance = 1 / (1 + np.exp(-(context[:, 0] + np.array([-1, 0, 1])[action])))
    return RewardRows(
        context=context,
        plans=np.eye(3)[:, 1:],
        action=action,
        reward=(rng.random(n) < chance).astype(float) if reward is None else reward,
        reward_range=(0.0, 1.0),
        units=more.pop("units", units_of(None, n)),
        ts=np.arange(n).astype("datetime64[s]"),
        **more,
    )


def test_a_row_is_predicted_by_a_model_that_never_saw_its_unit():
    rows = sample(units=units_of(np.arange(300) // 5, 300))
    before = cross_fit(rows, RewardModelSpec()).q_all
    flipped = rows.reward.copy()
    flipped[:5] = 1 - flipped[:5]
    after = cross_fit(sample(reward=flipped, units=rows.units), RewardModelSpec()).q_all
    assert (before[:5] == after[:5]).all()
    assert (before[5:] != after[5:]).any()


def test_folds_follow_time_and_not_the_order_of_the_file():
    rows = sample()
    order = np.random.default_rng(1).permutation(300)
    shuffled = RewardRows(
        rows.context[order], rows.plans, rows.action[order], rows.reward[order], (0.0, 1.0),
        units_of(order, 300), rows.ts[order],
    )  # fmt: skip
    found = cross_fit(rows, RewardModelSpec()).q_all[order]
    assert cross_fit(shuffled, RewardModelSpec()).q_all == pytest.approx(found, abs=1e-4)


@pytest.mark.parametrize("products", [False, True])
def test_predictions_agree_with_a_fit_done_by_hand(products):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold

    rows = sample()
    found = cross_fit(rows, RewardModelSpec(products=products))
    taken = rows.plans[rows.action]
    design = np.hstack([rows.context, taken])
    if products:
        each = [rows.context[:, [i]] * taken[:, [j]] for i in range(2) for j in range(2)]
        design = np.hstack([design, *each])
    for train, test in KFold(3, shuffle=True, random_state=12345).split(design):
        model = LogisticRegression(max_iter=1000).fit(design[train], rows.reward[train])
        assert found.q_taken[test] == pytest.approx(model.predict_proba(design[test])[:, 1])


def test_products_let_the_model_see_which_plan_suits_which_context():
    rng = np.random.default_rng(3)
    n = 3000
    context = rng.normal(size=(n, 1))
    action = rng.integers(0, 2, n)
    chance = 1 / (1 + np.exp(-3 * context[:, 0] * (2 * action - 1)))
    rows = RewardRows(
        context=context, plans=np.array([[0.0], [1.0]]), action=action,
        reward=(rng.random(n) < chance).astype(float), reward_range=(0.0, 1.0),
        units=units_of(None, n), ts=np.arange(n).astype("datetime64[s]"),
    )  # fmt: skip
    best = (context[:, 0] > 0).astype(int)
    seeing = cross_fit(rows, RewardModelSpec()).q_all.argmax(axis=1)
    blind = cross_fit(rows, RewardModelSpec(products=False)).q_all.argmax(axis=1)
    assert (seeing == best).mean() > 0.95
    assert (blind == best).mean() < 0.6


def test_rewards_of_one_kind_give_a_constant_and_no_crash():
    found = cross_fit(sample(reward=np.ones(300)), RewardModelSpec())
    assert (found.q_all == 1).all()
    assert found.n_constant == 3


def test_rewards_between_give_ridge_predictions_within_the_range():
    rng = np.random.default_rng(0)
    found = cross_fit(sample(reward=rng.random(300)), RewardModelSpec())
    assert "ridge" in found.source
    assert found.q_all.min() >= 0
    assert found.q_all.max() <= 1
    wild = cross_fit(sample(reward=rng.integers(0, 2, 300) * 0.999), RewardModelSpec())
    assert wild.q_all.min() >= 0


def test_each_value_of_the_column_gets_a_model_of_its_own():
    group = np.arange(300) % 2
    rows = sample(group=group)
    found = cross_fit(rows, RewardModelSpec(reward_by="position"))
    reward = rows.reward.copy()
    reward[group == 1] = 0
    only = cross_fit(sample(group=group, reward=reward), RewardModelSpec(reward_by="position"))
    assert (only.q_all[group == 0] == found.q_all[group == 0]).all()
    assert (only.q_all[group == 1] == 0).all()
    assert "one per value of position" in found.source


def test_a_value_that_only_held_out_rows_have_borrows_the_others_mean():
    group = np.zeros(300, dtype=int)
    group[0] = 1
    found = cross_fit(sample(group=group), RewardModelSpec())
    assert 0 < found.q_all[0, 0] < 1
    assert np.ptp(found.q_all[0]) == 0


def test_rows_count_by_the_decisions_they_stand_for():
    rows = sample()
    weight = np.where(rows.reward == 1, 1.0, 10.0)
    found = cross_fit(sample(weight=weight), RewardModelSpec())
    assert found.q_taken.mean() < cross_fit(rows, RewardModelSpec()).q_taken.mean()


def test_calibration_compares_predictions_with_what_came():
    predicted = np.repeat([0.1, 0.9], 50)
    exact = calibrate(np.tile([0] * 9 + [1], 5).tolist() + [1] * 45 + [0] * 5, predicted)
    assert exact.error == pytest.approx(0, abs=0.2)
    off = calibrate(np.zeros(100), predicted)
    assert (off.mean_predicted, off.mean_observed) == pytest.approx((0.5, 0))
    assert off.error == pytest.approx(0.5)
    assert sum(each.n for each in off.bins) == 100


def test_numbers_are_standardised_and_a_missing_one_is_said():
    found = encode_context({"age": np.array([1.0, 3.0, np.nan])}, 3)
    assert found == pytest.approx(np.array([[-1, 0], [1, 0], [0, 1]]))
    assert encode_context({"same": np.array([2.0, 2.0])}, 2) == pytest.approx(np.zeros((2, 1)))


def test_categories_leave_out_the_first_level_and_keep_missing_apart():
    cells = np.array(["b", "a", None, "c"], dtype=object)
    assert encode_context({"x": cells}, 4).tolist() == [
        [1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0],
    ]  # fmt: skip


def test_booleans_lists_and_times_are_read_as_what_they_are():
    lists = np.empty(3, dtype=object)
    lists[:] = [["x", "y"], [], None]
    flags = np.array([True, None, False], dtype=object)
    times = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], dtype="datetime64[us]")
    found = encode_context({"flags": flags, "words": lists, "when": times}, 3)
    assert found.shape == (3, 2 + 2 + 1)
    assert found[0, 2:4].tolist() == [1, 1]
    assert found[1:, 2:4].tolist() == [[0, 0], [0, 0]]


def test_rare_levels_share_one_column():
    cells = np.array([f"level {i}" for i in range(200)], dtype=object)
    assert encode_context({"x": cells}, 200).shape == (200, MAX_LEVELS)


def test_plans_are_encoded_by_level_or_by_position():
    catalog = parse_catalog(CATALOG)
    one_hot = encode_plans(catalog.plan_ids, catalog)
    assert one_hot.shape == (6, 2 + 1 + 1)
    ordinal = encode_plans(catalog.plan_ids, catalog, PlanEncoding.ORDINAL, ["size", "tone"])
    assert ordinal[-1].tolist() == [1, 2, 3]
    # A plan without the attribute takes the mean of those that have it.
    assert ordinal[1].tolist() == [1, 0, 2]
    assert encode_plans(["p", "q"], None).tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("catalog", "encoding", "factors", "message"),
    [
        (CATALOG, "one-hot", ["color"], "no factor 'color'.*tone, size"),
        (None, "ordinal", None, "no catalog"),
        (None, "one-hot", ["tone"], "no catalog"),
    ],
)
def test_an_impossible_encoding_raises(catalog, encoding, factors, message):
    parsed = None if catalog is None else parse_catalog(catalog)
    with pytest.raises(ConfigError, match=message):
        encode_plans(["tone=plain,size=short"], parsed, PlanEncoding(encoding), factors)
