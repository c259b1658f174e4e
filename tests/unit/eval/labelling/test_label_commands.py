"""`canopy judge label`, as two raters use it."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from canopy.domain.errors import InputError
from eval.agreement import kappa
from eval.agreement.gold import read_provenance
from eval.agreement.rating_files import read_ratings
from eval.label_cli import label_export, label_import, label_run, label_status
from eval.labelling.items import in_order, read_items, shown_first
from eval.labelling.labels import read_labels, standing

N = 12


def run(command, *words, typed=""):
    return CliRunner().invoke(command, [str(word) for word in words], input=typed)


@pytest.fixture
def scale_items(tmp_path):
    path = tmp_path / "items.csv"
    rows = [f"i{k},text of {k},doc{k // 3}" for k in range(N)]
    path.write_text("item_id,text,cluster\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def pair_items(tmp_path):
    path = tmp_path / "pairs.csv"
    rows = [f"p{k},model-x,model-y,ALPHA {k},BETA {k},question {k}" for k in range(N)]
    path.write_text("pair_id,item_a,item_b,text_a,text_b,prompt\n" + "\n".join(rows) + "\n")
    return path


def rate(items, labels, rater, typed, *more):
    return run(label_run, items, "--rater", rater, "--labels", labels, *more, typed=typed)


def test_every_answer_is_a_label_with_rater_date_and_source(tmp_path, scale_items):
    labels = tmp_path / "labels.jsonl"
    found = rate(scale_items, labels, "ann", "1\n2\n3\nq\n", "--scale", "1,2,3", "--json")
    document = json.loads(found.stdout)
    assert (document["n_given"], document["n_left"]) == (3, N - 3)
    said = read_labels(labels)
    assert [one.label for one in said] == ["1", "2", "3"]
    assert {(one.rater, one.source) for one in said} == {("ann", "human")}
    assert all(one.date.endswith("+00:00") for one in said)
    assert [one.id for one in said] == [
        item.id for item in in_order(read_items(scale_items, "scale"), "ann", 1)[:3]
    ]


def test_a_sitting_goes_on_where_it_stopped_in_the_same_order(tmp_path, scale_items):
    labels = tmp_path / "labels.jsonl"
    rate(scale_items, labels, "ann", "1\n" * 4 + "q\n", "--scale", "1,2")
    rate(scale_items, labels, "ann", "2\n" * N, "--scale", "1,2")
    said = read_labels(labels)
    assert [one.id for one in said] == [
        item.id for item in in_order(read_items(scale_items, "scale"), "ann", 1)
    ]
    assert [one.label for one in said] == ["1"] * 4 + ["2"] * (N - 4)
    done = rate(scale_items, labels, "ann", "", "--scale", "1,2", "--json")
    assert json.loads(done.stdout) == {
        "rater": "ann", "n_given": 0, "n_left": 0, "labels": str(labels),
    }  # fmt: skip


def test_a_rater_sees_neither_names_nor_what_others_said(tmp_path, pair_items):
    labels = tmp_path / "labels.jsonl"
    rate(pair_items, labels, "ann", "1\n" * N, "--pairs")
    shown = rate(pair_items, labels, "bo", "2\n" * N, "--pairs").output
    for hidden in ("model-x", "model-y", "ann", "p3"):
        assert hidden not in shown
    assert "question 3" in shown


def test_the_label_names_the_item_and_not_the_side(tmp_path, pair_items):
    labels = tmp_path / "labels.jsonl"
    found = rate(pair_items, labels, "ann", "1\n" * N, "--pairs")
    items = {item.id: item for item in read_items(pair_items, "pair")}
    said = read_labels(labels)
    assert {one.label for one in said} == {"a", "b"}
    for one in said:
        assert one.label == one.shown_first == shown_first(items[one.id], "ann", 1)
    # The text that was shown first is the winner's.
    shown = found.output.split("of 12")[1]
    first = said[0]
    assert shown.index("ALPHA" if first.shown_first == "a" else "BETA") < shown.index(
        "BETA" if first.shown_first == "a" else "ALPHA"
    )


def test_raters_see_other_orders_and_other_sides(pair_items):
    items = read_items(pair_items, "pair")
    orders = {who: [item.id for item in in_order(items, who, 1)] for who in ("ann", "bo")}
    assert orders["ann"] != orders["bo"]
    assert sorted(orders["ann"]) == sorted(orders["bo"])
    sides = {who: [shown_first(item, who, 1) for item in items] for who in ("ann", "bo")}
    assert sides["ann"] != sides["bo"]


def test_sides_are_a_fair_coin(tmp_path):
    path = tmp_path / "many.csv"
    rows = [f"p{k},x,y,one,two" for k in range(2_000)]
    path.write_text("pair_id,item_a,item_b,text_a,text_b\n" + "\n".join(rows) + "\n")
    first = [shown_first(item, "ann", 1) for item in read_items(path, "pair")]
    assert abs(first.count("a") - 1_000) < 3 * np.sqrt(500)


def test_an_answer_is_taken_back_by_a_line_and_nothing_is_rewritten(tmp_path, scale_items):
    labels = tmp_path / "labels.jsonl"
    found = rate(scale_items, labels, "ann", "1\nb\n2\nq\n", "--scale", "1,2", "--json")
    assert json.loads(found.stdout)["n_given"] == 1
    said = read_labels(labels)
    assert [one.label for one in said] == ["1", None, "2"]
    (kept,) = standing(said).values()
    assert kept.label == "2"
    early = rate(scale_items, tmp_path / "other.jsonl", "ann", "b\nq\n", "--scale", "1,2")
    assert "nothing to take back" in early.output


def test_skipping_stores_nothing_and_nonsense_is_asked_again(tmp_path, scale_items):
    labels = tmp_path / "labels.jsonl"
    found = rate(scale_items, labels, "ann", "s\n9\n2\nq\n", "--scale", "1,2")
    assert "'9' is no answer" in found.output
    assert [one.label for one in read_labels(labels)] == ["2"]


def test_a_limit_ends_the_sitting(tmp_path, scale_items):
    labels = tmp_path / "labels.jsonl"
    words = ("--scale", "1,2", "--limit", "2", "--json")
    assert json.loads(rate(scale_items, labels, "ann", "1\n" * N, *words).stdout)["n_given"] == 2


def test_a_torn_line_is_told_and_cut_only_on_request(tmp_path, scale_items):
    labels = tmp_path / "labels.jsonl"
    rate(scale_items, labels, "ann", "1\n2\n1\nq\n", "--scale", "1,2")
    labels.write_bytes(labels.read_bytes()[:-20])
    found = rate(scale_items, labels, "ann", "q\n", "--scale", "1,2")
    assert "ends within a line" in str(found.exception)
    assert rate(scale_items, labels, "ann", "q\n", "--scale", "1,2", "--repair").exit_code == 0
    assert [one.label for one in read_labels(labels)] == ["1", "2"]


def test_a_changed_text_is_another_item(tmp_path, scale_items):
    labels = tmp_path / "labels.jsonl"
    rate(scale_items, labels, "ann", "1\n" * N, "--scale", "1,2")
    scale_items.write_text(scale_items.read_text().replace("text of 5", "changed"))
    found = rate(scale_items, labels, "ann", "q\n", "--scale", "1,2")
    assert "item 'i5': has other texts than when it was labelled" in str(found.exception)


def test_two_raters_export_what_agreement_reads(tmp_path, scale_items):
    labels, out = tmp_path / "labels.jsonl", tmp_path / "gold.csv"
    rate(scale_items, labels, "ann", "1\n2\n3\n" * 4, "--scale", "1,2,3")
    rate(scale_items, labels, "bo", "1\n" * 6 + "3\n" * 6, "--scale", "1,2,3")
    found = run(label_export, labels, "--out", out, "--json")
    assert json.loads(found.stdout)["n_rows"] == N
    read = read_ratings(out, ("ann", "bo"), (1, 2, 3), "cluster")
    assert kappa(*read.ratings, (1, 2, 3)).value is not None
    said = standing(read_labels(labels))
    with out.open() as lines:
        for row in csv.DictReader(lines):
            assert row["ann"] == said["ann", row["id"]].label
    people = read_provenance(out, "bo")
    assert (people.raters, all(people.is_human)) == (("bo",), True)


def test_labels_are_exported_one_by_one_too(tmp_path, scale_items):
    labels, out = tmp_path / "labels.jsonl", tmp_path / "rows.csv"
    rate(scale_items, labels, "ann", "1\n2\nq\n", "--scale", "1,2")
    run(label_export, labels, "--out", out, "--rows")
    with out.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["label"], row["rater"], row["source"]) for row in rows] != []
    assert set(rows[0]) == {"id", "cluster", "label", "rater", "date", "source"}


def test_status_says_how_far_raters_are(tmp_path, scale_items):
    labels = tmp_path / "labels.jsonl"
    rate(scale_items, labels, "ann", "1\n" * N, "--scale", "1,2")
    rate(scale_items, labels, "bo", "1\n2\nq\n", "--scale", "1,2")
    document = json.loads(run(label_status, labels, "--json").stdout)
    assert [(r["rater"], r["n_labels"]) for r in document["raters"]] == [("ann", N), ("bo", 2)]
    assert (document["n_items"], document["n_shared"]) == (N, 2)
    assert "2 by two raters" in run(label_status, labels).stdout


class TestImport:
    def bring(self, tmp_path, text, *more, rater="cy", source="authored"):
        path = tmp_path / "made.csv"
        path.write_text(text)
        return run(
            label_import, tmp_path / "labels.jsonl", "--from", path, "--rater", rater, "--date",
            "2026-05-01", "--source", source, "--scale", "1,2,3", "--json", *more,
        )  # fmt: skip

    def test_labels_made_elsewhere_keep_their_source(self, tmp_path):
        assert json.loads(self.bring(tmp_path, "id,label\nx,1\ny,\nz,3\n").stdout)["n_added"] == 2
        said = read_labels(tmp_path / "labels.jsonl")
        assert [(one.id, one.label, one.source, one.date) for one in said] == [
            ("x", "1", "authored", "2026-05-01"), ("z", "3", "authored", "2026-05-01"),
        ]  # fmt: skip
        run(label_export, tmp_path / "labels.jsonl", "--out", tmp_path / "g.csv")
        assert read_provenance(tmp_path / "g.csv", "cy").is_human == (False, False)

    def test_the_same_again_adds_nothing(self, tmp_path):
        self.bring(tmp_path, "id,label\nx,1\n")
        document = json.loads(self.bring(tmp_path, "id,label\nx,1\nz,2\n").stdout)
        assert (document["n_added"], document["n_known"]) == (1, 1)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("id,label\nx,1\ny,9\n", "row 2, column label: '9' is not of 1, 2, 3"),
            ("id,label\nx,1\nx,2\n", "row 2, column id: 'x' is blank or there twice"),
            ("id,label\n,1\n", "row 1, column id: '' is blank"),
            ("id,mark\nx,1\n", "has no column 'label'"),
            ("id,label\nq,1\nx,2\n", "row 2: 'cy' said '1' of 'x' before"),
        ],
    )
    def test_a_fault_brings_nothing(self, tmp_path, text, message):
        self.bring(tmp_path, "id,label\nx,1\n")
        before = (tmp_path / "labels.jsonl").read_bytes()
        found = self.bring(tmp_path, text)
        assert isinstance(found.exception, InputError)
        assert message in str(found.exception)
        assert (tmp_path / "labels.jsonl").read_bytes() == before

    def test_a_date_that_is_none_is_an_error(self, tmp_path):
        found = self.bring(tmp_path, "id,label\nx,1\n", "--date", "yesterday")
        assert "'yesterday' is no date" in str(found.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rater", " ", "--pairs"), "' ' is no name"),
        (("--rater", "a,b", "--pairs"), "'a,b' is no name"),
        (("--rater", "authored", "--pairs"), "names nobody"),
        (("--rater", "ann"), "labels pairs or a scale"),
        (("--rater", "ann", "--pairs", "--scale", "1,2"), "labels pairs or a scale"),
        (("--rater", "ann", "--scale", "1,2"), "has no single column 'item_id'"),
    ],
)
def test_a_sitting_that_cannot_be_is_an_error(tmp_path, pair_items, words, message):
    found = run(label_run, pair_items, "--labels", tmp_path / "l.jsonl", *words)
    assert isinstance(found.exception, InputError)
    assert message in str(found.exception)
    assert not (tmp_path / "l.jsonl").exists()


@pytest.mark.parametrize("scale", ["1", "1,1", "s,m,l", "1,b"])
def test_a_scale_has_labels_that_can_be_typed(tmp_path, scale_items, scale):
    found = rate(scale_items, tmp_path / "l.jsonl", "ann", "", "--scale", scale)
    assert "is no scale" in str(found.exception)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("p,x,x,one,two", "row 1: has the same item_a and item_b"),
        ("p,x,y,one,one", "row 1: has the same text_a and text_b"),
        ("p,x,y,,two", "row 1, column text_a: is blank"),
        ("p,x,y,one,two\np,x,z,one,three", "row 2: 'p' is there twice"),
        ("p,x,y,one", "row 1: has 4 cells"),
    ],
)
def test_items_that_cannot_be_labelled_are_errors(tmp_path, rows, message):
    path = tmp_path / "p.csv"
    path.write_text(f"pair_id,item_a,item_b,text_a,text_b\n{rows}\n")
    with pytest.raises(InputError, match=r"^.*p\.csv") as caught:
        read_items(path, "pair")
    assert message in str(caught.value)


def test_a_line_that_is_no_label_is_named(tmp_path, scale_items):
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"id": "x"}\n')
    with pytest.raises(InputError, match=r"labels\.jsonl:1: is no label"):
        read_labels(labels)
    assert "holds no labels" in str(
        run(label_export, tmp_path / "none.jsonl", "--out", tmp_path / "o.csv").exception
    )
