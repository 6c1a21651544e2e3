"""The arguments that an installed SGLang understands, read from its own parser.

No table of ours could follow 71 releases with up to 530 arguments each, so the release itself is asked, once
an environment: its parser is filled in the environment's interpreter and written down beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchharness.errors import InfrastructureError, UnbuildableError
from benchharness.records import Command, Environment
from benchharness.stack.logfile import log_tail
from benchharness.stack.processtree import ProcessTree

TIMEOUT_S = 600.0
LAYOUT = 1

CODE = """
import argparse, json, sys
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
found = [
    {
        "names": action.option_strings,
        "action": type(action).__name__,
        "nargs": action.nargs,
        "choices": None if action.choices is None else [str(choice) for choice in action.choices],
        "help": str(action.help or ""),
    }
    for action in parser._actions
    if action.option_strings
]
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(found, file)
"""


@dataclass(frozen=True)
class Parser:
    """How an engine is asked for its arguments.

    Attributes:
        engine: its name, for messages.
        stem: first part of the names of what is kept.
        code: Python that writes a list of the parser's actions as JSON into the file named first.
    """

    engine: str
    stem: str
    code: str


SGLANG = Parser("SGLang", "sglang-arguments", CODE)


@dataclass(frozen=True)
class Option:
    """One argument of an engine's command line.

    Attributes:
        names: all its spellings, with their hyphens; the first is the usual one.
        kind: `switch` (given or not), `both-ways` (--x or --no-x), `value`, `list`, or `withdrawn`: the
            release knows the name only to say that it does nothing any more.
        choices: values that it takes; None if any.
        help: what SGLang says of it.
    """

    names: tuple[str, ...]
    kind: str
    choices: tuple[str, ...] | None = None
    help: str = ""


Options = Mapping[str, Option]
"""By every spelling."""


def installed(
    environment: Environment, variables: Mapping[str, str | None], folder: Path, parser: Parser = SGLANG
) -> Options:
    """The arguments of the engine that runs in that environment, read once and kept in a folder.

    Args:
        environment: where the engine is installed, or what its code needs.
        variables: the variables that its processes get.
        folder: stands for exactly that code.
        parser: how the engine is asked.

    Raises:
        UnbuildableError: the engine doesn't import there.
        InfrastructureError: it can't be asked.
    """
    kept = folder / f"{parser.stem}.json"
    found = _kept(kept)
    if found is None:
        found = _ask(environment, variables, parser)
        draft = kept.with_suffix(f".{os.getpid()}.new")
        content = {"layout": LAYOUT, "options": [asdict(option) for option in found]}
        draft.write_text(json.dumps(content, indent=1), encoding="utf-8")
        draft.replace(kept)
    return {name: option for option in found for name in option.names}


def _kept(path: Path) -> tuple[Option, ...] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["layout"] != LAYOUT:
            return None
        return tuple(
            Option(
                names=tuple(entry["names"]),
                kind=entry["kind"],
                choices=None if entry["choices"] is None else tuple(entry["choices"]),
                help=entry["help"],
            )
            for entry in content["options"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ask(environment: Environment, variables: Mapping[str, str | None], parser: Parser) -> tuple[Option, ...]:
    folder = Path(environment.path)
    answer, log = folder / f"{parser.stem}.{os.getpid()}.raw", folder / f"{parser.stem}.log"
    answer.unlink(missing_ok=True)
    command = Command((environment.python_path, "-c", parser.code, str(answer)), variables, cwd=str(folder))
    try:
        tree = ProcessTree(command, log)
    except OSError as error:
        raise InfrastructureError(
            f"{parser.engine} can't be asked for its arguments: {error.strerror}",
            f"look at {environment.python_path}",
        ) from None
    try:
        tree.wait(TIMEOUT_S)
        in_time = not tree.alive
    finally:
        tree.stop(grace_s=1.0)
    if not in_time:
        raise InfrastructureError(
            f"{parser.engine} took longer than {TIMEOUT_S:g} s to import", f"its log is {log}"
        )
    if tree.exit_code != 0:
        last = next(iter(log_tail(log, 1)), f"it ended with code {tree.exit_code}")
        raise UnbuildableError(
            f"{parser.engine} doesn't import in its environment: {last}", f"the log is {log}"
        )
    try:
        found = json.loads(answer.read_text(encoding="utf-8"))
    finally:
        answer.unlink(missing_ok=True)
    return tuple(_option(entry) for entry in found)


def _option(entry: Mapping[str, Any]) -> Option:
    choices = entry["choices"]
    return Option(
        names=tuple(entry["names"]),
        kind=_kind(entry["action"], entry["nargs"]),
        choices=None if choices is None else tuple(choices),
        help=entry["help"],
    )


def _kind(action: str, nargs: int | str | None) -> str:
    if action == "DeprecatedAction":
        return "withdrawn"
    if action == "BooleanOptionalAction":
        return "both-ways"
    if nargs in ("+", "*"):
        return "list"
    return "switch" if nargs == 0 else "value"
