"""`canopy judge label`: gold labels by people, blind, in the terminal."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canopy.domain.errors import InputError
from canopy.output import emit_facts, emit_json, emit_table, json_option, note

if TYPE_CHECKING:
    from eval.labelling.items import Item
    from eval.labelling.session import Sitting

_PATH = click.Path(path_type=Path)
_scale_option = click.option(
    "--scale", metavar="LABELS", help="Texts: every label, in order, comma-separated: 1,2,3,4,5."
)
_pairs_option = click.option("--pairs", is_flag=True, help="Pairs: choose the better of two texts.")


@click.command("run")
@click.argument("items", type=_PATH)
@click.option("--rater", required=True, help="Who rates.")
@click.option("--labels", required=True, type=_PATH, help="File that labels are added to.")
@_pairs_option
@_scale_option
@click.option("--question", help="What is asked of each item.")
@click.option("--seed", default=1, show_default=True, help="Of the order of items and sides.")
@click.option("--limit", type=int, help="Labels to give in this sitting.")
@click.option("--repair", is_flag=True, help="Cut off a last line that a crash has torn.")
@json_option
def label_run(
    *,
    items: Path,
    rater: str,
    labels: Path,
    pairs: bool,
    scale: str | None,
    question: str | None,
    seed: int,
    limit: int | None,
    repair: bool,
    as_json: bool,
) -> None:
    """Label ITEMS (CSV), one after the other, seeing neither names nor anybody's labels.

    ITEMS has the columns item_id and text, or for pairs pair_id, item_a, item_b, text_a and
    text_b; prompt and cluster may stand beside. Every rater has an order of its own, and sees
    the texts of a pair in an order drawn for it. Each answer is on disk before the next item is
    shown; a sitting that is broken off goes on where it stopped.
    """
    from eval.labelling.items import read_items  # noqa: PLC0415 - only this command reads
    from eval.labelling.labels import read_labels  # noqa: PLC0415 - as above
    from eval.labelling.session import Sitting  # noqa: PLC0415 - as above

    kind, words = _kind(scale, pairs=pairs)
    sitting = Sitting.of(read_items(items, kind), kind=kind, scale=words, rater=rater, seed=seed)
    said = read_labels(labels, repair=repair)
    left = sitting.left(said)
    asked = question or (
        "Which text is better?" if kind == "pair" else f"How good is it, {words[0]} to {words[-1]}?"
    )
    n_given = _sit(sitting, left, labels, asked, len(left) if limit is None else limit)
    n_left = len(sitting.left(read_labels(labels)))
    document = {"rater": rater, "n_given": n_given, "n_left": n_left, "labels": str(labels)}
    if as_json:
        emit_json(document)
    else:
        emit_facts("This sitting", document)


def _sit(sitting: "Sitting", left: list["Item"], labels: Path, question: str, limit: int) -> int:
    """Ask until nothing is left, enough is given, or the rater stops; how many were given."""
    from eval.labelling.labels import Label, append_labels  # noqa: PLC0415 - as its caller

    given: list[Item] = []
    place = 0
    while place < len(left) and len(given) < limit:
        item = left[place]
        answer = _ask(sitting, item, question, place + 1, len(left))
        if answer == "quit":
            break
        if answer == "back":
            if not given:
                note("There is nothing to take back in this sitting.")
                continue
            last = given.pop()
            append_labels(labels, [sitting.retraction(last)])
            place = left.index(last)
            continue
        if isinstance(answer, Label):
            append_labels(labels, [answer])
            given.append(item)
        place += 1
    return len(given)


def _ask(sitting: "Sitting", item: "Item", question: str, number: int, n: int) -> Any:
    """Show an item and read an answer; the end of the input is the end of the sitting."""
    note(f"\n—— {number} of {n} " + "—" * 50)
    if item.prompt is not None:
        note(f"\n{item.prompt}")
    texts = sitting.texts(item)
    for place, text in enumerate(texts, 1):
        note(f"\n[{place}]\n{text}" if len(texts) > 1 else f"\n{text}")
    choices = "/".join(sitting.choices())
    while True:
        try:
            typed = click.prompt(
                f"\n{question} {choices}, s skip, b back, q quit", prompt_suffix=": ", err=True
            )
        except click.Abort:
            return "quit"
        answer = sitting.answer(item, typed)
        if answer is not None:
            return answer
        note(f"{typed!r} is no answer: {choices}, s, b or q.")


@click.command("import")
@click.argument("labels", type=_PATH)
@click.option("--from", "source_file", required=True, type=_PATH, help="CSV file of labels.")
@click.option("--rater", required=True, help="Who gave them.")
@click.option("--date", required=True, metavar="YYYY-MM-DD", help="When.")
@click.option(
    "--source", required=True, type=click.Choice(["human", "authored", "model"]),
    help="A person who rated, whoever wrote the item, or a model. Only human labels clear.",
)  # fmt: skip
@click.option("--id", "id_column", default="id", show_default=True, metavar="COLUMN")
@click.option("--label", "label_column", default="label", show_default=True, metavar="COLUMN")
@click.option("--cluster", "cluster_column", metavar="COLUMN", help="What items belong to.")
@_pairs_option
@_scale_option
@json_option
def label_import(
    *,
    labels: Path,
    source_file: Path,
    rater: str,
    date: str,
    source: str,
    id_column: str,
    label_column: str,
    cluster_column: str | None,
    pairs: bool,
    scale: str | None,
    as_json: bool,
) -> None:
    """Bring labels made elsewhere into LABELS: all of a file, or none.

    A pair's label is the winning item: a, b or tie. A blank label is none.

    Raises:
        InputError: If a label is not of the scale, an item is there twice, or this rater has
            said something else of it.
    """
    from eval.agreement.rating_files import read_columns  # noqa: PLC0415 - only this command reads
    from eval.labelling.labels import (  # noqa: PLC0415 - as above
        Label,
        append_labels,
        read_labels,
        standing,
    )

    kind, words = _kind(scale, pairs=pairs)
    names = [id_column, label_column, *([cluster_column] if cluster_column else [])]
    columns = read_columns(source_file, names)
    said = standing(read_labels(labels))
    added: dict[str, Label] = {}
    seen: set[str] = set()
    for number, (item, word, *cluster) in enumerate(zip(*columns, strict=True), 1):
        place = f"{source_file}, row {number}"
        if not word:
            continue
        if not item or item in seen:
            raise InputError(
                f"{place}, column {id_column}",
                f"{item!r} is blank or there twice.",
                "Name it once.",
            )
        if word not in words:
            raise InputError(
                f"{place}, column {label_column}", f"{word!r} is not of {', '.join(words)}.",
                "Correct it, or leave it blank where it is missing.",
            )  # fmt: skip
        seen.add(item)
        before = said.get((rater, item))
        if before is not None and before.label != word:
            raise InputError(
                place, f"{rater!r} said {before.label!r} of {item!r} before.", "Take one of them."
            )
        if before is not None:
            continue
        added[item] = Label(
            id=item, kind=kind, label=word, shown_first=None, rater=rater, date=date,
            source=source, scale=words, content=None, cluster=cluster[0] if cluster else item,
        )  # fmt: skip
    append_labels(labels, added.values())
    document = {"n_added": len(added), "n_known": len(seen) - len(added), "labels": str(labels)}
    if as_json:
        emit_json(document)
    else:
        emit_facts("Imported", document)


@click.command("export")
@click.argument("labels", type=_PATH)
@click.option("--out", required=True, type=_PATH, help="CSV file to write.")
@click.option("--rows", is_flag=True, help="One row per label instead of one per item.")
@json_option
def label_export(*, labels: Path, out: Path, rows: bool, as_json: bool) -> None:
    """Write LABELS as a table, ready for `canopy judge agreement`.

    Raises:
        InputError: If there are no labels.
    """
    from eval.labelling.labels import (  # noqa: PLC0415 - only this command reads
        long_rows,
        read_labels,
        standing,
        wide_rows,
    )

    found = standing(read_labels(labels))
    if not found:
        raise InputError(
            str(labels), "holds no labels.", "Give some with `canopy judge label run`."
        )
    table = long_rows(found) if rows else wide_rows(found)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    from eval.labelling.labels import write_whole  # noqa: PLC0415 - as above

    write_whole(out, text.getvalue())
    document = {"n_rows": len(table) - 1, "columns": table[0], "out": str(out)}
    if as_json:
        emit_json(document)
    else:
        emit_facts("Exported", {**document, "columns": ", ".join(table[0])})


@click.command("status")
@click.argument("labels", type=_PATH)
@json_option
def label_status(*, labels: Path, as_json: bool) -> None:
    """Say how far raters are, and how many items two of them share."""
    from eval.labelling.labels import (  # noqa: PLC0415 - only this command reads
        read_labels,
        standing,
        summary,
    )

    document = summary(standing(read_labels(labels)))
    if as_json:
        emit_json(document)
        return
    emit_table(
        "Labels",
        ("rater", "labels", "sources", "from", "to"),
        [
            (r["rater"], r["n_labels"], ", ".join(r["sources"]), r["dated_from"], r["dated_to"])
            for r in document["raters"]
        ],
        caption=f"{document['n_items']} items, {document['n_shared']} by two raters or more.",
    )


def _kind(scale: str | None, *, pairs: bool) -> tuple[Any, tuple[str, ...]]:
    """What is labelled, and on which scale.

    Raises:
        InputError: Unless exactly one of both is asked for.
    """
    from eval.labelling.session import PAIR_SCALE  # noqa: PLC0415 - as its callers

    if pairs is (scale is not None):
        raise InputError(
            "canopy judge label", "labels pairs or a scale.", "Give --pairs or --scale 1,2,3,4,5."
        )
    if scale is None:
        return "pair", PAIR_SCALE
    return "scale", tuple(word.strip() for word in scale.split(","))
