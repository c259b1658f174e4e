"""Request bodies: read within a limit, and told apart into one object or many."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from starlette.requests import Request

from canopy.domain.errors import BodyTooLargeError, InputError
from runtime.http.problems import Failure, failure_of
from runtime.http.schemas import MAX_BODY_BYTES, MAX_ITEMS

One = TypeVar("One", bound=BaseModel)

_ITEMS_KEY: Final = b'"items"'
_ESCAPED_COLON: Final = b"\\u003"
_SHOWN: Final = 100


async def read_body(request: Request) -> bytes:
    """The whole body.

    Raises:
        BodyTooLargeError: If it is larger than the surface takes.
    """
    chunks: list[bytes] = []
    n_bytes = 0
    async for chunk in request.stream():
        n_bytes += len(chunk)
        if n_bytes > MAX_BODY_BYTES:
            raise BodyTooLargeError(
                "body", f"it is larger than {MAX_BODY_BYTES} bytes.", "Send fewer items per call."
            )
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


@dataclass(frozen=True, slots=True)
class Shape(Generic[One]):
    """Reads bodies that hold one object, or `{"items": [...]}`.

    Attributes:
        one: Reads one object.
    """

    one: TypeAdapter[One]

    def read(self, body: bytes) -> One | list[One | Failure]:
        """Parse a body.

        Returns:
            The object, or per item the object or what is wrong with it.

        Raises:
            ValidationError: If a single object is not what is expected, or the body is no JSON.
            InputError: If the items are no list, there are none, or a key comes twice.
            BodyTooLargeError: If there are too many items.
        """
        if _ITEMS_KEY not in body:
            return self.read_one(body)
        try:
            return self.read_one(body)
        except ValidationError:
            document = _document(body)
            if not isinstance(document, dict) or document.keys() != {"items"}:
                raise
        require_unique_keys(body, to_json(document, inf_nan_mode="constants"))
        items = document["items"]
        if not isinstance(items, list) or not items:
            raise InputError("items", "expected a list of at least one.", "Send one or more.")
        if len(items) > MAX_ITEMS:
            raise BodyTooLargeError(
                "items", f"{len(items)} items, at most {MAX_ITEMS}.", "Send several calls."
            )
        return [self._item(place, item) for place, item in enumerate(items)]

    def read_one(self, body: bytes) -> One:
        """Parse a body that holds one object.

        Raises:
            ValidationError: If it is not what is expected, or no JSON.
            InputError: If a key comes twice.
        """
        one = self.one.validate_json(body)
        require_unique_keys(body, self.one.dump_json(one, exclude_unset=True))
        return one

    def _item(self, place: int, item: Any) -> One | Failure:
        try:
            # Through JSON again: an item in a batch means what it means alone.
            return self.one.validate_json(to_json(item, inf_nan_mode="constants"))
        except ValidationError as error:
            return failure_of(error, place=f"items.{place}")


def require_unique_keys(body: bytes, kept: bytes) -> None:
    """Refuse an object that names a key twice: which of the two was meant cannot be known.

    Parsers keep the last one and say nothing; every key that went took its colon with it.

    Args:
        body: JSON as it came.
        kept: JSON of what was read from it.

    Raises:
        InputError: If a key comes twice in one object.
    """
    if body.count(b":") != kept.count(b":") or _ESCAPED_COLON in body:
        # Numbers stay texts: only the keys matter here, and no digits are too many for a text.
        json.loads(
            body, object_pairs_hook=_unique, parse_float=str, parse_int=str, parse_constant=str
        )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, n in counts.items() if n > 1)
        raise InputError(twice[:_SHOWN], "the key comes twice in one object.", "Send it once.")
    return found


def _document(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:
        return None
