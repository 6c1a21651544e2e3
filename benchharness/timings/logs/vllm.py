"""vLLM: V0 (0.4 to 0.8) and V1."""

from __future__ import annotations

import re

from benchharness.records.logline import Value
from benchharness.timings.logs import fields, prefixes
from benchharness.timings.logs.fields import DamagedError

ENGINE = "vllm"
MARKS = (
    "Avg prompt throughput:",
    "SpecDecoding metrics:",
    "Speculative metrics:",
    "iteration elapsed time",
    "JIT compilation",
    "explicitly set to",
    "NCCL_CUMEM_ENABLE",
    "speculative_config=",
    "cudagraph_capture_sizes",
    "preempted",
    "vLLM is using nccl==",
)

_PIECE = re.compile(r", (?=[A-Z][\w ()/-]*: )")
_ENGINE_INDEX = re.compile(r"\bEngine (\d+): ")
_AGGREGATED = re.compile(r"(\d+) Engines Aggregated: ")
_UNITS = re.compile(r" ?(?:tokens/s|tokens|reqs)\.?$")
_CACHE = re.compile(r"(\w+) KV cache usage")
_THROUGHPUT_NAMES = {
    "Avg prompt throughput": "prompt_tps",
    "Avg generation throughput": "gen_tps",
    "Prefix cache hit rate": "prefix_hit",
    "External prefix cache hit rate": "external_prefix_hit",
    "MM cache hit rate": "mm_hit",
}
_THROUGHPUT_KEYS = (
    *("engine_index", "prompt_tps", "gen_tps", "running", "waiting", "swapped", "pending"),
    *("kv_usage", "gpu_kv", "cpu_kv", "prefix_hit", "external_prefix_hit"),
)
_SPEC_NAMES = {
    "Mean acceptance length": "mean_len",
    "Current speculative depth": "depth",
    "Accepted throughput": "accepted_tps",
    "Drafted throughput": "drafted_tps",
    "Per-position acceptance rate": "per_pos",
    "Avg Draft acceptance rate": "rate",
    "Draft acceptance rate": "rate",
    "Avg draft acceptance rate": "rate",
}
_SPEC_KEYS = ("mean_len", "depth", "accepted_tps", "drafted_tps", "accepted", "drafted", "per_pos", "rate")
_OLD_SPEC_NAMES = {
    "Draft acceptance rate": "accept_rate",
    "System efficiency": "system_efficiency",
    "Number of speculative tokens": "k",
    "Number of accepted tokens": "accepted",
    "Number of draft tokens": "draft",
    "Number of draft tokens tokens": "draft",
    "Number of emitted tokens": "emitted",
    "Number of emitted tokens tokens": "emitted",
}
_OLD_SPEC_KEYS = ("accept_rate", "system_efficiency", "k", "accepted", "draft", "emitted")
_ITERATION = re.compile(
    r"Iteration\((\d+)\): (\d+) context requests?, (\d+) context tokens?, (\d+) generation requests?, "
    r"(\d+) generation tokens?, iteration elapsed time: ([\d.]+) ms( \(dummy\))?(.*)"
)
_JIT = re.compile(r"(\w*) ?kernel JIT compilation during inference: ([\w.<>:-]+?)\.?(?:\s|$)")
_NCCL = re.compile(r"\b(NCCL_\w+) (?:is |was )?(?:explicitly |already )?set to (\S+?)[,.;]?(?:\s|$)(.*)")
_VERSION = re.compile(r"LLM engine \(v([\w.+-]+)\)")
_CONFIG = re.compile(
    r"'?\b(method|num_spec_tokens|num_speculative_tokens|tensor_parallel_size|data_parallel_size"
    r"|pipeline_parallel_size|enforce_eager|dtype|max_num_seqs|cudagraph_mode|cudagraph_capture_sizes"
    r"|max_cudagraph_capture_size)'?[=:] ?(\[[^\]]*\]|'[^']*'|[^,)}]+)"
)


def parse(text: str) -> tuple[str, dict[str, Value]] | None:
    """(kind, fields) of a line, or None for a line that says nothing of interest.

    Raises:
        DamagedError: the line is one of vLLM's, but broken.
    """
    text, wrapped = prefixes.unwrap(text)
    for mark, reader in _READERS:
        start = text.find(mark)
        if start >= 0 and (told := reader(text, start)) is not None:
            kind, found = told
            prefix = text[:start]
            found.setdefault("timestamp", prefixes.timestamp(prefix) or wrapped)
            for key, value in {
                "pid": prefixes.pid(prefix),
                "dp": None,
                "tp": None,
                **prefixes.ranks(prefix),
            }.items():
                found.setdefault(key, value)
            return kind, found
    return None


_Told = tuple[str, dict[str, Value]]


def _pieces(text: str, names: dict[str, str]) -> dict[str, str]:
    """Fields of `Label: value, Label: value`, where a value may hold commas; units are left out.

    Raises:
        DamagedError: a piece is no `label: value`, or a value is empty.
    """
    found = {}
    for piece in _PIECE.split(text.rstrip(" .\r")):
        label, separator, value = piece.partition(": ")
        value = _UNITS.sub("", value.strip())
        if not separator or not value:
            raise DamagedError(f"no `label: value` in {piece[:40]!r}")
        found[names.get(label) or fields.name(label)] = value
    return found


def _needs(found: dict[str, Value], keys: tuple[str, ...]) -> None:
    """Refuse a line that lacks a figure that every version prints.

    Raises:
        DamagedError: so it is.
    """
    for key in keys:
        value = found.get(key)
        if not isinstance(value, str) or not fields.number(value):
            raise DamagedError(f"{key} is missing or no number")


def _throughput(text: str, start: int) -> _Told:
    found: dict[str, Value] = dict.fromkeys(_THROUGHPUT_KEYS)
    for key, value in _pieces(text[start:], _THROUGHPUT_NAMES).items():
        if cache := re.fullmatch(r"(\w+)_kv_cache_usage", key):
            found[f"{cache[1]}_kv"] = value
            found["kv_usage"] = found["kv_usage"] or value
        else:
            found[key] = value
    if index := _ENGINE_INDEX.search(text[:start]):
        found["engine_index"] = index[1]
    if aggregated := _AGGREGATED.search(text[:start]):
        found["engines"] = aggregated[1]
    _needs(found, ("prompt_tps", "gen_tps", "running"))
    return "throughput", found


def _spec(text: str, start: int) -> _Told:
    found: dict[str, Value] = dict.fromkeys(_SPEC_KEYS)
    found.update(_pieces(text[start + len("SpecDecoding metrics:") :].lstrip(), _SPEC_NAMES))
    _needs(found, ("accepted", "drafted"))
    return "spec_decoding", found


def _old_spec(text: str, start: int) -> _Told:
    found: dict[str, Value] = dict.fromkeys(_OLD_SPEC_KEYS)
    found.update(_pieces(text[start + len("Speculative metrics:") :].lstrip(), _OLD_SPEC_NAMES))
    _needs(found, ("accept_rate", "accepted", "draft"))
    return "speculative", found


def _iteration(text: str, start: int) -> _Told:
    match = _ITERATION.match(text, start)
    if match is None:
        raise DamagedError("an iteration without its figures")
    keys = ("iter", "ctx_req", "ctx_tok", "gen_req", "gen_tok", "ms")
    found: dict[str, Value] = dict(zip(keys, match.groups(), strict=False))
    found["dummy"] = match[7] is not None
    if index := _ENGINE_INDEX.search(text[:start]):
        found["engine_index"] = index[1]
    if cache := _CACHE.search(match[8]):
        found["kv_usage"] = match[8][cache.end() :].lstrip(": ").split(",")[0]
    return "iteration", found


def _jit(text: str, start: int) -> _Told | None:
    match = _JIT.search(text)
    return ("jit", {"kernel": match[2], "compiler": match[1] or None}) if match else None


def _nccl_variable(text: str, start: int) -> _Told | None:
    match = _NCCL.search(text, start)
    return (
        ("nccl_env", {"var": match[1], "value": match[2], "note": match[3].strip() or None})
        if match
        else None
    )


def _version(text: str, start: int) -> _Told | None:
    found: dict[str, Value] = {}
    if version := _VERSION.search(text):
        found["version"] = version[1]
    for key, value in _CONFIG.findall(text):
        found.setdefault(key, value.strip("'"))
    return ("config", found) if found else None


def _preemption(text: str, start: int) -> _Told:
    return "preemption", {}


def _nccl_loaded(text: str, start: int) -> _Told | None:
    match = re.compile(r"nccl==([\w.+-]+)").search(text, start)
    return ("nccl", {"nccl": match[1]}) if match else None


_READERS = (
    ("Avg prompt throughput:", _throughput),
    ("SpecDecoding metrics:", _spec),
    ("Speculative metrics:", _old_spec),
    ("Iteration(", _iteration),
    ("kernel JIT compilation", _jit),
    ("NCCL_", _nccl_variable),
    ("vLLM is using nccl==", _nccl_loaded),
    ("LLM engine (v", _version),
    ("is preempted", _preemption),
)
