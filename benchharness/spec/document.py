"""YAML text as plain data that remembers where it stood and how its numbers were written.

YAML has traps that bite in this field: `release: 0.10` is the number 0.1, `commit: 12e4567` is
infinity, `off` is a boolean and a repeated key silently wins. Here numbers keep their spelling (a
field that wants text gets the text), only `true` and `false` are booleans, dates stay text, and a
repeated key is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchharness.errors import UsageError

Path_ = tuple[str | int, ...]

FREE_MAPS = ("args", "env", "packages")
"""Maps whose keys are somebody else's names and may hold dots: after them a path is one key."""


class SpelledInt(int):
    """A whole number that remembers its spelling."""

    text: str


class SpelledFloat(float):
    """A number that remembers its spelling, so that version 0.10 does not become 0.1."""

    text: str


@dataclass(frozen=True)
class Document:
    """A parsed file.

    Attributes:
        name: what errors call it.
        data: its top-level mapping, as plain data.
        lines: path of a key -> 1-based line.
        text: the source.
        sets: the `--set` arguments that were applied.
    """

    name: str
    data: dict[str, Any]
    lines: dict[Path_, int] = field(default_factory=dict)
    text: str = ""
    sets: tuple[str, ...] = ()

    def where(self, path: Path_) -> str:
        """`file:line` of the nearest known ancestor of a path."""
        while path:
            if path in self.lines:
                return f"{self.name}:{self.lines[path]}"
            path = path[:-1]
        return self.name


class _Loader(yaml.SafeLoader):
    """SafeLoader with the resolvers of the YAML 1.2 core schema, less its octal numbers."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.yaml_implicit_resolvers.setdefault("", []).append(("tag:yaml.org,2002:null", re.compile(r"^$")))


def _spelled(loader: _Loader, node: yaml.ScalarNode) -> SpelledInt | SpelledFloat:
    number: SpelledInt | SpelledFloat
    text = node.value.lower().replace(".inf", "inf").replace(".nan", "nan")
    number = SpelledInt(text) if node.tag.endswith(":int") else SpelledFloat(text)
    number.text = node.value
    return number


_Loader.add_constructor("tag:yaml.org,2002:int", _spelled)
_Loader.add_constructor("tag:yaml.org,2002:float", _spelled)


def read(path: Path, what: str = "experiment file") -> Document:
    """Read and parse a file; UsageError if it is missing, unreadable or no YAML mapping.

    Args:
        path: of the file.
        what: what errors call it.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise UsageError(f"no {what} {path}", "give the path of a YAML file") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder", "give the path of a YAML file in it") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    # A path that is no UTF-8 could neither be printed nor stored as it is.
    return parse(text, os.fsencode(path).decode("utf-8", "backslashreplace"))


def parse(text: str, name: str) -> Document:
    """Parse YAML text; UsageError with file and line where it is malformed."""
    lines: dict[Path_, int] = {}
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                raise UsageError(f"{name} is empty", "see experiments/quickstart.yaml for an example")
            if not isinstance(node, yaml.MappingNode):
                raise UsageError(f"{name} must hold a mapping at its top", "start with `name: ...`")
            _index(node, (), lines, name)
            data = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        block = "chomping" in str(error.problem)
        advice = 'quote text that begins with > or |, as ">= 80"' if block else "correct the YAML there"
        raise UsageError(f"{place}: {error.problem or 'not YAML'}", advice) from None
    except (yaml.YAMLError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(f"{name} is not YAML: {first}") from None
    except RecursionError:
        raise UsageError(f"{name} is nested too deeply") from None
    return Document(name, data, lines, text)


def _index(node: yaml.Node, path: Path_, lines: dict[Path_, int], name: str) -> None:
    """Note the line of every key, and refuse keys that are repeated or no scalars."""
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode):
        _refuse_half_characters(node.value, f"{name}:{node.start_mark.line + 1}")
    elif isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _index(item, (*path, position), lines, name)
    elif isinstance(node, yaml.MappingNode):
        seen: set[Hashable] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise UsageError(f"{name}:{line}: a key must be a plain word")
            if key.value in seen:
                raise UsageError(f"{name}:{line}: {key.value!r} stands twice", "remove one of them")
            seen.add(key.value)
            # Keys are names even where they look like numbers or booleans.
            key.tag = "tag:yaml.org,2002:str"
            lines[(*path, key.value)] = line
            _index(value, (*path, key.value), lines, name)


def _refuse_half_characters(text: str, where: str) -> None:
    """Refuse lone surrogates (`"\\ud800"`), which no file and no process can be given."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{where}: {text!a} is no text", "write the character itself") from None


def split(dotted: str) -> tuple[str, ...]:
    """`base.args.a.b` -> ("base", "args", "a.b"): below a free map the rest is one key."""
    parts: list[str] = []
    rest = dotted
    while rest:
        head, _, rest = rest.partition(".")
        parts.append(head)
        if head in FREE_MAPS and rest:
            parts.append(rest)
            break
    return tuple(parts)


def put(data: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a value at a path, making maps on the way; UsageError if a scalar is in the way."""
    for position, part in enumerate(path[:-1]):
        below = data.setdefault(part, {})
        if below is None:
            below = data[part] = {}
        if not isinstance(below, dict):
            raise UsageError(
                f"{'.'.join(path[: position + 1])} is no mapping, so {'.'.join(path)} can't be set"
            )
        data = below
    data[path[-1]] = value


def with_sets(document: Document, sets: Sequence[str]) -> Document:
    """Apply `--set a.b=c` arguments; values are read as YAML."""
    data = _copy(document.data)
    for argument in sets:
        dotted, equals, text = argument.partition("=")
        _refuse_half_characters(argument, "--set")
        path = split(dotted.strip())
        if not equals or not path or not all(path):
            raise UsageError(f"--set {argument!r} is not of the form a.b=c")
        wrapped = parse(f"value: {text}", f"--set {dotted}")
        put(data, path, wrapped.data["value"])
    return Document(document.name, data, document.lines, document.text, tuple(sets))


def _copy(value: Any) -> Any:
    """A deep copy that keeps the spelled numbers (copy.deepcopy would drop their spelling)."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def copied(data: dict[str, Any]) -> dict[str, Any]:
    """A deep copy of plain data that keeps the spelling of numbers."""
    result: dict[str, Any] = _copy(data)
    return result


def plain(value: Any) -> Any:
    """The same data with ordinary numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, SpelledInt):
        return int(value)
    if isinstance(value, SpelledFloat):
        return float(value)
    return value
