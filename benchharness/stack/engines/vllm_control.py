"""Control calls to a running vLLM server: its settings, its counters, its prefix cache."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

from benchharness.errors import EngineError

TIMEOUT_S = 60.0

_SAMPLE = re.compile(r"^vllm:(\w+)(?:\{.*\})? ([-+\d.eE]+)$", re.MULTILINE)
_CACHE = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

TOLD = (
    "block_size",
    "cache_dtype",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
    "kv_cache_size_tokens",
    "num_gpu_blocks",
    "prefix_caching_hash_algo",
    "sliding_window",
)
"""What is kept of the cache's labels in /metrics, where the release has it."""


@dataclass(frozen=True)
class Settings:
    """What a server says of itself.

    Attributes:
        version: vLLM's own.
        model_name: what requests must name.
        model_path: folder or name of the served model.
        context_limit: most tokens of one request, prompt and output together; None if not told.
        told: its answers worth keeping, for the record.
    """

    version: str | None
    model_name: str
    model_path: str
    context_limit: int | None
    told: Mapping[str, Any]


def settings(base_url: str) -> Settings:
    """From /v1/models, /version and /metrics. Raises EngineError."""
    listed = _json(base_url, "/v1/models").get("data")
    model = listed[0] if isinstance(listed, list) and listed else {}
    name, path = (model.get("id"), model.get("root")) if isinstance(model, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(path, str):
        raise EngineError(
            f"vLLM at {base_url} describes its model in a way not known here",
            "this release may be too new or too old: try another",
        )
    limit = model.get("max_model_len")
    version = _json(base_url, "/version").get("version")
    return Settings(
        version=version if isinstance(version, str) else None,
        model_name=name,
        model_path=path,
        context_limit=limit if isinstance(limit, int) else None,
        told=cache_settings(_metrics(base_url)),
    )


def counters(base_url: str) -> dict[str, int]:
    """Counters of /metrics by their names without prefix, summed over labels; none where turned off."""
    return sums(_metrics(base_url))


def flush_cache(base_url: str) -> bool:
    """Have the server forget the prefixes that it keeps; False where it has no such call.

    Raises EngineError where it refuses, as it does while requests run.
    """
    answer = _answer("POST", base_url, "/reset_prefix_cache")
    if answer.status_code in (requests.codes.not_found, requests.codes.method_not_allowed):
        return False
    _refuse_status(answer, "/reset_prefix_cache")
    # Older releases answer with nothing at all.
    if answer.content and _object(answer, "/reset_prefix_cache").get("success") is False:
        raise EngineError(
            f"vLLM at {base_url} did not empty its prefix cache", "no request may run meanwhile"
        )
    return True


def sums(metrics: str) -> dict[str, int]:
    """The counters of a text in Prometheus' format: name without prefix -> sum over labels."""
    found: dict[str, float] = {}
    for name, value in _SAMPLE.findall(metrics):
        if name.endswith("_total"):
            found[name] = found.get(name, 0.0) + float(value)
    return {name: round(value) for name, value in found.items()}


def cache_settings(metrics: str) -> dict[str, Any]:
    """What a text in Prometheus' format tells of the cache (of the first engine, where there are more)."""
    line = _CACHE.search(metrics)
    labels = dict(_LABEL.findall(line[1])) if line else {}
    return {name: _value(labels[name]) for name in TOLD if labels.get(name) not in (None, "None")}


def _value(text: str) -> Any:
    """The value that vLLM wrote as text."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _metrics(base_url: str) -> str:
    answer = _answer("GET", base_url, "/metrics")
    if answer.status_code == requests.codes.not_found:
        return ""
    _refuse_status(answer, "/metrics")
    return answer.text


def _json(base_url: str, path: str) -> Mapping[str, Any]:
    answer = _answer("GET", base_url, path)
    _refuse_status(answer, path)
    return _object(answer, path)


def _object(answer: requests.Response, path: str) -> Mapping[str, Any]:
    try:
        fields = answer.json()
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise EngineError(f"vLLM answers {path} with something else than a JSON object")
    return fields


def _answer(method: str, base_url: str, path: str) -> requests.Response:
    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy of the user's must not come between
            return session.request(method, base_url + path, timeout=TIMEOUT_S)
    except requests.RequestException as error:
        raise EngineError(
            f"vLLM at {base_url} does not answer {path} ({type(error).__name__})", "see its log"
        ) from None


def _refuse_status(answer: requests.Response, path: str) -> None:
    if answer.status_code != requests.codes.ok:
        text = " ".join(answer.text.split())[:200]
        raise EngineError(f"vLLM answers {path} with status {answer.status_code}: {text}")
