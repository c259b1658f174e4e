"""The OpenAPI document: every body, answer and problem as the surface takes and gives them."""

import re
from collections.abc import Callable
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from runtime.http.responses import SECURITY
from runtime.http.schemas import (
    Health,
    OutcomeBatch,
    OutcomeBatchAnswer,
    OutcomeReport,
    Problem,
    Selection,
    SelectionBatch,
    SelectionBatchAnswer,
    ServedReport,
    StoredDecision,
)

MODELS: Final[tuple[type[BaseModel], ...]] = (
    Selection,
    SelectionBatch,
    SelectionBatchAnswer,
    OutcomeReport,
    OutcomeBatch,
    OutcomeBatchAnswer,
    StoredDecision,
    ServedReport,
    Problem,
    Health,
)
"""Everything that is sent or answered, with what these are made of."""

_NEVER_ANSWERED: Final = "422"
_ATTRIBUTES: Final = "\n\nAttributes:\n"
_ATTRIBUTE: Final = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def documented(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """What writes the document of an application; written once, then read by everybody."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = plain()
        # FastAPI does not see what routes read themselves, and drops every null of an example.
        _, found = models_json_schema(
            [(model, "validation") for model in MODELS],
            ref_template="#/components/schemas/{model}",
        )
        for schema in found["$defs"].values():
            _describe(schema)
        _drop_what_is_never_answered(document)
        document["components"] = {
            "schemas": found["$defs"],
            "securitySchemes": {
                SECURITY: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key of `canopy key create`.",
                }
            },
        }
        return document

    return openapi


def _drop_what_is_never_answered(document: dict[str, Any]) -> None:
    """Take out the answer FastAPI assumes for wrong parameters: here those are problems too."""
    for methods in document["paths"].values():
        for operation in methods.values():
            answer = operation["responses"].get(_NEVER_ANSWERED, {})
            if "application/json" in answer.get("content", {}):
                del operation["responses"][_NEVER_ANSWERED]


def _describe(schema: dict[str, Any]) -> None:
    """Put each line of a docstring's `Attributes:` where readers of the document look for it."""
    description, _, attributes = schema.get("description", "").partition(_ATTRIBUTES)
    for name, text in _ATTRIBUTE.findall(attributes):
        schema["properties"][name]["description"] = re.sub(r"\n {8}", " ", text)
    if description:
        schema["description"] = description
