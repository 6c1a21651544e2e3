"""What a vLLM server is told: the stack's own arguments over defaults that measure well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchharness.records import Model, Stack
from benchharness.stack.engines import sglang_settings
from benchharness.stack.engines.sglang_arguments import spelled
from benchharness.stack.engines.sglang_settings import is_local
from benchharness.stack.engines.vllm_environment import on_cpu

SPECULATION = "speculative-config"
CPU_CACHE_BYTES = 1 << 30

NEEDS_DRAFT_MODEL = ("draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash")
"""Ways to speculate that can't do without a draft model."""

RECIPES = {
    # The files that SGLang serves, so that both engines can be measured with one and the same model.
    "tiny-sglang": replace(sglang_settings.RECIPES["tiny-sglang"], drafts={"draft_model": "standalone"})
}


def name_of(argument: str) -> str:
    """An argument's name as the flag has it; what follows a dot names a key of its mapping and stays."""
    flag, dot, key = argument.partition(".")
    return spelled(flag) + dot + key


def arguments(stack: Stack) -> dict[str, Any]:
    """The stack's arguments by flag: `null` ones left out, `a.b: 1` folded into `a: {b: 1}`, `no-x` into `x`.

    A dotted name wins over the same key in a mapping, whatever their order; where the mapping itself is
    `null`, its dotted names go with it.
    """
    given = {name_of(name): value for name, value in stack.args.items()}
    folded = {name: value for name, value in given.items() if "." not in name}
    for name, value in given.items():
        flag, dot, key = name.partition(".")
        base = folded.get(flag, {})
        if dot and isinstance(base, Mapping):
            folded[flag] = _with(base, key, value)
    positive = dict(_positive(name, value) for name, value in folded.items())
    return {name: value for name, value in positive.items() if value is not None}


def _positive(name: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, bool) and name.startswith("no-"):
        return name.removeprefix("no-"), not value
    return name, value


def _with(mapping: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """The mapping with one more key, dotted if it lies deeper; without it where the value is None."""
    first, dot, rest = key.partition(".")
    if dot:
        inner = mapping.get(first)
        return {**mapping, first: _with(inner if isinstance(inner, Mapping) else {}, rest, value)}
    kept = {name: old for name, old in mapping.items() if name != key}
    return kept if value is None else {**kept, key: value}


def speculation(stack: Stack) -> Mapping[str, Any] | None:
    """The stack's speculative-config; None where it doesn't speculate."""
    declared = arguments(stack).get(SPECULATION)
    return declared if isinstance(declared, Mapping) and declared else None


def method(stack: Stack) -> str | None:
    """How the stack speculates; None if it doesn't, or leaves it to vLLM to see from the draft model."""
    wanted = (speculation(stack) or {}).get("method")
    return None if wanted is None else str(wanted)


def given(stack: Stack, model: Model | None = None) -> dict[str, Any]:
    """The stack's arguments for the command line, with the draft model where there is one to be used."""
    chosen = {name: value for name, value in arguments(stack).items() if name != "port"}
    if on_cpu(stack):
        del chosen["device"]
    wanted = speculation(stack)
    if wanted is None:
        chosen.pop(SPECULATION, None)
    elif model is not None and model.draft is not None and method(stack) in (None, *NEEDS_DRAFT_MODEL):
        chosen[SPECULATION] = {**wanted, "model": place(model.draft)}
    return chosen


def defaults(stack: Stack, model: Model) -> dict[str, Any]:
    """What is set unless the stack says otherwise, by flag; what the release lacks is left out."""
    chosen: dict[str, Any] = {
        "model": place(model.path or ""),
        "tensor-parallel-size": model.tp,
        "host": "127.0.0.1",
        # Sampling is as the harness asks for it, not as the model's files do.
        "generation-config": "vllm",
        # How much of a prompt came from the prefix cache, which stays as vLLM has it.
        "enable-prompt-tokens-details": True,
    }
    if speculation(stack) is not None:
        # Drafted and accepted tokens of each request: only with them can chunks be taken for cycles.
        chosen["per-request-spec-decode-metrics"] = "summary"
    if on_cpu(stack):
        chosen |= {
            "device": "cpu",
            "dtype": "float32",
            "enforce-eager": True,
            "kv-cache-memory-bytes": CPU_CACHE_BYTES,
        }
        if model.tp == 1:
            chosen["distributed-executor-backend"] = "uni"
    return chosen


def variables(stack: Stack) -> dict[str, str | None]:
    """The variables of vLLM's processes: the stack's own over ours."""
    chosen: dict[str, str | None] = {
        "VLLM_NO_USAGE_STATS": "1",
        # Opens /reset_prefix_cache, and changes nothing about how requests are served.
        "VLLM_SERVER_DEV_MODE": "1",
        # vLLM renames its processes, which by itself wipes out what /proc tells of their variables.
        "SPT_NOENV": "1",
    }
    if on_cpu(stack):
        chosen |= {
            "HF_HUB_OFFLINE": "1",
            # Two threads spin against each other on a busy machine, and so do bound ones.
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }
        if stack.model.tp == 1:
            # The model runs in the engine's own process: a process of its own would be waited for by
            # spinning, which takes cores away from the client.
            chosen["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    chosen |= stack.env
    return chosen


def place(path: str) -> str:
    """A path as the engine finds it from wherever it runs; the name of a published model stays."""
    return str(Path(path).expanduser().absolute()) if is_local(path) else path
