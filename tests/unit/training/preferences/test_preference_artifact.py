"""From verdicts to an artifact: what it says, how it is read back, and what is not pooled."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from canopy.domain.errors import ArtifactError, InputError, RangeError
from training.preferences.artifact import ARRAYS, DOCUMENT, load_preferences, save_preferences
from training.preferences.comparisons import ScaleKind
from training.preferences.fitting import (
    FitSettings,
    Origin,
    fit_preferences,
    parse_objection,
    pool_preferences,
    preferences_of,
)
from training.preferences.pair_table import PairTable
from training.preferences.report_html import page_html

SETTINGS = FitSettings(n_resamples=50)


def pairs_of(seed=0, *, n=120, items="wxyz", judges=("j1", "j2"), **columns):
    rng = np.random.default_rng(seed)
    strength = dict(zip(items, np.linspace(1, -1, len(items)), strict=True))
    rows = []
    for k in range(n):
        a, b = rng.choice(list(items), 2, replace=False)
        z = strength[a] - strength[b]
        words = [
            "tie" if rng.random() < 0.1 else "a" if rng.random() < 1 / (1 + np.exp(-z + s)) else "b"
            for s in (-0.4, 0.4)
        ]
        rows.append((a, b, *words, judges[k % len(judges)], f"p{k % 15}"))
    a, b, ab, ba, judge, cluster = zip(*rows, strict=True)
    return PairTable.of(a, b, ab, ba, judge=judge, cluster=cluster, **columns)


FAMILIES = {"j1": "f1", "j2": "human"}


def preferences(seed=0, *, settings=SETTINGS, families=FAMILIES, rubric="r1", **columns):
    found = fit_preferences(pairs_of(seed, **columns), settings, families=families)
    return preferences_of(found, Origin(rubrics=(rubric,)))


def test_what_is_written_is_what_is_read(tmp_path):
    made = preferences()
    save_preferences(made, tmp_path / "p")
    read = load_preferences(tmp_path / "p")
    assert read.document == made.document
    for name, array in made.arrays.items():
        assert np.array_equal(read.arrays[name], array, equal_nan=array.dtype.kind == "f")
    assert (read.status, read.scale_kind) == ("connected", ScaleKind.SWAP_SURVIVOR)
    assert read.lineage.judges == {"f1", "human"}
    assert read.tally.wins.sum() == read.document["n_comparisons"]


def test_the_same_verdicts_give_the_same_artifact_and_others_another():
    assert preferences().artifact_id == preferences().artifact_id
    assert preferences(1).artifact_id != preferences().artifact_id
    assert preferences(rubric="r2").artifact_id != preferences().artifact_id


def test_a_folder_is_written_once_and_holds_nothing_else(tmp_path):
    save_preferences(preferences(), tmp_path / "p")
    save_preferences(preferences(), tmp_path / "p")
    with pytest.raises(ArtifactError, match="holds something else"):
        save_preferences(preferences(1), tmp_path / "p")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (DOCUMENT, lambda raw: raw.replace(b'"connected"', b'"separated"'), "was altered"),
        (DOCUMENT, lambda raw: raw + b" ", "was altered"),
        (DOCUMENT, lambda raw: b"{}", "holds no preferences"),
        (DOCUMENT, lambda raw: b"[" * 9, "holds no preferences"),
        (DOCUMENT, lambda raw: raw.replace(b'version": 1', b'version": 9'), "format version 9"),
        (ARRAYS, lambda raw: raw[:-1] + b"\x01", "is not the file"),
    ],
    ids=["word", "space", "empty", "depth", "version", "array"],
)
def test_an_altered_artifact_is_not_read(tmp_path, name, change, message):
    save_preferences(preferences(), tmp_path / "p")
    path = tmp_path / "p" / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ArtifactError, match=message):
        load_preferences(tmp_path / "p")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ArtifactError, match=r"preferences\.json: cannot be read"):
        load_preferences(tmp_path)


def test_it_says_what_it_rests_on():
    document = preferences().document
    counts = document["counts"]
    assert document["n_pairs"] == sum(counts.values()) == 120
    assert document["n_comparisons"] == counts["a"] + counts["b"]
    readable = document["n_comparisons"] + counts["swap_tie"] + counts["judge_tie"]
    assert document["survival"] == pytest.approx(document["n_comparisons"] / readable)
    assert [judge["judge"] for judge in document["judges"]] == ["j1", "j2"]
    assert document["order_bias"]["first_both"] == sum(
        judge["first_both"] for judge in document["judges"]
    )
    ranked = [facts["score"] for facts in document["items"]]
    assert ranked == sorted(ranked, reverse=True)
    for facts in document["items"]:
        low, high = facts["interval"]
        assert low < facts["score"] < high
        best, worst = facts["rank_range"]
        assert 1 <= best <= worst <= 4
    json.dumps(document, allow_nan=False)


def test_a_judge_without_a_family_is_an_unknown_one():
    assert preferences(families={"j1": "f1"}).lineage.judges == {"f1", "unknown:j2"}


def test_a_family_of_nobody_is_an_error():
    with pytest.raises(InputError, match=r"'j9'.*names no judge"):
        fit_preferences(pairs_of(), SETTINGS, families={"j9": "f"})


def test_an_item_whose_pairs_mostly_die_is_undetermined():
    pairs = PairTable.of(
        ["x", "x", "y"] * 4, ["y", "z", "z"] * 4,
        ["a", "a", "a"] * 3 + ["b", "a", "b"], ["a", "b", "b"] * 3 + ["b", "b", "a"],
    )  # fmt: skip
    found = preferences_of(fit_preferences(pairs, SETTINGS), Origin())
    by_item = {facts["item"]: facts for facts in found.document["items"]}
    assert by_item["z"]["survival"] == 0
    assert by_item["z"]["is_undetermined"]
    assert by_item["z"]["score"] is None
    assert not by_item["x"]["is_undetermined"]


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([("x", "y", "a", "b")], "no_data"),
        ([("x", "y", "", "")], "no_data"),
        ([("x", "y", "a", "a")], "separated"),
        ([("x", "y", "a", "a"), ("x", "y", "b", "b"), ("u", "v", "a", "a")], "disconnected"),
    ],
)
def test_whatever_the_status_there_is_an_artifact_and_a_page(tmp_path, rows, status):
    found = preferences_of(
        fit_preferences(PairTable.of(*zip(*rows, strict=True)), SETTINGS), Origin()
    )
    assert found.status == status
    save_preferences(found, tmp_path / "p")
    assert load_preferences(tmp_path / "p").artifact_id == found.artifact_id
    assert status in page_html(found)


def test_pooling_two_artifacts_counts_both(tmp_path):
    first, second = preferences(0), preferences(1)
    pooled = pool_preferences(first, second)
    assert pooled.document["n_comparisons"] == (
        first.document["n_comparisons"] + second.document["n_comparisons"]
    )
    assert pooled.tally.wins.tolist() == (
        first.tally.aligned(sorted(first.items)).wins
        + second.tally.aligned(sorted(second.items)).wins
    ).tolist()  # fmt: skip
    # Which clusters the counts belong to is lost, and with it the clustered intervals.
    assert pooled.document["n_clusters"] is None
    assert all(facts["interval"] is None for facts in pooled.document["items"])
    assert all(facts["fisher_interval"] for facts in pooled.document["items"])


def test_different_scales_are_not_one():
    single = pairs_of(5)
    single = replace(single, verdict_ba=np.full(len(single), 4, np.int8))
    found = fit_preferences(single, replace(SETTINGS, scale_kind=ScaleKind.SINGLE_VERDICT))
    other = preferences_of(found, Origin(rubrics=("r1",)))
    with pytest.raises(InputError, match="swap_survivor here and single_verdict there"):
        pool_preferences(preferences(), other)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"rubric": "r2"}, "rubrics"),
        ({"settings": replace(SETTINGS, prior=1.0)}, "prior"),
    ],
)
def test_what_was_judged_otherwise_is_not_pooled(second, message):
    with pytest.raises(InputError, match=message):
        pool_preferences(preferences(), preferences(1, **second))


def test_the_same_verdicts_are_not_counted_twice():
    with pytest.raises(InputError, match="are in both"):
        pool_preferences(preferences(), preferences(settings=replace(SETTINGS, level=0.9)))


def test_too_many_unreadable_verdicts_are_objected_to_by_judge_and_order():
    pairs = PairTable.of(["x"] * 10, ["y"] * 10, [""] * 2 + ["a"] * 8, ["a"] * 10, judge=["m"] * 10)
    counts = fit_preferences(pairs, SETTINGS).tally
    assert parse_objection(counts, 0.2) is None
    assert "20.0% of the verdicts of 'm' with item a first" in parse_objection(counts, 0.19)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"max_unparsed": 1.5}, RangeError, "share from 0 to 1"),
        ({"scale_kind": ScaleKind.ORDER_EFFECT}, InputError, "fitted beside"),
        ({"ties": "half"}, InputError, "never half a win"),
    ],
)
def test_settings_that_cannot_be_are_errors(settings, error, message):
    with pytest.raises(error, match=message):
        FitSettings(**settings)


def test_a_page_loads_nothing_and_escapes_names():
    pairs = pairs_of(items=["<b>x", "y", "z"])
    page = page_html(preferences_of(fit_preferences(pairs, SETTINGS), Origin()))
    assert "&lt;b&gt;x" in page
    assert "<b>x" not in page
    assert not re.search(r"<(script|link|img|iframe)|(src|href)=.http", page)
    assert page == page_html(preferences_of(fit_preferences(pairs, SETTINGS), Origin()))
