"""What stands in front of a log line: containers, JSON, colours, timestamps, ranks, process ids.

Nothing here is positional: a logger of one's own, a container runtime and a launcher may each add their own
prefix. The message is found by its words, and what precedes it is searched for what it may hold.
"""

from __future__ import annotations

import json
import re

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[\d{1,3}(?:;\d{1,3})*m")
"""Colour codes; also with the escape character lost, as a paste leaves them."""

_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)"  # ISO, and Python's
    r"|(?<=\[)(\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)"  # TensorRT-LLM
    r"|\b([IWEF]\d{4} \d\d:\d\d:\d\d(?:\.\d+)?)"  # glog
    r"|(?<![\d-])(\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)"  # vLLM: no year
    r"|\b([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"  # syslog
    r"|^(\d+\.\d\d\.\d{3}\.\d{3})(?= )"  # llama.cpp: since its start
    r"|(?<=\[)(\d\d:\d\d:\d\d)(?=[ \]])"  # SGLang 0.3: no date
)
_RANK = re.compile(
    r"(?<![A-Za-z])(DP|TP|PP|EP|ATTN_CP|ATTN_TP|ATTN_DP|MOE_DP|MOE_EP|MOE_TP|CP)(\d+)(?![\w.])"
)
_PROCESS_RANK = re.compile(
    r"\((?:EngineCore|Worker|VllmWorker|RayWorkerWrapper)[^)]*?_(?:DP|TP|PP|EP)\d[^)]*\)"
)
_UNDERSCORED = re.compile(r"_(DP|TP|PP|EP)(\d+)")
_GPU = re.compile(r"\[gpu(?:_id)?[=:] ?(\d+)\]")
_PID = re.compile(r"\bpid=(\d+)|\b(?:INFO|DEBUG|WARNING|ERROR) +(\d+) +\[")
_MESSAGE_KEYS = ("message", "msg", "log", "event", "text", "MESSAGE", "body")
_TIME_KEYS = ("timestamp", "time", "asctime", "ts", "@timestamp", "__REALTIME_TIMESTAMP")
_NESTED = 4

RANKS = ("dp", "tp", "pp", "ep")
"""Ranks that every SGLang line has a key for; rarer ones have one where they are present."""


def unwrap(text: str) -> tuple[str, str | None]:
    """(the line without JSON around it and without colours, the wrapper's own time or None)."""
    stamp: str | None = None
    for _ in range(_NESTED):
        start = text.find("{")
        if start < 0 or not text.rstrip().endswith("}") or '"' not in text[start : start + 3]:
            break
        message, found = _message(text[start:])
        if message is None:
            break
        text, stamp = message, found or stamp
    if "\x1b" in text or "[0m" in text:
        text = ANSI.sub("", text)
    return text, stamp


def _message(text: str) -> tuple[str | None, str | None]:
    """The message of a JSON log record, and its time; (None, None) where it is no such record."""
    try:
        record = json.loads(text)
    except ValueError:
        return None, None
    if not isinstance(record, dict):
        return None, None
    message = next((record[key] for key in _MESSAGE_KEYS if isinstance(record.get(key), str)), None)
    if message is None:
        return None, None
    stamp = next((str(record[key]) for key in _TIME_KEYS if key in record), None)
    names = "".join(f" {key.upper()}{record[key]}" for key in RANKS if isinstance(record.get(key), int))
    level = f"[{names.strip()}] " if names else ""
    return level + message.rstrip("\n"), stamp


def timestamp(prefix: str) -> str | None:
    """The time nearest to the message: the engine's own rather than a container's."""
    found = None
    for match in _STAMP.finditer(prefix):
        found = match
    return found[found.lastindex or 0] if found else None


def ranks(prefix: str) -> dict[str, str]:
    """Ranks by lower-case name: {"dp": "0", "tp": "1"}; the last of a name wins."""
    found = {name.lower(): number for name, number in _RANK.findall(prefix)}
    if not found and (process := _PROCESS_RANK.search(prefix)):
        found = {name.lower(): number for name, number in _UNDERSCORED.findall(process[0])}
    return found


def gpu(prefix: str) -> str | None:
    """The index of `[gpu=N]`, as SGLang 0.2 prints it."""
    match = _GPU.search(prefix)
    return match[1] if match else None


def pid(prefix: str) -> str | None:
    """The process id, where a logger prints it."""
    match = _PID.search(prefix)
    return (match[1] or match[2]) if match else None
