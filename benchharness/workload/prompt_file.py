"""Prompts from files: JSON lines, or a ShareGPT export.

A JSON line has `prompt`, `text` or `messages`, and may have `output_tokens`. A ShareGPT file is a JSON
list of objects with `conversations`, each a list of `from` and `value`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchharness.errors import UsageError

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}

_ADVICE = "give JSON lines with `prompt`, `text` or `messages`, or a ShareGPT file"


@dataclass(frozen=True, slots=True)
class FilePrompt:
    """One entry.

    Attributes:
        messages: (role, content), oldest first; a plain text is one message of the user.
        output_tokens: tokens to ask for; None where the file doesn't say.
    """

    messages: tuple[tuple[str, str], ...]
    output_tokens: int | None = None


def read_prompts(path: Path) -> tuple[FilePrompt, ...]:
    """All entries of a file that can be sent, in its order.

    Raises:
        UsageError: the file is missing, malformed, or has nothing that can be sent.
    """
    try:
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise UsageError(f"can't read the prompts file {path}: {error.strerror}", "check its path") from error
    rows = _list(path, data) if data.lstrip()[:1] == b"[" else _lines(path, data)
    prompts = tuple(prompt for where, fields in rows if (prompt := _prompt(where, fields)) is not None)
    if not prompts:
        raise UsageError(f"{path} has no prompts", _ADVICE)
    return prompts


def _list(path: Path, data: bytes) -> Iterator[tuple[str, Any]]:
    try:
        rows = orjson.loads(data)
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", _ADVICE) from error
    for number, fields in enumerate(rows, 1):
        yield f"{path}, entry {number}", fields


def _lines(path: Path, data: bytes) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"{path}, line {number}", orjson.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: not JSON: {error}", _ADVICE) from error


def _prompt(where: str, fields: Any) -> FilePrompt | None:
    """The prompt of one entry; None for a conversation in which the user says nothing."""
    if not isinstance(fields, Mapping):
        raise UsageError(f"{where}: not a JSON object", _ADVICE)
    output = fields.get("output_tokens")
    if output is not None and (type(output) is not int or output < 1):
        raise UsageError(f"{where}: output_tokens is {output!r}", "give a whole number above 0")
    for key in ("prompt", "text"):
        if isinstance(fields.get(key), str):
            return FilePrompt((("user", fields[key]),), output) if fields[key] else None
    if isinstance(fields.get("messages"), list):
        messages = _messages(where, fields["messages"], "role", "content")
    elif isinstance(fields.get("conversations"), list):
        messages = _messages(where, fields["conversations"], "from", "value")
    else:
        raise UsageError(f"{where}: no prompt, text, messages or conversations", _ADVICE)
    return FilePrompt(messages, output) if any(role == "user" for role, _ in messages) else None


def _messages(where: str, rows: list[Any], role: str, content: str) -> tuple[tuple[str, str], ...]:
    messages = []
    for row in rows:
        if not isinstance(row, Mapping) or not isinstance(row.get(content), str):
            raise UsageError(f"{where}: a message has no `{role}` and `{content}`", _ADVICE)
        messages.append((ROLES.get(str(row.get(role)), "user"), row[content]))
    return tuple(messages)
