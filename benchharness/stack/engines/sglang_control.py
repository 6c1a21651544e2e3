"""Control calls to a running SGLang server: its settings, its counters, and the model that it serves."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from benchharness.errors import EngineError

TIMEOUT_S = 60.0
LEAST_POOL = 16
"""Fewest different tokens that prompts may be made of."""

_COUNTER = re.compile(r"^sglang:(\w+_total)(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)

TOLD = (
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "sampling_backend",
    "device",
    "dtype",
    "kv_cache_dtype",
    "page_size",
    "tp_size",
    "random_seed",
    "mem_fraction_static",
    "max_total_num_tokens",
    "chunked_prefill_size",
    "disable_radix_cache",
    "disable_overlap_schedule",
    "disable_cuda_graph",
    "cuda_graph_config",
    "cuda_graph_bs",
    "cuda_graph_max_bs",
    "decode_cuda_graph_bs",
    "disable_custom_all_reduce",
    "enable_nccl_nvls",
    "enable_symm_mem",
    "enable_mscclpp",
    "enable_torch_symm_mem",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "speculative_attention_mode",
    "speculative_draft_attention_backend",
    "decode_log_interval",
    "memory_usage",
    "effective_max_running_requests_per_dp",
)
"""What is kept of the server's answer, where the release has it: what its start has resolved."""


@dataclass(frozen=True)
class Settings:
    """What a server says of itself.

    Attributes:
        version: SGLang's own.
        model_path: folder or name of the served model.
        context_limit: most tokens of one request, prompt and output together; None if not told.
        slots: requests that it works on at once; None if not told.
        told: its answers worth keeping, for the record.
        everything: all of its answers by name.
    """

    version: str | None
    model_path: str
    context_limit: int | None
    slots: int | None
    told: Mapping[str, Any]
    everything: Mapping[str, Any]


def settings(base_url: str) -> Settings:
    """From /server_info, or /get_server_info up to 0.5.5. Raises EngineError."""
    info = _first_json(base_url, ("/server_info", "/get_server_info"))
    # A list with one entry a data-parallel rank from 0.4.6.post4 on, one mapping before.
    states = info.get("internal_states") or {}
    state = (states[0] if states else {}) if isinstance(states, list) else states
    # The scheduler's own view is the newer one: it has what the start resolved.
    merged = dict(info) | {name: value for name, value in state.items() if value is not None}
    model_path = merged.get("model_path")
    if not isinstance(model_path, str):
        raise EngineError(
            f"SGLang at {base_url} describes itself in a way not known here (no model_path)",
            "this release may be too new or too old: try another",
        )
    longest_input = merged.get("max_req_input_len")
    slots = merged.get("effective_max_running_requests_per_dp") or merged.get("max_running_requests")
    return Settings(
        version=info.get("version"),
        model_path=model_path,
        # SGLang keeps 6 places of the context back from prompts and 2 from prompt and output together.
        context_limit=longest_input + 4 if isinstance(longest_input, int) else None,
        slots=slots if isinstance(slots, int) else None,
        told={name: merged[name] for name in TOLD if name in merged},
        everything=merged,
    )


def flush_cache(base_url: str) -> None:
    """Have the server forget the prefixes that it keeps. Raises EngineError where it refuses."""
    answer = _answer(base_url, "/flush_cache", method="POST")
    _refuse_status(answer, "/flush_cache")


def counters(base_url: str) -> dict[str, int]:
    """Counters of /metrics by their names without prefix, summed over labels; none where turned off."""
    answer = _answer(base_url, "/metrics")
    if answer.status_code == requests.codes.not_found:
        return {}
    _refuse_status(answer, "/metrics")
    sums: dict[str, float] = {}
    for name, value in _COUNTER.findall(answer.text):
        sums[name] = sums.get(name, 0.0) + float(value)
    return {name: round(value) for name, value in sums.items()}


def token_pool(model_path: str, variables: Mapping[str, str | None]) -> tuple[int, ...]:
    """Ids of the model's ordinary tokens: all that its tokenizer has, without the special ones.

    Args:
        model_path: folder, or name of a published model that SGLang has fetched.
        variables: the engine's, which may say where fetched models lie.

    Raises:
        EngineError: the model's files aren't found or say nothing of its vocabulary.
    """
    folder = _folder(model_path, variables)
    config = _document(folder / "config.json")
    size = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
    if not isinstance(size, int):
        raise EngineError(f"{folder / 'config.json'} names no vocab_size", "use a model with one")
    tokenizer = _document(folder / "tokenizer.json") if (folder / "tokenizer.json").exists() else {}
    special = {token["id"] for token in tokenizer.get("added_tokens", ())}
    vocabulary = tokenizer.get("model", {}).get("vocab", ())
    # A model's embedding is often padded beyond what its tokenizer has.
    size = min(size, len(vocabulary)) if vocabulary else size
    pool = tuple(token for token in range(size) if token not in special)
    if len(pool) < LEAST_POOL:
        raise EngineError(f"the model at {folder} has only {len(pool)} ordinary tokens", "use another model")
    return pool


def _folder(model_path: str, variables: Mapping[str, str | None]) -> Path:
    folder = Path(model_path)
    if folder.is_dir():
        return folder

    def variable(name: str) -> str | None:
        return variables[name] if name in variables else os.environ.get(name)

    home = Path(variable("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(variable("HF_HUB_CACHE") or home / "hub")
    fetched = sorted((hub / f"models--{model_path.replace('/', '--')}").glob("snapshots/*/config.json"))
    if not fetched:
        raise EngineError(
            f"the files of the model {model_path} are found neither as a folder nor under {hub}",
            "give `model.path` as the folder of the model",
        )
    return fetched[-1].parent


def _document(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"{path} can't be read ({type(error).__name__})", "check the model") from None
    return content if isinstance(content, dict) else {}


def _first_json(base_url: str, paths: tuple[str, ...]) -> Mapping[str, Any]:
    """The JSON object at the first of the paths that the release has."""
    for path in paths:
        answer = _answer(base_url, path)
        if answer.status_code == requests.codes.not_found and path != paths[-1]:
            continue
        _refuse_status(answer, path)
        try:
            fields = answer.json()
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            raise EngineError(f"SGLang answers {path} with something else than a JSON object")
        return fields
    raise AssertionError("the last path returns or raises")


def _answer(base_url: str, path: str, method: str = "GET") -> requests.Response:
    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy of the user's must not come between
            return session.request(method, base_url + path, timeout=TIMEOUT_S)
    except requests.RequestException as error:
        raise EngineError(
            f"SGLang at {base_url} does not answer {path} ({type(error).__name__})", "see its log"
        ) from None


def _refuse_status(answer: requests.Response, path: str) -> None:
    if answer.status_code != requests.codes.ok:
        text = " ".join(answer.text.split())[:200]
        raise EngineError(f"SGLang answers {path} with status {answer.status_code}: {text}")
