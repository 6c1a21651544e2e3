"""From declared arguments to SGLang's command line, in the spelling of the release that is installed.

Arguments are declared by the names of SGLang's flags without the hyphens in front (`speculative-num-steps`),
or by those of its server_args (`speculative_num_steps`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from benchharness.errors import UsageError, nearest
from benchharness.stack.engines.sglang_options import Option, Options

RENAMED: tuple[tuple[str, ...], ...] = (
    ("cuda-graph-bs", "cuda-graph-bs-decode"),
    ("cuda-graph-max-bs", "cuda-graph-max-bs-decode"),
    ("nsa-prefill", "nsa-prefill-backend", "dsa-prefill-backend"),
    ("nsa-decode", "nsa-decode-backend", "dsa-decode-backend"),
    ("disable-piecewise-cuda-graph", "disable-prefill-cuda-graph"),
    ("mamba-scheduler-strategy", "mamba-radix-cache-strategy"),
    ("max-micro-batch-size", "pp-max-micro-batch-size"),
    ("oltp-traces-endpoint", "otlp-traces-endpoint"),
    ("kt-amx-method", "kt-method"),
    ("kt-amx-weight-path", "kt-weight-path"),
    ("stream-output", "incremental-streaming-output"),
)
"""Names of one and the same argument over releases, oldest first."""

ALIASES = {("speculative-algorithm", "EAGLE"): "EAGLE or NEXTN"}
"""(Argument, value) that SGLang itself writes for several: declared values are held against all of them."""

_OTHER_NAMES = {name: names for names in RENAMED for name in names}


def spelled(name: str) -> str:
    """An argument's name as the flag has it, without the hyphens in front."""
    return name.replace("_", "-")


def command_line(
    declared: Mapping[str, Any], chosen: Mapping[str, Any], options: Options, whose: str
) -> list[str]:
    """The flags and values for the installed release.

    Args:
        declared: what the stack asks for; a name that the release lacks is refused.
        chosen: what the harness would like; left out where the release lacks it or `declared` has it.
        options: what the installed release understands.
        whose: the stack and its release, for messages.

    Raises:
        UsageError: the release lacks an argument, or it doesn't take the value.
    """
    given = {_option_for(spelled(name), options, whose).names[0]: name for name in declared}
    line: list[str] = []
    for name, value in chosen.items():
        option = _find(name, options)
        if option is not None and option.names[0] not in given:
            line += _words(name, value, option, whose)
    for name, value in declared.items():
        line += _words(name, value, _option_for(spelled(name), options, whose), whose)
    return line


def _find(name: str, options: Options) -> Option | None:
    """The installed option of that name, or of another name that it had or has."""
    for candidate in (name, *_OTHER_NAMES.get(name, ())):
        option = options.get(f"--{candidate}")
        if option is not None and option.kind != "withdrawn":
            return option
    return None


def _option_for(name: str, options: Options, whose: str) -> Option:
    option = _find(name, options)
    if option is not None:
        return option
    withdrawn = options.get(f"--{name}")
    if withdrawn is not None:
        says = f"; it says: {' '.join(withdrawn.help.split())}" if withdrawn.help else ""
        raise UsageError(f"{whose} ignores --{name}{says}", f"remove `args.{name}`")
    known = [flag.removeprefix("--") for flag in options]
    raise UsageError(
        f"{whose} has no argument --{name}{nearest(name, known)}",
        f"remove `args.{name}`, or choose a release that has it",
    )


def _words(name: str, value: Any, option: Option, whose: str) -> list[str]:
    """The words of one argument on the command line."""
    flag = _flag(spelled(name), option)
    if option.kind in ("switch", "both-ways"):
        if not isinstance(value, bool):
            raise UsageError(f"{whose}: --{flag[2:]} is a switch, but `args.{name}` is {value!r}", "use true")
        if value:
            return [flag]
        return [f"--no-{flag[2:]}"] if option.kind == "both-ways" else []
    values = list(value) if isinstance(value, list | tuple) else [value]
    if option.kind == "value" and isinstance(value, list | tuple):
        raise UsageError(f"{whose}: {flag} takes one value, but `args.{name}` is a list", "give one")
    words = [_text(part) for part in values]
    for word in words:
        if option.choices is not None and word not in option.choices:
            raise UsageError(
                f"{whose}: {flag} doesn't take {word!r}{nearest(word, option.choices)}",
                f"correct `args.{name}`",
            )
    # A value may begin with a hyphen, which a parser would take for a flag.
    return [f"{flag}={words[0]}"] if words[0].startswith("-") and len(words) == 1 else [flag, *words]


def _flag(name: str, option: Option) -> str:
    flag = f"--{name}"
    return flag if flag in option.names else option.names[0]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def effective(declared: Mapping[str, Any], server_args: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a server runs with, of the declared arguments that it tells: declared name -> value.

    Args:
        declared: as the stack names them.
        server_args: the server's own, by their names in Python.
    """
    found = {}
    for name in declared:
        spellings = (spelled(name), *_OTHER_NAMES.get(spelled(name), ()))
        known = [one.replace("-", "_") for one in spellings if one.replace("-", "_") in server_args]
        # Without a value stands what the start has put elsewhere, as graph sizes in newer releases.
        values = [server_args[one] for one in known if server_args[one] is not None]
        if values and not isinstance(values[0], Mapping):
            found[name] = ALIASES.get((spelled(name), str(values[0])), values[0])
    return found
