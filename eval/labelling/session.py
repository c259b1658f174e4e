"""One rater's sitting: which item comes next, how it is shown, and what an answer means."""

from dataclasses import dataclass
from typing import Literal

from canopy.domain.clock import now
from canopy.domain.errors import InputError
from eval.agreement.gold import HUMAN
from eval.labelling.items import Item, Kind, in_order, shown_first
from eval.labelling.labels import Label, check_rater, standing

PAIR_SCALE = ("a", "tie", "b")
"""Labels of a pair: the winning item, whichever text stood first."""

Command = Literal["skip", "back", "quit"]
COMMANDS: dict[str, Command] = {"s": "skip", "b": "back", "q": "quit"}
"""What a rater may type besides a label."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """What one rater has before it.

    Attributes:
        kind: Whether pairs or texts on a scale are labelled.
        scale: The labels.
        rater: Who rates.
        seed: Of the order of items and sides.
        items: The items, in this rater's order.
    """

    kind: Kind
    scale: tuple[str, ...]
    rater: str
    seed: int
    items: tuple[Item, ...]

    @classmethod
    def of(
        cls, items: tuple[Item, ...], *, kind: Kind, scale: tuple[str, ...], rater: str, seed: int
    ) -> "Sitting":
        """A sitting.

        Args:
            items: What is to be labelled.
            kind: What they are.
            scale: The labels; those of `PAIR_SCALE` for pairs.
            rater: Who rates.
            seed: Of the order.

        Raises:
            InputError: If the rater is nobody, or the scale has fewer than two labels, the same
                twice, or one that is a command.
        """
        check_rater(rater)
        typed = scale if kind == "scale" else ()
        taken = sorted(set(typed) & COMMANDS.keys())
        if len(set(scale)) != len(scale) or len(scale) < 2 or taken:  # noqa: PLR2004 - a choice
            raise InputError(
                "scale", f"{', '.join(scale)} is no scale.",
                f"Give two or more different labels, none of {', '.join(COMMANDS)}.",
            )  # fmt: skip
        return cls(kind, scale, rater, seed, in_order(items, rater, seed))

    def left(self, labels: list[Label]) -> list[Item]:
        """The items that this rater has not labelled, in its order.

        Args:
            labels: Everything said so far, by anybody.

        Raises:
            InputError: If an item was labelled when its texts were others.
        """
        said = standing(labels)
        found = []
        for item in self.items:
            mine = said.get((self.rater, item.id))
            if mine is None:
                found.append(item)
            elif mine.content not in {None, item.content}:
                raise InputError(
                    f"item {item.id!r}", "has other texts than when it was labelled.",
                    "Give changed texts an id of their own.",
                )  # fmt: skip
        return found

    def texts(self, item: Item) -> tuple[str, ...]:
        """An item's texts in the order shown.

        Args:
            item: One of the items.
        """
        is_turned = self.kind == "pair" and shown_first(item, self.rater, self.seed) == "b"
        return item.texts[::-1] if is_turned else item.texts

    def choices(self) -> tuple[str, ...]:
        """What a rater may type for a label."""
        return ("1", "2", "t") if self.kind == "pair" else self.scale

    def answer(self, item: Item, typed: str) -> Label | Command | None:
        """What a typed word means.

        Args:
            item: The item shown.
            typed: The word.

        Returns:
            A label, a command, or None where it means nothing.
        """
        word = typed.strip()
        if word in self.choices():
            return self._label(item, word)
        return COMMANDS.get(word.casefold())

    def _label(self, item: Item, word: str) -> Label:
        first = shown_first(item, self.rater, self.seed) if self.kind == "pair" else None
        if first is not None:
            other = "b" if first == "a" else "a"
            word = {"1": first, "2": other, "t": "tie"}[word]
        return self._written(item, word, first)

    def retraction(self, item: Item) -> Label:
        """The line that takes back what this rater said of an item.

        Args:
            item: One of the items.
        """
        return self._written(item, None, None)

    def _written(self, item: Item, word: str | None, first: Literal["a", "b"] | None) -> Label:
        return Label(
            id=item.id, kind=self.kind, label=word, shown_first=first, rater=self.rater,
            date=now().isoformat(timespec="seconds"), source=HUMAN, scale=self.scale,
            content=item.content, cluster=item.cluster,
        )  # fmt: skip
