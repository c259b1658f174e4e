"""What is labelled: texts to rate on a scale, or pairs of texts to choose from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from canopy.domain.errors import InputError
from canopy.domain.ids import canonical_json, content_hash, unit_fraction
from eval.agreement.rating_files import read_table

Kind = Literal["pair", "scale"]
Side = Literal["a", "b"]

COLUMNS: Final[dict[Kind, tuple[str, ...]]] = {
    "pair": ("pair_id", "item_a", "item_b", "text_a", "text_b"),
    "scale": ("item_id", "text"),
}
"""What a file of items must have; `prompt` and `cluster` may stand beside."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to label.

    Attributes:
        id: Its name, which no rater sees.
        texts: The text, or both texts of a pair, item a's first.
        prompt: What the texts answer; None where nothing is shown.
        cluster: What it belongs to.
    """

    id: str
    texts: tuple[str, ...]
    prompt: str | None
    cluster: str

    @property
    def content(self) -> str:
        """Content hash of what a rater reads: a label holds for that and nothing else."""
        return content_hash(canonical_json([self.prompt, *self.texts]))


def read_items(path: Path, kind: Kind) -> tuple[Item, ...]:
    """The items of a CSV file.

    Args:
        path: The file, in UTF-8, with the columns of `COLUMNS`.
        kind: What it holds.

    Raises:
        InputError: If the file cannot be read or lacks a column, an id is blank or there twice, a
            text is blank, or a pair's two items or texts are the same; row and column are named.
    """
    header, rows = read_table(path)
    for column in COLUMNS[kind]:
        if header.count(column) != 1:
            raise InputError(
                str(path), f"has no single column {column!r}.",
                f"Give the columns {', '.join(COLUMNS[kind])}.",
            )  # fmt: skip
    found: dict[str, Item] = {}
    for number, row in enumerate(rows, 1):
        cells = dict(zip(header, (cell.strip() for cell in row), strict=True))
        item = _item(f"{path}, row {number}", cells, kind)
        if item.id in found:
            raise InputError(
                f"{path}, row {number}", f"{item.id!r} is there twice.", "Give every item one row."
            )
        found[item.id] = item
    return tuple(found.values())


def _item(place: str, cells: dict[str, str], kind: Kind) -> Item:
    for column in COLUMNS[kind]:
        if not cells[column]:
            raise InputError(f"{place}, column {column}", "is blank.", "Fill it in.")
    texts: tuple[str, ...]
    if kind == "scale":
        name, texts = cells["item_id"], (cells["text"],)
    else:
        name, texts = cells["pair_id"], (cells["text_a"], cells["text_b"])
        for one, other in (("item_a", "item_b"), ("text_a", "text_b")):
            if cells[one] == cells[other]:
                raise InputError(
                    place, f"has the same {one} and {other}.", "Compare two that differ."
                )
    return Item(name, texts, cells.get("prompt") or None, cells.get("cluster") or name)


def in_order(items: tuple[Item, ...], rater: str, seed: int) -> tuple[Item, ...]:
    """The items in the order in which a rater sees them: its own, and the same every time.

    Args:
        items: All of them.
        rater: Who rates.
        seed: Of the draw.
    """
    return tuple(sorted(items, key=lambda item: (_drawn("order", item, rater, seed), item.id)))


def shown_first(item: Item, rater: str, seed: int) -> Side:
    """Which text of a pair a rater sees first: drawn, and the same every time.

    Args:
        item: The pair.
        rater: Who rates.
        seed: Of the draw.
    """
    return "a" if _drawn("side", item, rater, seed) < 0.5 else "b"  # noqa: PLR2004 - a fair coin


def _drawn(what: str, item: Item, rater: str, seed: int) -> float:
    return unit_fraction(canonical_json([rater, item.id]), f"label-{what}-{seed}")
