"""SGLang 0.2 to 0.5.23.

A window's line is `Decode batch` or `Prefill batch`, then a full stop, a comma or an iteration number, then
`label: value` pairs in an order of the release's own. A line whose head was cut off is known by its
throughput.
"""

from __future__ import annotations

import re
from functools import lru_cache

from benchharness.records.logline import Value
from benchharness.timings.logs import fields, prefixes
from benchharness.timings.logs.fields import DamagedError

ENGINE = "sglang"
DECODE, PREFILL = "decode", "prefill"
MARKS = (
    "ecode batch",
    "refill batch",
    "throughput (token/s)",
    "ReqTimeStats(",
    "Req Time Stats(",
    "raph bs",
    "raph begin",
    "raph end",
    "max_total_num_tokens=",
    "using nccl==",
    "etract requests",
    "Testing retraction",
    "server_args=",
    "fired up and ready",
    "JIT",
)

_HEAD = re.compile(r"\b(Decode|Prefill) batch(?: \[(\d+)\])?[.,]?\s*")
_FRAGMENT = re.compile(r"(?:#?[A-Za-z][\w -]*: [^,]*, )+(gen|input) throughput \(token/s\): ")
_THROUGHPUT = re.compile(r"\b(?:gen|input) throughput \(token/s\)")
_GRAPH = re.compile(r"(\w+ graph)")
_NAMES = {
    "gen throughput (token/s)": "gen_tps",
    "input throughput (token/s)": "input_tps",
    "full token usage": "full_usage",
    "swa token usage": "swa_usage",
    "pre-allocated usage": "prealloc_usage",
}
_COMMON = ("timestamp", "gpu", "dp", "tp", "pp", "ep", "pid")
_KEYS = {
    DECODE: (
        *("running_req", "token", "token_usage", "full_token", "full_usage", "swa_token", "swa_usage"),
        *("accept_len", "accept_rate", "cuda_graph", "graph_label", "graph", "gen_tps", "queue_req"),
        *("prealloc_usage", "prealloc_req", "transfer_req", "retracted_req"),
    ),
    PREFILL: (
        *("new_seq", "new_token", "cached_token", "cache_hit_rate", "token_usage", "running_req"),
        *("queue_req", "pending_token", "graph_label", "graph", "input_tps"),
    ),
}
_EMPTY = {kind: dict.fromkeys(keys) for kind, keys in _KEYS.items()}
_PARTS = {
    DECODE: {"running_req", "gen_tps", "queue_req", "tokens in the pool", "usage of the pool"},
    PREFILL: {"new_seq", "new_token", "running_req", "queue_req"},
}
_COUNT, _NUMBER, _FLAG = "count", "number", "flag"
_POOL = re.compile(r"(?:\w+_)?(?:token|num)")
_COUNTS = re.compile(r"(?:\w+_)?(?:req|token|seq|num)")
_STATS = re.compile(r"Req ?Time ?Stats\((.*?)\):? ?(.*)")
_PAIR = re.compile(r"([A-Za-z][\w .]*?)=(\[[^\]]*\]|\{[^}]*\}|'[^']*'|[^,]*)(?:, |,?$| (?=[a-z_]+=))")
_STAT_NAMES = {
    "initial_prefill_elapsed": "prefill_ms",
    "post_prefill_elapsed": "post_prefill_ms",
}
_GRAPH_BEGIN = re.compile(
    r"[Cc]apture ([\w ]*?)(?:cuda|CUDA|cpu|CPU|npu|NPU) graph "
    r"(begin|end|bs|num tokens)\b(.*)"
)
_SIZES = re.compile(r"\b(?:bs=|bs )(\[[\d, ]*\])")
_ELAPSED = re.compile(r"elapsed[=:] ?([\d.]+) s")
_LIMITS = re.compile(r"max_total_num_tokens=\d+.*")
_NCCL = re.compile(r"using nccl==([\w.+-]+)")
_RETRACT = re.compile(r"#retracted_reqs: (\d+)")
_ARGUMENT = re.compile(
    r"'?\b(speculative_algorithm|speculative_num_draft_tokens|speculative_num_steps|speculative_eagle_topk"
    r"|speculative_attention_mode|decode_log_interval|disable_cuda_graph|cuda_graph_max_bs|attention_backend"
    r"|tp_size|dp_size|pp_size|ep_size|disable_overlap_schedule)'?[=:] ?('[^']*'|[^,)}]+)"
)
_JIT = re.compile(
    r"(?:Entering )?(?:DeepGEMM|DEEPGEMM) JIT.*|JIT[- ]compil\w*.*|(?:Compiling|Building|Loading) JIT.*"
)


def parse(text: str) -> tuple[str, dict[str, Value]] | None:
    """(kind, fields) of a line, or None for a line that says nothing of interest.

    Raises:
        DamagedError: the line is one of SGLang's, but broken.
    """
    text, wrapped = prefixes.unwrap(text)
    match = _HEAD.search(text)
    if match is not None:
        if "#" not in text[match.end() :] and prefixes.timestamp(text[: match.start()]) is None:
            return None  # somebody's prose
        kind = match[1].lower()
        return kind, _window(kind, text[: match.start()], text[match.end() :], wrapped, match[2])
    if (fragment := _FRAGMENT.search(text)) is not None:
        kind = DECODE if fragment[1] == "gen" else PREFILL
        return kind, _window(
            kind, text[: fragment.start()], text[fragment.start() :], wrapped, None, whole=False
        )
    if _THROUGHPUT.search(text) and "#" in text:
        raise DamagedError("the head of the line is missing and the rest is no list of fields")
    return _other(text, wrapped)


def _window(
    kind: str, prefix: str, rest: str, wrapped: str | None, iteration: str | None, *, whole: bool = True
) -> dict[str, Value]:
    """The fields of a decode or prefill window."""
    found = {**_common(prefix, wrapped), **_EMPTY[kind]}
    said = set()
    for label, value in fields.split(rest):
        key, check, part = _meaning(kind, label)
        if check is _COUNT and not value.isdigit():
            raise DamagedError(f"{label} is no count: {value[:20]!r}")
        if check is _NUMBER and not fields.number(value):
            raise DamagedError(f"{label} is no number: {value[:20]!r}")
        if check is _FLAG:
            found["graph_label"], found["graph"] = label, value
        found[key] = value
        said.add(part)
    if iteration is not None:
        found["forward_ct"] = iteration
    if whole and not _PARTS[kind] <= said:
        # Every release prints these: something was cut out of the line.
        raise DamagedError(f"the line lacks {', '.join(sorted(_PARTS[kind] - said))}")
    return found


@lru_cache(maxsize=4096)
def _meaning(kind: str, label: str) -> tuple[str, str, str]:
    """(key, what its value must be, which part of the line it is) of a label."""
    key = _NAMES.get(label) or fields.name(label)
    if key in ("kind", "engine", "line", "text"):
        key += "_"
    part = key
    if kind == DECODE and _POOL.fullmatch(key):
        part = "tokens in the pool"
    elif key.endswith("usage"):
        part = "usage of the pool"
    if _GRAPH.fullmatch(label):
        return key, _FLAG, part
    if _COUNTS.fullmatch(key):
        return key, _COUNT, part
    return key, _NUMBER if key in _KEYS[kind] else "", part


def _common(prefix: str, wrapped: str | None) -> dict[str, Value]:
    found: dict[str, Value] = dict.fromkeys(_COMMON)
    found["timestamp"] = prefixes.timestamp(prefix) or wrapped
    found.update(prefixes.ranks(prefix))
    found["gpu"], found["pid"] = prefixes.gpu(prefix), prefixes.pid(prefix)
    return found


def _other(text: str, wrapped: str | None) -> tuple[str, dict[str, Value]] | None:
    """Lines about a request, the start-up, or something that pollutes a window."""
    for needle, reader in _READERS:
        if needle in text and (told := reader(text)) is not None:
            kind, found, start = told
            common = {
                key: value for key, value in _common(text[:start], wrapped).items() if value is not None
            }
            return kind, {"timestamp": None, **common, **found}
    return None


_Told = tuple[str, dict[str, Value], int]


def _request(text: str) -> _Told | None:
    match = _STATS.search(text)
    if match is None:
        raise DamagedError("request statistics without an end")
    found: dict[str, Value] = {}
    for label, value in (*_PAIR.findall(match[1]), *_PAIR.findall(match[2])):
        key = label.strip().replace(" ", "_")
        if value.endswith("ms"):
            key = _STAT_NAMES.get(key) or f"{key.removesuffix('_duration')}_ms"
        found[key] = value.removesuffix("ms")
    if not found:
        raise DamagedError("request statistics without any")
    return "request_stats", found, match.start()


def _graphs(text: str) -> _Told | None:
    match = _GRAPH_BEGIN.search(text)
    if match is None:
        return None
    found: dict[str, Value] = {"graph_of": match[1].strip() or None, "stage": match[2]}
    if sizes := _SIZES.search(f"{match[2]}{match[3]}"):
        found["graph_bs"] = sizes[1]
    if elapsed := _ELAPSED.search(match[3]):
        found["elapsed_s"] = elapsed[1]
    if (limits := _LIMITS.search(match[3])) is not None:
        found.update(dict(_PAIR.findall(limits[0])))
    return "graph_capture", found, match.start()


def _limits(text: str) -> _Told | None:
    match = _LIMITS.search(text)
    if match is None:
        return None
    return "limits", dict(_PAIR.findall(match[0])), match.start()


def _nccl(text: str) -> _Told | None:
    match = _NCCL.search(text)
    return ("nccl", {"nccl": match[1]}, match.start()) if match else None


def _retraction(text: str) -> _Told | None:
    count = _RETRACT.search(text)
    return "retraction", {"retracted_req": count[1] if count else None}, text.find("etract")


def _arguments(text: str) -> _Told | None:
    start = text.find("server_args=")
    found: dict[str, Value] = {}
    for key, value in _ARGUMENT.findall(text, start):
        found[key] = None if value.strip("'") == "None" else value.strip("'")
    return "server_args", found, start


def _ready(text: str) -> _Told | None:
    return "ready", {}, text.find("The server")


def _jit(text: str) -> _Told | None:
    match = _JIT.search(text)
    return ("jit", {"what": match[0][:200]}, match.start()) if match else None


_READERS = (
    ("Stats(", _request),
    ("server_args=", _arguments),
    ("apture", _graphs),
    ("max_total_num_tokens=", _limits),
    ("using nccl==", _nccl),
    ("etract requests", _retraction),
    ("Testing retraction", _retraction),
    ("fired up and ready", _ready),
    ("JIT", _jit),
)
