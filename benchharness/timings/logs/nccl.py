"""NCCL_DEBUG=INFO lines, from whichever engine loaded the library."""

from __future__ import annotations

import re

from benchharness.records.logline import Value
from benchharness.timings.logs import prefixes
from benchharness.timings.logs.fields import DamagedError

ENGINE = "nccl"
MARKS = ("NCCL INFO", "NCCL WARN", "NCCL version")

_LINE = re.compile(r"(?:([\w.-]+):(\d+):(\d+) )?(?:\[(\d+)\] )?(?:\S+:\d+ )?NCCL (INFO|WARN)\b ?(.*)")
_SET = re.compile(r"(NCCL_\w+) set (?:by environment )?to (.+?)\.?$")
_VERSION = re.compile(r"NCCL version ([\d.]+)(?:\+cuda([\d.]+))?")
_REPEATED = re.compile(r"\s*\[repeated (\d+)x across cluster\].*$")
_COMM = re.compile(r"\brank (\d+) nranks (\d+) cudaDev (\d+)")


def parse(text: str) -> tuple[str, dict[str, Value]] | None:
    """(kind, fields) of a line, or None for a line that isn't NCCL's.

    `rank` is the device's index on its host, as NCCL prints it between brackets. `repeated` counts lines
    that Ray left out: ranks are hidden then.

    Raises:
        DamagedError: an NCCL line without a message.
    """
    text, wrapped = prefixes.unwrap(text)
    text = text.rstrip()
    repeated = _REPEATED.search(text)
    if repeated:
        text = text[: repeated.start()]
    match = _LINE.search(text)
    if match is None:
        version = _VERSION.search(text)
        return ("nccl", {"nccl": version[1], "cuda": version[2]}) if version else None
    host, process, thread, rank, level, message = match.groups()
    if not message.strip():
        raise DamagedError("an NCCL line without a message")
    found: dict[str, Value] = {
        "timestamp": prefixes.timestamp(text[: match.start()]) or wrapped,
        "host": host,
        "pid": process,
        "tid": thread,
        "rank": rank,
        "repeated": repeated[1] if repeated else None,
    }
    kind, said = _message(message, level)
    return kind, {**found, **said}


def _message(message: str, level: str) -> tuple[str, dict[str, Value]]:
    if variable := _SET.search(message):
        return "nccl_env", {"var": variable[1], "value": variable[2]}
    if version := _VERSION.search(message):
        return "nccl", {"nccl": version[1], "cuda": version[2]}
    found: dict[str, Value] = {"message": message, "level": level}
    if comm := _COMM.search(message):
        found.update({"comm_rank": comm[1], "nranks": comm[2], "cuda_device": comm[3]})
    return "nccl_info", found
