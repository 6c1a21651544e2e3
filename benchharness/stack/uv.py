"""uv, the tool that builds environments: how it is called, and what its failures mean."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from uv import find_uv_bin

from benchharness.errors import HarnessError, InfrastructureError, UnbuildableError, UsageError
from benchharness.records import Command
from benchharness.stack.logfile import GrowingLog
from benchharness.stack.processtree import ProcessTree, signal_name

STOP_GRACE_S = 5.0
SENTENCE_CHARACTERS = 400
OUTPUT_BYTES = 4 << 20
"""How much of the end of a step's output is looked at."""
IMPORTING = "importing "
IMPORT_CODE = f"""
import importlib, sys
for name in sys.argv[1:]:
    print({IMPORTING!r} + name, flush=True)
    importlib.import_module(name)
"""

_URL_USER = re.compile(r"(\w://)[^/@\s]+@")
_NETWORK = re.compile(
    r"error sending request|dns error|request failed after|timed out|connection (?:refused|reset|closed)"
    r"|network was disabled|could not connect|certificate|status server error|network unreachable",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"\b(?:401|403)\b.*(?:unauthorized|forbidden)", re.IGNORECASE)
_DISK = re.compile(r"no space left|disk quota|read-only file system|permission denied", re.IGNORECASE)
_NO_VERSION = re.compile(r"there is no version of (\S+?)(===?)([^\s,]+)")
_NO_PACKAGE = re.compile(r"(\S+) was not found in the (?:package registry|provided package locations)")
_NO_WHEEL = re.compile(r"(\S+) has no (?:usable )?wheels")
_MALFORMED = re.compile(r"parse requirement|Failed to parse: ")
_NO_PLACE = re.compile(r"Failed to read `--find-links` directory|Distribution not found at: file:")
_NEXT_PART = re.compile(r"^(?:error:|\s*×|\s*[├╰]─▶|\s*cause:|\s*Caused by:)\s*")
_ASIDE = re.compile(r"\s*(?:hint:|\[std(?:out|err)\])")
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt)\b")


class Builder:
    """Builds one environment, step by step, with all that is said in one log.

    Args:
        folder: the environment; must not exist yet.
        log: existing file that the output is added to.
        tell: called with each line of output.
        lock_fd: of the environment's lock, if it has one; it stays open until the last process of a step is
            gone, also if the harness is killed.
    """

    def __init__(
        self, folder: Path, log: Path, tell: Callable[[str], None], lock_fd: int | None = None
    ) -> None:
        self._folder = folder
        self._python = str(folder / "bin" / "python")
        self._log = log
        self._tell = tell
        self._lock_fd = lock_fd

    def create(self, python: str) -> None:
        """Make the empty environment of an interpreter, given by version or path."""
        code, output = self._step(_uv(), "venv", "--no-project", "--python", python, str(self._folder))
        if code != 0:
            raise self._no_interpreter(python, code, output)

    def install(self, requirements: Path, options: Sequence[str]) -> None:
        """Install what the file lists."""
        if requirements.stat().st_size == 0:
            return
        self._pip("install", "--python", self._python, *options, "-r", str(requirements))

    def resolve(self, requirements: Path, into: Path, options: Sequence[str]) -> None:
        """Write what the file's lines come to, one `name==version` a line.

        What `into` lists beforehand is preferred where it fits.
        """
        plain = ("--no-header", "--no-annotate", "--no-strip-extras", "--output-file", str(into))
        self._pip("compile", *plain, *options, str(requirements))

    def install_apart(self, requirements: Path, options: Sequence[str]) -> None:
        """Install into the bare folder, for an interpreter and platform that need not be here."""
        self._pip("install", "--target", str(self._folder), *options, "-r", str(requirements))

    def strip(self, library: Path, into: Path) -> bool:
        """Write the library without its symbols for debuggers; False where that can't be done."""
        code, _ = self._step("strip", "--strip-all", "-o", str(into), str(library))
        return code == 0

    def _pip(self, *arguments: str) -> None:
        index = ("--no-index",) if without_index() else ()
        code, output = self._step(_uv(), "pip", arguments[0], *index, *arguments[1:])
        if code != 0:
            raise failure(output, code, self._log)

    def check_imports(self, modules: Sequence[str]) -> None:
        """Import the modules in the environment; raises UnbuildableError."""
        if not modules:
            return
        code, output = self._step(self._python, "-c", IMPORT_CODE, *modules)
        if code == 0:
            return
        lines = [line for line in output.splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if line.startswith(IMPORTING)), "importing")
        reasons = [line for line in lines if _EXCEPTION.match(line)]
        reason = reasons[-1] if reasons else f"python ended with code {code}{signal_name(code)}"
        raise UnbuildableError(f"{last} failed: {_one_line(reason)}", f"the log is {self._log}")

    def _step(self, *argv: str) -> tuple[int, str]:
        """Carry out one command; its exit code and its output's end."""
        start = self._log.stat().st_size
        command = Command(argv, _variables(), cwd=str(self._folder.parent))
        hold = () if self._lock_fd is None else (self._lock_fd,)
        tree = ProcessTree(command, self._log, append=True, hold_fds=hold)
        log = GrowingLog(self._log, start)
        try:
            while tree.wait(0.1) is None and tree.alive:
                self._tell_lines(log)
            self._tell_lines(log)
        finally:
            log.close()
            tree.stop(STOP_GRACE_S)
        code = tree.exit_code
        if code is None:
            raise InfrastructureError(f"the build was cut short: {argv[0]} lost its guard", "try again")
        return code, self._output_since(start)

    def _output_since(self, start: int) -> str:
        with self._log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - OUTPUT_BYTES))
            return file.read(OUTPUT_BYTES).decode("utf-8", errors="replace")

    def _tell_lines(self, log: GrowingLog) -> None:
        for line in log.new_lines():
            self._tell(line)

    def _no_interpreter(self, python: str, code: int, output: str) -> HarnessError:
        sentence, _ = _essence(output)
        if _DISK.search(sentence) or code < 0:
            return failure(output, code, self._log)
        return UnbuildableError(
            f"Python {python} can't be used: {_one_line(sentence)}",
            f"install it (`uv python install {python}`), or set `python:` to another version or to a path",
        )


def failure(output: str, code: int, log: Path) -> HarnessError:
    """What a failed `uv pip install` means, in one line.

    Network, disk and credentials are InfrastructureError: they say nothing of the combination.
    A malformed line is UsageError. All else is UnbuildableError.
    """
    sentence, hint = _essence(output)
    read_log = f"the log is {log}"
    if code < 0:
        return InfrastructureError(f"uv ended with code {code}{signal_name(code)}", read_log)
    if _DISK.search(sentence):
        return InfrastructureError(
            f"the environment can't be written: {_one_line(sentence)}", "free some space in the cache folder"
        )
    if _REFUSED.search(sentence):
        return InfrastructureError(f"an index refused: {_one_line(sentence)}", "check its user and password")
    if _NETWORK.search(sentence) or "network was disabled" in hint:
        return InfrastructureError(
            f"an index can't be reached: {_one_line(sentence)}", "check the network, then run again"
        )
    if _MALFORMED.search(sentence):
        reason = _one_line(sentence.partition(" | ")[2] or sentence)
        return UsageError(f"a requirement is malformed: {reason}", "write it as `name==version`")
    if _NO_PLACE.search(sentence):
        return UsageError(_one_line(sentence), "correct the path")
    return _unresolvable(sentence, read_log)


def _unresolvable(sentence: str, read_log: str) -> UnbuildableError:
    if found := _NO_VERSION.search(sentence):
        name, _, version = found.groups()
        if without_index():
            return _no_wheel(f"{name}=={version}")
        return UnbuildableError(
            f"{name}=={version} is not on the index", f"`pip index versions {name}` lists what there is"
        )
    if found := _NO_PACKAGE.search(sentence):
        if without_index():
            return _no_wheel(found[1])
        return UnbuildableError(f"there is no package {found[1]} on the index", "check its spelling")
    if found := _NO_WHEEL.search(sentence):
        return UnbuildableError(
            f"{found[1]} has no build for this Python and machine", "choose another `python:` or release"
        )
    return UnbuildableError(_one_line(sentence), read_log)


def without_index() -> bool:
    """Whether only wheel folders serve: pip's own variable says so, which uv doesn't know."""
    return os.environ.get("PIP_NO_INDEX", "").lower() in ("1", "true", "yes", "on")


def _no_wheel(what: str) -> UnbuildableError:
    return UnbuildableError(
        f"no wheel of {what} is in the folders of wheels, and PIP_NO_INDEX forbids an index",
        "add the wheel, or name its folder under `find_links:`",
    )


def _essence(output: str) -> tuple[str, str]:
    """uv's error as one text, its causes set apart by " | ", and its hints."""
    lines = output.splitlines()
    first = next((n for n, line in enumerate(lines) if re.match(r"error: |\s*× ", line)), len(lines))
    parts: list[str] = []
    for line in lines[first:]:
        if _ASIDE.match(line):
            break
        if mark := _NEXT_PART.match(line):
            parts.append(line[mark.end() :].strip())
        elif text := line.strip(" │"):
            parts[-1] += f" {text}"
    hint = " ".join(line for line in lines[first:] if "hint:" in line or "network was disabled" in line)
    return " | ".join(parts) or "uv said nothing", hint


def _one_line(sentence: str) -> str:
    text = _URL_USER.sub(r"\1***@", sentence)
    text = re.sub(r"^No solution found when resolving dependencies:? \| ", "", text)
    text = re.sub(r",? we can conclude that your requirements are unsatisfiable\.?", "", text)
    text = re.sub(r"\s*\^+$", "", text).replace(" | ", ": ")
    return text if len(text) <= SENTENCE_CHARACTERS else text[: SENTENCE_CHARACTERS - 2] + " …"


def _uv() -> str:
    try:
        return find_uv_bin()
    except FileNotFoundError:
        raise InfrastructureError("the program uv is missing", "install it again: `pip install uv`") from None


def _variables() -> dict[str, str | None]:
    """Over uv's own variables, which pass through: no colours, no download of interpreters unless allowed."""
    return {
        "NO_COLOR": "1",
        "UV_NO_PROGRESS": "1",
        "UV_SYSTEM_PYTHON": None,
        "UV_PYTHON_DOWNLOADS": os.environ.get("UV_PYTHON_DOWNLOADS", "never"),
        "UV_LINK_MODE": os.environ.get("UV_LINK_MODE", "hardlink"),
        # Folders of wheels that the user's pip knows serve uv as well; pip parts them by white space.
        "UV_FIND_LINKS": os.environ.get(
            "UV_FIND_LINKS", ",".join(os.environ.get("PIP_FIND_LINKS", "").split()) or None
        ),
    }
