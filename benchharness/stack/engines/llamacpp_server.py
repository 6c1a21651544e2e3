"""Runs llama.cpp's own HTTP server, as the `xllamacpp` wheel carries it, as a foreground process.

The harness starts this file by its path with the interpreter of the engine's environment, so it imports
nothing of the harness and has to read the settings of every release:

    python llamacpp_server.py [--default NAME=VALUE ...] [--set NAME=VALUE ...]

NAME is a dotted attribute of `CommonParams`. A `--default` that this release doesn't have is left out with
a note; a `--set` that it doesn't have ends the process before any model is read. Exit status: 0 ended by
SIGTERM or SIGINT, 1 llama.cpp didn't start, 2 a setting was refused, 3 the port is taken.
"""

from __future__ import annotations

import argparse
import difflib
import enum
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import xllamacpp

OTHER_NAMES = {
    # The draft model's settings had no level of their own up to b8929, and its path two other names.
    "speculative.draft.mparams.path": ("speculative.mparams_dft.path", "speculative.model.path"),
    "speculative.draft.": ("speculative.",),
    "ui": ("webui",),
    "ui_config_json": ("webui_config_json",),
    "ui_mcp_proxy": ("webui_mcp_proxy",),
}
"""Name in the newest release -> names in older ones; a name with a dot at its end stands for all below it."""

POLL_S, START_POLL_S = 60.0, 0.01
ENDINGS = (signal.SIGTERM, signal.SIGINT)
TRUTH = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


class RefusedError(Exception):
    """A setting that this release doesn't have, or not with this value; its text is one line."""


def names_of(name: str) -> list[str]:
    """The name itself, then what other releases call the same setting."""
    found = [name]
    for newest, older in OTHER_NAMES.items():
        for other in older:
            for here, there in ((newest, other), (other, newest)):
                if name == here:
                    found.append(there)
                elif here.endswith(".") and name.startswith(here):
                    found.append(there + name.removeprefix(here))
    return list(dict.fromkeys(found))


def settle(params: Any, name: str, text: str) -> bool:
    """Set the attribute under whichever of its names this release has; False if it has none of them.

    Raises RefusedError for a value that doesn't fit.
    """
    for candidate in names_of(name):
        *parents, last = candidate.split(".")
        owner = params
        try:
            for parent in parents:
                owner = getattr(owner, parent)
            present = getattr(owner, last)
        except AttributeError:
            continue
        try:
            setattr(owner, last, converted(text, present, candidate))
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise RefusedError(f"{name}={text}: {error}") from error
        return True
    return False


def converted(text: str, present: Any, name: str) -> Any:
    """`text` as a value of the type that the attribute has at present; ValueError if it is none."""
    if isinstance(present, enum.Enum):
        return member(type(present), text)
    if isinstance(present, bool):
        if text.lower() not in TRUTH:
            raise ValueError("wants true or false")
        return TRUTH[text.lower()]
    if isinstance(present, int | float):
        return number(text, type(present))
    if isinstance(present, str):
        return text
    if name == "speculative.types":
        return [member(xllamacpp.common_speculative_type, part) for part in listed(text)]
    if isinstance(present, list):
        return listed(text)
    if isinstance(present, dict | set):
        return type(present)(json.loads(text))
    raise ValueError(f"is a group of settings of type {type(present).__name__}, not a setting")


def number(text: str, kind: type[int] | type[float]) -> int | float:
    """`text` as a number of that kind."""
    try:
        return kind(text)
    except ValueError:
        raise ValueError("wants a whole number" if kind is int else "wants a number") from None


def listed(text: str) -> list[Any]:
    """A list from JSON, or from words with commas between them."""
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    return [part.strip() for part in text.split(",") if part.strip()]


def member(kind: Any, text: str) -> enum.Enum:
    """The member of that name; llama.cpp's long prefix (`COMMON_SPECULATIVE_TYPE_`) may be left out."""
    known: dict[str, enum.Enum] = dict(kind.__members__)
    wanted = text.upper()
    found = [name for name in known if name == wanted or name.endswith("_" + wanted)]
    if wanted in found or len(found) == 1:
        return known[wanted if wanted in found else found[0]]
    raise ValueError(f"wants one of {', '.join(known)}")


def known_names(params: Any, prefix: str = "") -> list[str]:
    """All dotted names of settings of this release."""
    found: list[str] = []
    for name in (name for name in dir(params) if not name.startswith("_")):
        value = getattr(params, name)
        if type(value).__module__.startswith("xllamacpp") and not isinstance(value, enum.Enum):
            found += known_names(value, f"{prefix}{name}.")
        elif not callable(value):
            found.append(prefix + name)
    return found


def parameters(defaults: list[str], wanted: list[str]) -> Any:
    """CommonParams with `defaults`, then `wanted` set; raises RefusedError naming what can't be set."""
    params = xllamacpp.CommonParams()
    for required, settings in ((False, defaults), (True, wanted)):
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not equals:
                raise RefusedError(f"{setting}: write it as NAME=VALUE")
            if settle(params, name, text):
                continue
            if required:
                close = difflib.get_close_matches(name, known_names(params), n=1, cutoff=0.6)
                hint = f" (did you mean {close[0]!r}?)" if close else ""
                raise RefusedError(f"xllamacpp {xllamacpp.__version__} has no setting {name!r}{hint}")
            say(f"note: xllamacpp {xllamacpp.__version__} has no setting {name!r}; left out")
    return params


def port_taken(port: int) -> bool:
    """Something else listens on the loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def say(line: str) -> None:
    """One line of our own into the log, marked as ours."""
    print(f"llamacpp_server: {line}", flush=True)


def leave(line: str, status: int) -> NoReturn:
    """End now with one line. llama.cpp's destructors may wait for clients, so they aren't run."""
    say(line)
    sys.stderr.flush()
    os._exit(status)


def serve(start: Callable[[], Any]) -> NoReturn:
    """Start the server, tell that it listens, wait for SIGTERM or SIGINT, and leave.

    Releases up to b9713 install signal handlers of their own and then swallow the signal. So the signals are
    blocked in every thread (new threads inherit that) and fetched from the kernel: no handler ever runs.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    outcome = dict[str, Any]()

    def run() -> None:
        try:
            outcome["server"] = start()
        except (RuntimeError, ValueError, OSError) as error:
            outcome["error"] = error

    starting = threading.Thread(target=run, daemon=True)
    starting.start()
    told = False
    while signal.sigtimedwait(ENDINGS, POLL_S if told else START_POLL_S) is None:
        if told or starting.is_alive():
            continue
        if "server" not in outcome:
            leave(f"llama.cpp did not start: {outcome.get('error', 'see the lines above')}", 1)
        say(f"LISTENING {outcome['server'].listening_address}")
        told = True
    leave("ended by a signal", 0)


def main() -> NoReturn:
    """Read the settings, refuse what is wrong, serve until told to end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--default", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    try:
        params = parameters(arguments.default, arguments.set)
    except RefusedError as refusal:
        leave(f"refused: {refusal}", 2)
    if params.port and port_taken(params.port):
        leave(f"port {params.port} is taken by another process", 3)
    say(f"xllamacpp {xllamacpp.__version__}")
    serve(lambda: xllamacpp.Server(params))


if __name__ == "__main__":
    main()
