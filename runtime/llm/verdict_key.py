"""What a cached verdict may be found under: everything that could have changed it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from canopy.domain.errors import InputError
from canopy.domain.ids import canonical_json

FORMAT: Final = 1
"""Version of the key; another one finds nothing of the old."""

ALIASES: Final = frozenset({"", "*", "latest", "default", "stable", "current"})
"""Versions that are none: the model behind them changes without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictQuestion:
    """One question to one judge.

    Attributes:
        judge: Id of the model.
        judge_version: Its pinned version.
        endpoint: Address it is asked at.
        rubric_id: Name of the rubric.
        rubric_hash: Content hash of the rubric.
        template: The whole prompt template.
        system: The system prompt; None without one.
        first_text: The text shown first.
        second_text: The text shown second; None where one text is rated.
        order: Whether item a (`ab`) or item b (`ba`) is shown first; None for one text.
        menu: The words to choose from.
        decoding: Temperature and the like, as plain values.
        tools: Names of the tools offered.
        repetition: Which asking of the same question, from 0.
    """

    judge: str
    judge_version: str
    endpoint: str
    rubric_id: str
    rubric_hash: str
    template: str
    system: str | None
    first_text: str
    second_text: str | None
    order: Literal["ab", "ba"] | None
    menu: tuple[str, ...]
    decoding: Mapping[str, Any]
    tools: tuple[str, ...] = ()
    repetition: int = 0

    def __post_init__(self) -> None:
        if self.judge_version.strip().casefold() in ALIASES:
            raise InputError(
                "judge_version", f"{self.judge_version!r} is no pinned version.",
                "Name the dated version: behind an alias the judge changes unseen.",
            )  # fmt: skip
        if (self.second_text is None) is not (self.order is None):
            raise InputError(
                "order", f"{self.order!r} does not go with the texts.",
                "Say ab or ba for two texts, and nothing for one.",
            )  # fmt: skip


def verdict_key(question: VerdictQuestion) -> str:
    """The key of a question: 64 hex digits that no other question has.

    Args:
        question: What is asked.

    Raises:
        InputError: If the decoding parameters are no plain values.
    """
    content = {field.name: getattr(question, field.name) for field in fields(question)}
    try:
        content["decoding"] = dict(question.decoding)
        rendered = canonical_json({"format": FORMAT, **content})
    except (TypeError, ValueError) as error:
        raise InputError(
            "decoding", f"holds something that JSON cannot carry: {error}.", "Pass plain values."
        ) from error
    return hashlib.sha256(rendered.encode()).hexdigest()
