"""Checking a file's document against its pydantic model: one line with file, line, key and nearest name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from benchharness.errors import UsageError, nearest
from benchharness.spec import document as documents
from benchharness.spec.document import Document

_M = TypeVar("_M", bound=BaseModel)


def validated(
    model: type[_M], data: Any, document: Document, prefix: tuple[str, ...], context: str = ""
) -> _M:
    """Validate; UsageError with place, key and nearest known name for the first of its errors."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # A misspelt key is often the reason why another one is missing: say it first.
        problems = sorted(error.errors(include_url=False), key=lambda p: p["type"] != "extra_forbidden")
        first = problems[0]
        path = (*prefix, *first["loc"])
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        place = document.where(path)
        raise UsageError(
            f"{place}: {context}{_sentence(model, path[len(prefix) :], path, first)}{more}"
        ) from None


def _sentence(
    model: type[BaseModel], below: tuple[str | int, ...], path: tuple[str | int, ...], problem: ErrorDetails
) -> str:
    key = ".".join(str(part) for part in path if part not in _UNION_ARMS)
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key!r}{nearest(str(path[-1]), _keys_at(model, below[:-1]))}"
    if problem["type"] == "missing":
        return f"{key!r} is missing; add it"
    message = problem["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    given = problem["input"]
    if isinstance(given, str | int | float | bool | None):
        return f"{key}: {message}, but it is {documents.plain(given)!r}"
    return f"{key}: {message}"


_UNION_ARMS = ("literal['auto']", "constrained-int")


def _keys_at(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Names of the fields that a path's mapping may hold."""
    for part in path:
        annotation = model.model_fields[str(part)].annotation if str(part) in model.model_fields else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)
