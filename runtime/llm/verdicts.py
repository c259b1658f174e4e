"""Reading a model judge's reply: the verdict it ends with, or none.

What cannot be read is a count of its own, never a tie, a win or a loss. Nothing but the end of a
reply decides, because its beginning may quote the very text that is judged.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from canopy.domain.errors import InputError, RangeError

_MARKS: Final = r"[ \t>#*_`~\-]*"
_TRIM: Final = " \t*_`~\"'“”‘’()[]{}.!"  # noqa: RUF001 - the marks meant
_FENCE: Final = re.compile(r"\s*```\s*\Z")
_BRACKETS: Final = re.compile(r"\[\[([^\[\]\n]*)\]\]")


class FoundBy(StrEnum):
    """How a verdict was found."""

    STRUCTURED = "structured"
    """As the field of the JSON object that ends the reply."""
    LABEL = "label"
    """On a line of its own, after the label."""
    BRACKETS = "brackets"
    """In double brackets."""


class UnparsedReason(StrEnum):
    """Why a reply gives no verdict."""

    EMPTY = "empty"
    """There is no reply."""
    NO_VERDICT = "no_verdict"
    """Nothing in it is a verdict."""
    OFF_MENU = "off_menu"
    """Its last verdict is not one of those asked for; earlier ones are not looked at."""
    WRONG_TYPE = "wrong_type"
    """The field of its object holds no word."""
    AMBIGUOUS = "ambiguous"
    """Its object has a key twice, or there are too many to tell which ends it."""


@dataclass(frozen=True, slots=True)
class ParsedVerdict:
    """A verdict, or why there is none.

    Attributes:
        word: The word of the menu, in the menu's spelling; None where it could not be read.
        found_by: How it was found; None likewise.
        reason: Why there is none; None where there is one.
    """

    word: str | None
    found_by: FoundBy | None
    reason: UnparsedReason | None


@dataclass(frozen=True, slots=True)
class ParseHealth:
    """Whether a run's replies could be read well enough to go on.

    Attributes:
        n: Replies.
        n_unparsed: Those without a verdict.
        share: Of them; None without replies.
        ceiling: What the share may be.
        reasons: How many by reason.
        is_within: Whether the share keeps to the ceiling; a run without replies does not.
    """

    n: int
    n_unparsed: int
    share: float | None
    ceiling: float
    reasons: Mapping[UnparsedReason, int]
    is_within: bool


class _Repeated(dict[str, Any]):
    """An object that has a key twice, so that nobody knows which was meant."""


_MOST_BRACES: Final = 500
"""More than an honest reply has; looking for the object that ends it would take long."""


def parse_verdict(
    reply: str, menu: Sequence[str], *, field: str = "verdict", label: str = "verdict"
) -> ParsedVerdict:
    """Read a reply.

    Args:
        reply: What the judge wrote.
        menu: The words it may choose from.
        field: Name of the verdict in a JSON object.
        label: Word before the verdict on a line of its own, as in `Verdict: A`. A label that
            texts under judgement cannot know, a random one, cannot be imitated by them.

    Returns:
        The verdict: of the JSON object that ends the reply, if one does and has the field; else
        the last one in the reply, labelled or in double brackets, which has to be a whole word of
        the menu.

    Raises:
        InputError: If the menu is empty, or two of its words are one but for their case.
    """
    words = _words(menu)
    text = readable(reply)
    if not text.strip():
        return _unparsed(UnparsedReason.EMPTY)
    ending = _ending_object(text)
    if isinstance(ending, _Repeated):
        return _unparsed(UnparsedReason.AMBIGUOUS)
    if ending is not None and field in ending:
        return _structured(ending[field], words)
    found = _last_token(text, label)
    if found is None:
        return _unparsed(UnparsedReason.NO_VERDICT)
    token, found_by = found
    return _on_menu(token.strip(_TRIM), words, found_by)


def parse_health(verdicts: Iterable[ParsedVerdict], *, ceiling: float) -> ParseHealth:
    """Count what could not be read.

    Args:
        verdicts: Of `parse_verdict`.
        ceiling: Share without a verdict that a run may have, from 0 to 1.

    Returns:
        The counts; a run that is not within its ceiling has failed.

    Raises:
        RangeError: If the ceiling is no share.
    """
    if not 0 <= ceiling <= 1:
        raise RangeError("ceiling", None, ceiling, "a share from 0 to 1")
    read = list(verdicts)
    reasons = Counter(verdict.reason for verdict in read if verdict.reason is not None)
    n_unparsed = sum(reasons.values())
    share = n_unparsed / len(read) if read else None
    return ParseHealth(
        n=len(read),
        n_unparsed=n_unparsed,
        share=share,
        ceiling=ceiling,
        reasons=dict(reasons),
        is_within=share is not None and share <= ceiling,
    )


def readable(text: str) -> str:
    """A text in one spelling: compatibility characters folded, invisible ones gone.

    Args:
        text: Any text.
    """
    folded = unicodedata.normalize("NFKC", text)
    seen = "".join(c for c in folded if unicodedata.category(c) != "Cf")
    # What was held apart by an invisible character may now compose.
    return unicodedata.normalize("NFKC", seen)


def _words(menu: Sequence[str]) -> dict[str, str]:
    """The menu's words by their folded spelling.

    Raises:
        InputError: If it is empty, a word is blank, or two fold to one.
    """
    if isinstance(menu, str) or not menu:
        raise InputError("menu", f"{menu!r} is no menu.", "List the words a judge may choose from.")
    words: dict[str, str] = {}
    for word in menu:
        folded = _folded(word)
        if not folded or folded in words:
            raise InputError(
                "menu", f"{word!r} is blank or there twice.", "List different words, such as A, B."
            )
        words[folded] = word
    return words


def _folded(word: str) -> str:
    return readable(word).strip(_TRIM).casefold()


def _ending_object(text: str) -> dict[str, Any] | None:
    """The JSON object that the text ends with, whatever stands before it."""
    body = _FENCE.sub("", text).rstrip()
    if not body.endswith("}"):
        return None
    # From the left: the first brace from which all that follows is one object. An object within
    # it, or in what it quotes, is part of it and not the verdict.
    starts = [match.start() for match in re.finditer(r"\{", body)]
    if len(starts) > _MOST_BRACES:
        return _Repeated()
    decoder = json.JSONDecoder(object_pairs_hook=_unrepeated)
    for start in starts:
        try:
            found, end = decoder.raw_decode(body, start)
        except json.JSONDecodeError:
            continue
        if end == len(body) and isinstance(found, dict):
            return found
    return None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeated(found)


def _structured(value: object, words: Mapping[str, str]) -> ParsedVerdict:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        # bool("false") is true, and a missing grade no grade: nothing is taken for a word.
        return _unparsed(UnparsedReason.WRONG_TYPE)
    return _on_menu(value, words, FoundBy.STRUCTURED)


def _last_token(text: str, label: str) -> tuple[str, FoundBy] | None:
    """The last verdict in a text, whatever it says."""
    labelled = re.compile(
        rf"^{_MARKS}(?:final\s+)?{re.escape(readable(label))}{_MARKS}[:=](.*)$",
        re.IGNORECASE | re.MULTILINE,
    )
    found = [(match.start(), match[1], FoundBy.LABEL) for match in labelled.finditer(text)]
    found += [(match.start(), match[1], FoundBy.BRACKETS) for match in _BRACKETS.finditer(text)]
    if not found:
        return None
    _, token, found_by = max(found)
    return token, found_by


def _on_menu(token: str, words: Mapping[str, str], found_by: FoundBy) -> ParsedVerdict:
    word = words.get(token.strip(_TRIM).casefold())
    if word is None:
        return _unparsed(UnparsedReason.OFF_MENU)
    return ParsedVerdict(word, found_by, None)


def _unparsed(reason: UnparsedReason) -> ParsedVerdict:
    return ParsedVerdict(None, None, reason)
