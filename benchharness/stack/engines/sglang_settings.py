"""What an SGLang server is told: the stack's own arguments over defaults that measure well."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchharness.records import Model, Stack, Workload
from benchharness.stack.engines import sglang_source
from benchharness.stack.engines.sglang_arguments import spelled
from benchharness.stack.engines.sglang_environment import CPU_KERNELS, has_cpu_kernels, on_cpu

OPEN_LOOP_SLOTS = 32
"""Requests at once that the cache of a CPU stack has room for where a rate drives the work."""

SPARE_TOKENS = 64
"""Cache slots for each request beyond its own length: draft tokens, and what SGLang keeps back."""

LEAST_CACHE_TOKENS = 16384
"""Fewest cache slots of a CPU stack."""

NO_DRAFT_MODEL = ("NGRAM",)
"""Ways to speculate that have no draft model."""

NEEDS_DRAFT_MODEL = ("STANDALONE", "EAGLE3", "DFLASH")
"""Ways to speculate that can't do without one (EAGLE and NEXTN can: a target may have layers for it)."""


@dataclass(frozen=True)
class Recipe:
    """A model that the harness makes itself.

    Attributes:
        script: writes a folder for the target and for each draft.
        requirements: what the script's environment must hold.
        imports: modules that the script needs.
        context_tokens: the model's own limit.
        drafts: way to speculate -> folder of its draft.
        args: arguments of the engine that go with the model, by flag, unless the stack says otherwise.
    """

    script: Path
    requirements: tuple[str, ...]
    imports: tuple[str, ...]
    context_tokens: int
    drafts: Mapping[str, str]
    args: Mapping[str, Any] = field(default_factory=dict)


RECIPES = {
    "tiny-sglang": Recipe(
        Path(__file__).with_name("tiny_sglang_recipe.py"),
        ("numpy==2.4.6", "safetensors==0.8.0"),
        ("numpy", "safetensors"),
        4096,
        {"STANDALONE": "standalone", "EAGLE": "eagle", "EAGLE3": "eagle3"},
    ),
    "dummy-llama-8b": Recipe(
        Path(__file__).with_name("dummy_llama_recipe.py"),
        (),
        (),
        131_072,
        {"STANDALONE": "standalone", "EAGLE3": "eagle3"},
        {"load-format": "dummy"},
    ),
}


def algorithm(stack: Stack) -> str | None:
    """How the stack speculates, in capitals; None if it doesn't."""
    for name, value in stack.args.items():
        if spelled(name) == "speculative-algorithm" and value is not None:
            return None if str(value).upper() == "NONE" else str(value).upper()
    return None


def given(stack: Stack) -> dict[str, Any]:
    """The stack's arguments for the command line; those of speculation only where there is any."""
    speculates = algorithm(stack) is not None
    return {
        name: value
        for name, value in stack.args.items()
        if value is not None
        and spelled(name) != "port"
        and (speculates or not spelled(name).startswith("speculative-"))
    }


def defaults(stack: Stack, model: Model, workloads: Sequence[Workload]) -> dict[str, Any]:
    """What is set unless the stack says otherwise, by flag."""
    chosen: dict[str, Any] = {
        "model-path": _place(model.path or ""),
        "tp-size": model.tp,
        "host": "127.0.0.1",
        "enable-metrics": True,
        # By itself SGLang draws a seed at every start, which changes what speculation accepts.
        "random-seed": 1,
    }
    if stack.model.recipe is not None:
        chosen |= RECIPES[stack.model.recipe].args
    speculation = algorithm(stack)
    if speculation is not None and speculation not in NO_DRAFT_MODEL and model.draft is not None:
        chosen["speculative-draft-model-path"] = _place(model.draft)
    if on_cpu(stack):
        chosen |= {
            "attention-backend": "intel_amx",
            "sampling-backend": "pytorch",
            "grammar-backend": "none",
            "dtype": "float32",
            "mem-fraction-static": 0.3,
            "max-total-tokens": _cache_tokens(workloads),
        }
    return chosen


def variables(stack: Stack) -> dict[str, str | None]:
    """The variables of SGLang's processes: the stack's own over ours."""
    chosen: dict[str, str | None] = {
        # A health check that generates a token would disturb what is measured.
        "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",
        # SGLang renames its processes, which by itself wipes out what /proc tells of their variables.
        "SPT_NOENV": "1",
    }
    if stack.model.recipe is not None:
        # Whatever a model that was made here lacks, no hub has.
        chosen["HF_HUB_OFFLINE"] = "1"
    if on_cpu(stack):
        chosen |= {
            "SGLANG_USE_CPU_ENGINE": "1",
            # Two threads spin against each other on a busy machine.
            "OMP_NUM_THREADS": "1",
            # Compiling takes minutes, and can't see through the stand-in's operators.
            "TORCH_COMPILE_DISABLE": "1",
        }
    chosen |= stack.env
    ours = [str(CPU_KERNELS)] if has_cpu_kernels(stack) else []
    if stack.source.folder is not None:
        ours.append(str(Path(stack.source.folder) / sglang_source.PYTHON))
    if ours:
        users = chosen.get("PYTHONPATH", os.environ.get("PYTHONPATH"))
        chosen["PYTHONPATH"] = os.pathsep.join([*ours, *([users] if users else [])])
    return chosen


def longest(workloads: Sequence[Workload]) -> int:
    """Tokens of the longest request, prompt and output together."""
    return max((workload.context_tokens + workload.output_tokens for workload in workloads), default=0)


def _cache_tokens(workloads: Sequence[Workload]) -> int:
    streams = max((workload.concurrency or OPEN_LOOP_SLOTS for workload in workloads), default=1)
    return max(LEAST_CACHE_TOKENS, streams * (longest(workloads) + SPARE_TOKENS))


def _place(path: str) -> str:
    """A path as the engine finds it from wherever it runs; the name of a published model stays."""
    return str(Path(path).expanduser().absolute()) if is_local(path) else path


def is_local(path: str) -> bool:
    """Whether it is a path on this machine and not the name of a published model (`owner/name`)."""
    return path.startswith(("/", ".", "~")) or path.count("/") != 1 or Path(path).exists()
