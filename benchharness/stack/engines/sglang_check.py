"""What can be seen to be wrong with an SGLang stack before anything is built; each raises UsageError.

Whether the release has an argument is only known once it is installed: see `sglang_arguments`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchharness.errors import UsageError, nearest
from benchharness.records import Stack, Workload
from benchharness.stack.engines import model_check
from benchharness.stack.engines.sglang_arguments import RENAMED, spelled
from benchharness.stack.engines.sglang_environment import on_cpu, release_order
from benchharness.stack.engines.sglang_settings import (
    NEEDS_DRAFT_MODEL,
    RECIPES,
    SPARE_TOKENS,
    algorithm,
    is_local,
)
from benchharness.stack.packages import normal

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", re.ASCII)
_OWNED = {
    "model-path": "write it as `model: {path: ...}`",
    "model": "write it as `model: {path: ...}`",
    "speculative-draft-model-path": "write it as `model: {draft: ...}`",
    "speculative-draft-model": "write it as `model: {draft: ...}`",
    "tp-size": "write it as `model: {tp: ...}`",
    "tensor-parallel-size": "write it as `model: {tp: ...}`",
    "host": "the harness always serves on loopback",
    "api-key": "the harness sends no key",
    "ssl-keyfile": "the harness speaks plain HTTP on loopback",
    "ssl-certfile": "the harness speaks plain HTTP on loopback",
    "config": "write its settings under `args:`, so that they are recorded",
}


def refuse_source(stack: Stack) -> None:
    """Refuse anything but a release on the index or a repository."""
    source = stack.source
    if source.repo:
        named = stack.packages.get("sglang", source.release or "0")
        if not release_order(str(named)):
            raise UsageError(
                f"stack {stack.name}: `packages.sglang` is {named!r}, no release of SGLang",
                "write it as 0.5.23",
            )
        return
    if not source.release:
        raise UsageError(
            f"stack {stack.name}: neither a release nor a repository of SGLang is given",
            "add `source: {release: VERSION}`, as 0.5.23, or {repo: CLONE, commit: HASH}",
        )
    for name in stack.packages:
        if normal(name) == "sglang":
            raise UsageError(
                f"stack {stack.name}: `packages.{name}` would be a second release beside `source.release`",
                "remove it",
            )
    if not release_order(source.release):
        raise UsageError(
            f"stack {stack.name}: {source.release!r} is no release of SGLang", "write it as 0.5.23"
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
    same = {other: names[-1] for names in RENAMED for other in names}
    for name in stack.args:
        flag = spelled(name)
        if flag in _OWNED:
            raise UsageError(f"stack {stack.name}: `args.{name}` is not free: {_OWNED[flag]}", "remove it")
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"stack {stack.name}: {name!r} is no name of an SGLang argument",
                "use the flag's name without the hyphens in front, as speculative-num-steps",
            )
        one = same.get(flag, flag)
        if one in seen:
            raise UsageError(
                f"stack {stack.name}: `args.{name}` and `args.{seen[one]}` are one argument", "remove one"
            )
        seen[one] = name


def refuse_speculation(stack: Stack) -> None:
    """Refuse drafting without anything to draft with."""
    wanted = algorithm(stack)
    if wanted is None:
        return
    recipe = RECIPES.get(stack.model.recipe or "")
    if recipe is not None:
        if wanted != "NGRAM" and wanted not in recipe.drafts:
            raise UsageError(
                f"stack {stack.name}: the model {stack.model.recipe} has no draft for {wanted}"
                f"{nearest(wanted, recipe.drafts)}",
                "choose another `args.speculative-algorithm`",
            )
    elif wanted in NEEDS_DRAFT_MODEL and stack.model.draft is None:
        raise UsageError(
            f"stack {stack.name}: {wanted} needs a draft model, but there is none", "add `model.draft`"
        )


def refuse_tensor_parallel(stack: Stack) -> None:
    """Refuse several ranks on the CPU: the stand-in for the kernel library has no all-reduce."""
    if on_cpu(stack) and stack.model.tp != 1:
        raise UsageError(
            f"stack {stack.name}: `model.tp` is {stack.model.tp}, but the CPU path has one rank",
            "set it to 1",
        )


def refuse_lengths(stack: Stack, workloads: Sequence[Workload]) -> None:
    """Refuse requests longer than the model of a recipe."""
    recipe = RECIPES.get(stack.model.recipe or "")
    if recipe is None:
        return
    limit = recipe.context_tokens - SPARE_TOKENS
    for workload in workloads:
        if workload.context_tokens + workload.output_tokens > limit:
            raise UsageError(
                f"stack {stack.name}: {workload.context_tokens} context + {workload.output_tokens} output "
                f"tokens are more than the {limit} that the model {stack.model.recipe} has room for",
                "shorten the workload",
            )
