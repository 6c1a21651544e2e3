"""What a llama.cpp server is told: the stack's own arguments over defaults that measure well."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchharness.records import Model, Stack, Workload

PACKAGE = "xllamacpp"

ENGINES_OWN = "engine-default"
"""Value of an argument that neither the harness nor the stack sets."""
OPEN_LOOP_SLOTS = 4
"""Slots where a rate drives the work: what llama.cpp's own server takes when left to choose."""

SPARE_TOKENS = 32
"""Room in a slot beyond the longest request: close to its end llama.cpp drafts less than it was told to."""

CONTEXT_STEP = 256
"""llama.cpp rounds the context of a slot up to a multiple of this."""

N_MAX = ("speculative.draft.n_max", "speculative.n_max")
TYPES = ("speculative.types", "speculative.type")
NO_TYPES = ("NONE", "COMMON_SPECULATIVE_TYPE_NONE")


@dataclass(frozen=True)
class Recipe:
    """A model that the harness makes itself.

    Attributes:
        script: writes target.gguf and draft.gguf.
        requirements: what the script's environment must hold.
        context_tokens: the model's own limit.
        first_text_token: id from which on every token is text.
    """

    script: Path
    requirements: tuple[str, ...]
    context_tokens: int
    first_text_token: int


RECIPES = {
    "tiny-llama": Recipe(
        Path(__file__).with_name("tiny_llama_recipe.py"), ("gguf==0.19.0", "numpy==2.4.6"), 4096, 259
    )
}


def release(stack: Stack) -> str | None:
    """The release of xllamacpp that the stack's environment gets; None if none is named."""
    return stack.packages.get(PACKAGE, stack.source.release)


def argument(stack: Stack, names: Sequence[str]) -> Any:
    """The stack's argument of the first of these names that it gives; None if it gives none."""
    return next((stack.args[name] for name in names if stack.args.get(name) is not None), None)


def types(stack: Stack) -> str | None:
    """Kinds of speculation that the stack asks for, in capitals with commas; None if it doesn't say."""
    asked = argument(stack, TYPES)
    if isinstance(asked, list | tuple):
        asked = ",".join(map(str, asked))
    return None if asked is None else str(asked).upper()


def speculates(stack: Stack) -> bool:
    """Speculation isn't turned off."""
    return argument(stack, N_MAX) != 0 and types(stack) not in NO_TYPES


def drafts(stack: Stack, model: Model) -> bool:
    """A draft model is there, and speculation wants it."""
    return model.draft is not None and speculates(stack) and "DRAFT" in (types(stack) or "DRAFT")


def given(stack: Stack) -> Mapping[str, Any]:
    """The stack's arguments; those of speculation only where there is any, and none left to the engine."""
    return {
        name: value
        for name, value in stack.args.items()
        if value not in (None, ENGINES_OWN) and (speculates(stack) or not name.startswith("speculative."))
    }


def text(value: Any) -> str:
    """A value as the server script reads it."""
    return json.dumps(value) if isinstance(value, bool | list | tuple) else str(value)


def longest(workloads: Sequence[Workload]) -> int:
    """Tokens of the longest request, prompt and output together."""
    return max((workload.context_tokens + workload.output_tokens for workload in workloads), default=0)


def slots(stack: Stack, workloads: Sequence[Workload]) -> int:
    """Slots that the server is given."""
    declared = stack.args.get("n_parallel")
    if isinstance(declared, int) and declared > 0:
        return declared
    return max((workload.concurrency or OPEN_LOOP_SLOTS for workload in workloads), default=1)


def defaults(stack: Stack, model: Model, workloads: Sequence[Workload]) -> dict[str, Any]:
    """What is set unless the stack says otherwise."""
    recipe = RECIPES.get(stack.model.recipe or "")
    room = -(-(longest(workloads) + SPARE_TOKENS) // CONTEXT_STEP) * CONTEXT_STEP
    if recipe is not None:
        room = min(room, recipe.context_tokens)
    count = slots(stack, workloads)
    threads = stack.args.get("cpuparams.n_threads", 1)
    chosen: dict[str, Any] = {
        "n_parallel": count,
        "n_ctx": count * room,
        "cpuparams.n_threads": threads,
        "cpuparams_batch.n_threads": threads,
        "cache_ram_mib": 0,
        "endpoint_metrics": True,
        "endpoint_props": True,
    }
    if drafts(stack, model):
        chosen |= {
            "speculative.types": "DRAFT_SIMPLE",
            "speculative.draft.p_min": 0,
            "speculative.draft.cpuparams.n_threads": threads,
            "speculative.draft.cpuparams_batch.n_threads": threads,
        }
    return {name: value for name, value in chosen.items() if name not in stack.args}
