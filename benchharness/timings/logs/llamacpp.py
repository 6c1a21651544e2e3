"""llama.cpp: the timing lines of its tools and its server, slot statistics, and the server at verbosity 5."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchharness.records.logline import Value
from benchharness.timings.logs import prefixes
from benchharness.timings.logs.fields import DamagedError

ENGINE = "llamacpp"
MARKS = (
    " time =",
    "graphs reused",
    "draft acceptance",
    "statistics",
    "draft tokens, new n_tokens",
    "generate_draft:",
    " t/s",
    "stop processing: n_tokens",
    "processing task, is_child",
    "cached n_tokens",
    "offloaded ",
    "no usable GPU",
    "KV buffer size",
    "kv cache rm",
)

_TIME = re.compile(
    r"(prompt eval|generation eval|eval|load|sample|sampling|unaccounted|total) time\s*=\s*([\d.]+) ms"
    r"(?:\s*/\s*(\d+) (runs?|tokens?))?"
    r"(?:\s*\(\s*([\d.]+|inf|-?nan) ms per token,\s*([\d.]+|inf|-?nan) tokens per second\))?(.*)"
)
_LOOKS_LIKE_TIME = re.compile(r"(?:prompt eval|generation eval| eval|total) time\s*=")
_REUSED = re.compile(r"graphs reused\s*=\s*(\d+)")
_ACCEPTANCE = re.compile(
    r"draft acceptance(?: rate)?\s*=\s*([\d.]+|-?nan)\s*\(\s*(\d+) accepted /\s*(\d+) generated\)(.*)"
)
_MEAN = re.compile(r"mean (?:acceptance )?len(?:gth)?\s*=\s*([\d.]+)")
_PER_POSITION = re.compile(r"acceptance rate per position\s*=\s*(\([^)]*\))")
_STATISTICS = re.compile(r"\bstatistics\s+([\w-]+)\s*:\s*(#calls.*)")
_STATISTIC = re.compile(
    r"(#?[\w ]+(?:\([\w,]*\)|/pos)?) = +(\([^)]*\)|[\d.]+(?: +[\d.]+)*(?:, [\d.]+)*)(?: ms)?(?:, |$)"
)
_SLOT = re.compile(r"\bid +(\d+) \| task +(-?\d+) \|")
_JSON_SLOT = re.compile(r"\bid_slot=(\d+) id_task=(\d+)")
_ACCEPTED = re.compile(r"accepted\s+(\d+)\s*/\s*(\d+) draft tokens, new n_tokens = (\d+)")
_DRAFTED = re.compile(r"generate_draft: id=(\d+), #tokens=(\d+), #draft=(\d+), pos_next=(\d+)")
_PROGRESS = re.compile(r"n_gen =\s*(\d+), tg =\s*([\d.]+) t/s(?:, tg_3s =\s*([\d.]+) t/s)?")
_RELEASE = re.compile(r"stop processing: n_tokens = (\d+)(?:, truncated = (\d+))?")
_LAUNCH = re.compile(r"processing task, is_child = (\d+)")
_CACHED = re.compile(r"cached n_tokens = (\d+)")
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to (\w+)")
_NO_GPU = re.compile(r"no usable GPU found")
_BUFFER = re.compile(r":\s+(\S+) KV buffer size =\s*([\d.]+) MiB")


def parse(text: str) -> tuple[str, dict[str, Value]] | None:
    """(kind, fields) of a line, or None for a line that says nothing of interest.

    Raises:
        DamagedError: the line is one of llama.cpp's, but broken.
    """
    text, wrapped = prefixes.unwrap(text)
    for mark, reader in _READERS:
        if mark in text and (told := reader(text)) is not None:
            kind, found = told
            slot = _SLOT.search(text) or _JSON_SLOT.search(text)
            stamp = prefixes.timestamp(text) or wrapped
            return kind, {
                "timestamp": stamp,
                "slot": slot[1] if slot else None,
                "task": slot[2] if slot else None,
                **found,
            }
    return None


_Told = tuple[str, dict[str, Value]]


def _time(text: str) -> _Told | None:
    match = _TIME.search(text)
    if match is None:
        if _LOOKS_LIKE_TIME.search(text):
            raise DamagedError("a time without its figure")
        return None
    what, ms, count, unit, per_token, tps, _ = match.groups()
    if what in ("prompt eval", "generation eval", "eval") and (count is None or tps is None):
        raise DamagedError("an eval time without its count or speed")
    if what == "prompt eval":
        return "prompt_eval", {
            "prompt_ms": ms,
            "prompt_tokens": count,
            "prompt_ms_per_token": per_token,
            "prompt_tps": tps,
        }
    if what in ("eval", "generation eval"):
        key = "runs" if unit.startswith("run") else "eval_tokens"
        return "eval", {"eval_ms": ms, key: count, "ms_per_token": per_token, "tps": tps}
    name = "sample" if what == "sampling" else what
    found: dict[str, Value] = {f"{name}_ms": ms}
    if count is not None:
        found[f"{name}_{'runs' if unit.startswith('run') else 'tokens'}"] = count
    return name, found


def _reused(text: str) -> _Told | None:
    match = _REUSED.search(text)
    return ("graphs", {"graphs_reused": match[1]}) if match else None


def _acceptance(text: str) -> _Told | None:
    match = _ACCEPTANCE.search(text)
    if match is None:
        if re.search(r"draft acceptance(?: rate)?\s*=", text):
            raise DamagedError("draft acceptance without its counts")
        return None
    mean, per_position = _MEAN.search(match[4]), _PER_POSITION.search(match[4])
    return "acceptance", {
        "rate": match[1],
        "accepted": match[2],
        "generated": match[3],
        "mean_len": mean[1] if mean else None,
        "per_pos": per_position[1] if per_position else None,
    }


_STATISTIC_NAMES = {
    "#calls": "calls",
    "#calls(b,g,a)": "calls",
    "#gen drafts": "gen_drafts",
    "#acc drafts": "acc_drafts",
    "#gen tokens": "gen_tokens",
    "#acc tokens": "acc_tokens",
    "#mean acc len": "mean_len",
    "#acc rate/pos": "per_pos",
    "dur": "dur_ms",
}


def _statistics(text: str) -> _Told | None:
    match = _STATISTICS.search(text)
    if match is None:
        return None
    found: dict[str, Value] = {
        "type": match[1],
        **dict.fromkeys(("calls", "gen_tokens", "acc_tokens", "dur_ms")),
    }
    rest = match[2].rstrip()
    position = 0
    while position < len(rest):
        piece = _STATISTIC.match(rest, position)
        if piece is None:
            raise DamagedError(f"no `name = value` in {rest[position : position + 40]!r}")
        label = piece[1].strip()
        key = _STATISTIC_NAMES.get(label) or ("dur_ms" if label.startswith("dur(") else None)
        found[key or re.sub(r"\W+", "_", label).strip("_")] = piece[2]
        position = piece.end()
    return "statistics", found


def _matched(kind: str, pattern: re.Pattern[str], *keys: str) -> Callable[[str], _Told | None]:
    """A reader of lines whose figures are the groups of one pattern."""

    def read(text: str) -> _Told | None:
        match = pattern.search(text)
        return (kind, dict(zip(keys, match.groups(), strict=False))) if match else None

    return read


_READERS: tuple[tuple[str, Callable[[str], _Told | None]], ...] = (
    (" time =", _time),
    ("graphs reused", _reused),
    ("draft acceptance", _acceptance),
    ("statistics", _statistics),
    ("draft tokens, new", _matched("draft_accepted", _ACCEPTED, "accepted", "generated", "n_tokens")),
    (
        "generate_draft:",
        _matched("draft_generated", _DRAFTED, "token_id", "n_tokens", "generated", "pos_next"),
    ),
    (" t/s", _matched("progress", _PROGRESS, "n_gen", "tps", "tps_3s")),
    ("stop processing:", _matched("release", _RELEASE, "n_tokens", "truncated")),
    ("processing task, is", _matched("launch", _LAUNCH, "is_child")),
    ("cached n_tokens", _matched("prompt_cache", _CACHED, "cached_tokens")),
    ("offloaded ", _matched("offload", _OFFLOADED, "offloaded_layers", "layers", "device")),
    ("no usable GPU", _matched("no_gpu", _NO_GPU)),
    ("KV buffer size", _matched("kv_buffer", _BUFFER, "device", "mib")),
)
