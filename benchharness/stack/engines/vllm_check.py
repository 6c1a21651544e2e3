"""What can be seen to be wrong with a vLLM stack before anything is built; each raises UsageError.

Whether the release has an argument is only known once it is installed: see `vllm_options`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchharness.errors import UsageError, nearest
from benchharness.records import Stack, Workload
from benchharness.stack.engines import model_check
from benchharness.stack.engines.sglang_settings import is_local
from benchharness.stack.engines.vllm_environment import CPU_PACKAGE, CUDA_PACKAGE
from benchharness.stack.engines.vllm_settings import (
    NEEDS_DRAFT_MODEL,
    RECIPES,
    SPECULATION,
    arguments,
    method,
    name_of,
    speculation,
)
from benchharness.stack.packages import normal

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*(\.\w+)*", re.ASCII)
_RELEASE = re.compile(r"\d+\.\d+(\.\d+)?\w*(\.post\d+)?(\+\w+)?", re.ASCII)
_OWNED = {
    "model": "write it as `model: {path: ...}`",
    "model-tag": "write it as `model: {path: ...}`",
    "tensor-parallel-size": "write it as `model: {tp: ...}`",
    "host": "the harness always serves on loopback",
    "uds": "the harness always serves on loopback",
    "root-path": "the harness asks at the root",
    "api-key": "the harness sends no key",
    "ssl-keyfile": "the harness speaks plain HTTP on loopback",
    "ssl-certfile": "the harness speaks plain HTTP on loopback",
    "config": "write its settings under `args:`, so that they are recorded",
}


def refuse_source(stack: Stack) -> None:
    """Refuse anything but a release on the index."""
    source = stack.source
    if source.repo or source.commit or source.patch:
        raise UsageError(
            f"stack {stack.name}: vllm runs releases only, not a repository or a commit",
            "replace `source:` by {release: VERSION}, as 0.32.0",
        )
    if not source.release:
        raise UsageError(
            f"stack {stack.name}: no release of vLLM is given", "add `source: {release: VERSION}`, as 0.32.0"
        )
    if not _RELEASE.fullmatch(source.release):
        raise UsageError(
            f"stack {stack.name}: {source.release!r} is no release of vLLM", "write it as 0.32.0"
        )
    for name in stack.packages:
        if normal(name) in (CPU_PACKAGE, CUDA_PACKAGE):
            raise UsageError(
                f"stack {stack.name}: `packages.{name}` would be a second release beside `source.release`",
                "remove it; `args: {device: cpu}` chooses the distribution for CPUs",
            )


def refuse_model(stack: Stack) -> None:
    """Refuse a missing or contradictory model, and folders that are not there."""
    example = "{recipe: tiny-sglang} or {path: FOLDER}"
    model_check.refuse(
        stack, RECIPES, example, lambda path: is_local(path) and not Path(path).expanduser().exists()
    )


def refuse_args(stack: Stack) -> None:
    """Refuse what the harness decides itself, what can be no flag, and one argument under two names."""
    seen: dict[str, str] = {}
    for name in stack.args:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"stack {stack.name}: {name!r} is no name of a vLLM argument",
                "use the flag's name without the hyphens in front, as max-num-seqs",
            )
        flag = name_of(name)
        if flag in _OWNED:
            raise UsageError(f"stack {stack.name}: `args.{name}` is not free: {_OWNED[flag]}", "remove it")
        one = flag.removeprefix("no-")
        if one in seen:
            raise UsageError(
                f"stack {stack.name}: `args.{name}` and `args.{seen[one]}` are one argument", "remove one"
            )
        seen[one] = name


def refuse_speculation(stack: Stack) -> None:
    """Refuse drafting without anything to draft with, and a draft model that the record would not show."""
    declared = arguments(stack).get(SPECULATION)
    if declared is not None and not isinstance(declared, Mapping):
        raise UsageError(
            f"stack {stack.name}: `args.{SPECULATION}` is {declared!r}",
            "write it as a mapping, as {method: ngram, num_speculative_tokens: 3}, or null",
        )
    wanted = speculation(stack)
    if wanted is None:
        return
    if wanted.get("model") is not None:
        raise UsageError(
            f"stack {stack.name}: `args.{SPECULATION}.model` is not free: write it as "
            "`model: {draft: ...}`",
            "remove it",
        )
    _refuse_missing_draft(stack, method(stack))


def _refuse_missing_draft(stack: Stack, way: str | None) -> None:
    recipe = RECIPES.get(stack.model.recipe or "")
    if recipe is not None:
        if way is None or (way in NEEDS_DRAFT_MODEL and way not in recipe.drafts):
            raise UsageError(
                f"stack {stack.name}: the model {stack.model.recipe} has no draft for {way or 'no method'}"
                f"{nearest(way or '', recipe.drafts)}",
                f"choose another `args.{SPECULATION}.method`",
            )
    elif way in (None, *NEEDS_DRAFT_MODEL) and stack.model.draft is None:
        raise UsageError(
            f"stack {stack.name}: {way or 'speculation'} needs a draft model, but there is none",
            f"add `model.draft`, or name another `args.{SPECULATION}.method`, as ngram",
        )


def refuse_lengths(stack: Stack, workloads: Sequence[Workload]) -> None:
    """Refuse requests longer than the model of a recipe, or than the stack itself declares."""
    recipe = RECIPES.get(stack.model.recipe or "")
    limits = [] if recipe is None else [(recipe.context_tokens, f"the model {stack.model.recipe}")]
    declared = arguments(stack).get("max-model-len")
    if type(declared) is int and declared > 0:
        limits.append((declared, "`args.max-model-len`"))
    for workload in workloads:
        for limit, whose in limits:
            if workload.context_tokens + workload.output_tokens > limit:
                raise UsageError(
                    f"stack {stack.name}: {workload.context_tokens} context + {workload.output_tokens} "
                    f"output tokens are more than the {limit} of {whose}",
                    "shorten the workload",
                )
