"""YAML with places: every value of a catalog knows its file, line and key.

Only what a catalog needs is understood: mappings, lists and plain values. `true` and `false`
are the only booleans, so that a level may be called `on` or `no`; dates are text; tags and
aliases are refused, because a catalog must mean the same to every reader.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml

from canopy.domain.errors import CatalogError

Scalar: TypeAlias = str | int | float | bool

_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_PLAIN_TAGS: Final = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq")}
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT: Final = re.compile(
    r"[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)\Z"
)
_NULLS: Final = {"", "~", "null", "Null", "NULL"}
_BOOLS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class _Dumper(yaml.SafeDumper):
    """Writes what `compose` reads back: texts that look like our numbers are quoted."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


@dataclass(frozen=True, slots=True)
class Spot:
    """A value in a YAML file, with the way to it.

    Attributes:
        source: Name of the file, as errors give it.
        node: The composed YAML node.
        path: Keys and list positions from the top.
    """

    source: str
    node: yaml.Node
    path: tuple[str | int, ...] = ()

    @property
    def place(self) -> str:
        """Where this is: file:line:key."""
        key = ""
        for step in self.path:
            if isinstance(step, int):
                key += f"[{step}]"
            else:
                key += f".{step}" if key else step
        return f"{self.source}:{self.node.start_mark.line + 1}:{key}"

    def mapping(self, known: Collection[str] | None = None) -> dict[str, "Spot"]:
        """The entries of a mapping, in the order of the file.

        Args:
            known: The keys that may stand here; None if the author names them.

        Raises:
            CatalogError: If this is no mapping, a key comes twice, or a key is unknown.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise CatalogError(self.place, "is not a mapping.", "Write `key: value` lines here.")
        entries: dict[str, Spot] = {}
        for key_node, value_node in self.node.value:
            key_spot = Spot(self.source, key_node, self.path)
            key = key_spot.text()
            here = Spot(self.source, key_node, (*self.path, key))
            if key in entries:
                raise CatalogError(here.place, "comes a second time.", "Keep one of the two.")
            if known is not None and key not in known:
                raise CatalogError(
                    here.place,
                    "is not a key known here.",
                    f"Use one of: {', '.join(sorted(known))}.",
                )
            entries[key] = Spot(self.source, value_node, (*self.path, key))
        return entries

    def items(self) -> list["Spot"]:
        """The entries of a list.

        Raises:
            CatalogError: If this is no list.
        """
        if not isinstance(self.node, yaml.SequenceNode):
            raise CatalogError(self.place, "is not a list.", "Write it as `[a, b]` or `- a` lines.")
        return [
            Spot(self.source, node, (*self.path, position))
            for position, node in enumerate(self.node.value)
        ]

    def text(self) -> str:
        """A plain value as it was written, whatever it looks like.

        Raises:
            CatalogError: If this is a mapping or a list, or empty.
        """
        if not isinstance(self.node, yaml.ScalarNode):
            raise CatalogError(self.place, "is not a plain text.", "Write one word or text here.")
        written = str(self.node.value).strip()
        if not written or not written.isprintable():
            raise CatalogError(
                self.place, "is empty or holds unprintable characters.", "Give it a text."
            )
        return written

    def scalar(self) -> Scalar:
        """A plain value with its type: text, integer, float or boolean.

        Raises:
            CatalogError: If this is a mapping, a list, empty, or a number out of range.
        """
        if not isinstance(self.node, yaml.ScalarNode):
            raise CatalogError(self.place, "is not a plain value.", "Write text, number or bool.")
        written = str(self.node.value)
        if self.node.style:  # quoted, or a block
            return written
        if written in _NULLS:
            raise CatalogError(self.place, "has no value.", "Write text, number or bool.")
        if written in _BOOLS:
            return _BOOLS[written]
        if not (_INTEGER.match(written) or _FLOAT.match(written)):
            return written
        number = float(written)
        if number in {float("inf"), float("-inf")}:
            raise CatalogError(self.place, "is too large a number.", "Write a finite number.")
        return int(written) if _INTEGER.match(written) else number

    def number(self) -> float:
        """A finite number.

        Raises:
            CatalogError: If this is anything else.
        """
        value = self.scalar()
        if isinstance(value, bool | str):
            raise CatalogError(self.place, f"is {value!r}, not a number.", "Write a number.")
        return float(value)


def _refuse_aliases(source: str, root: yaml.Node) -> None:
    """Refuse tags and aliases, and with them trees that grow when they are read.

    Raises:
        CatalogError: If a node carries a tag or is referred to twice.
    """
    seen: set[int] = set()
    waiting: list[yaml.Node] = [root]
    while waiting:
        node = waiting.pop()
        place = f"{source}:{node.start_mark.line + 1}:"
        if id(node) in seen:
            raise CatalogError(place, "is used through an alias.", "Write it out in full.")
        seen.add(id(node))
        if node.tag not in _PLAIN_TAGS:
            raise CatalogError(place, f"carries the tag {node.tag}.", "Remove the tag.")
        if isinstance(node, yaml.MappingNode):
            waiting.extend(child for pair in node.value for child in pair)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)


def compose(text: str, source: str) -> Spot:
    """The top of a YAML document.

    Raises:
        CatalogError: If the text is no single YAML document, or uses tags or aliases.
    """
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else error.problem_mark.line + 1
        raise CatalogError(
            f"{source}:{line}:", f"is not YAML: {error.problem}.", "Correct the syntax."
        ) from error
    except yaml.YAMLError as error:
        raise CatalogError(
            f"{source}:1:", "holds characters that YAML forbids.", "Save it as plain UTF-8."
        ) from error
    if root is None:
        raise CatalogError(f"{source}:1:", "is empty.", "Write a catalog into it.")
    _refuse_aliases(source, root)
    return Spot(source, root)


def leaves(spot: Spot) -> Iterator[Spot]:
    """A list's entries, or the value itself where a single one stands for the list."""
    if isinstance(spot.node, yaml.SequenceNode):
        yield from spot.items()
    else:
        yield spot


def dump(document: dict[str, object]) -> str:
    """The YAML text of a document, in its own order; `compose` reads the same values back."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))
