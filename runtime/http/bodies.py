"""Request bodies: read within a limit, and told apart into one object or many."""

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


async def read_body(request: Request) -> bytes:
    """The whole body.

    Raises:
        BodyTooLargeError: If it is larger than the surface takes, said or found.
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
            InputError: If the items are no list, or there are none.
            BodyTooLargeError: If there are too many items.
        """
        if _ITEMS_KEY not in body:
            return self.one.validate_json(body)
        try:
            return self.one.validate_json(body)
        except ValidationError:
            document = _document(body)
            if not isinstance(document, dict) or document.keys() != {"items"}:
                raise
        items = document["items"]
        if not isinstance(items, list) or not items:
            raise InputError("items", "expected a list of at least one.", "Send one or more.")
        if len(items) > MAX_ITEMS:
            raise BodyTooLargeError(
                "items", f"{len(items)} items, at most {MAX_ITEMS}.", "Send several calls."
            )
        return [self._item(place, item) for place, item in enumerate(items)]

    def _item(self, place: int, item: Any) -> One | Failure:
        try:
            # Through JSON again: an item in a batch means what it means alone.
            return self.one.validate_json(to_json(item, inf_nan_mode="constants"))
        except ValidationError as error:
            return failure_of(error, place=f"items.{place}")


def _document(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:
        return None
