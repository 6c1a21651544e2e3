"""What can be seen to be wrong with a llama.cpp stack before anything is built; each raises UsageError."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchharness.errors import UsageError
from benchharness.records import Stack, Workload
from benchharness.stack.engines import model_check
from benchharness.stack.engines.llamacpp_settings import (
    N_MAX,
    PACKAGE,
    RECIPES,
    argument,
    release,
    slots,
    types,
)
from benchharness.stack.packages import HOST

_NAME = re.compile(r"[a-z]\w*(\.[a-z]\w*)*", re.ASCII)
_OWNED = {
    "model.path": "write it as `model: {path: ...}`",
    "speculative.draft.mparams.path": "write it as `model: {draft: ...}`",
    "speculative.mparams_dft.path": "write it as `model: {draft: ...}`",
    "speculative.model.path": "write it as `model: {draft: ...}`",
    "hostname": "the harness always serves on loopback",
    "hostnames": "the harness always serves on loopback",
    "api_keys": "the harness sends no key",
    "api_prefix": "the harness asks at the root",
    "ssl_file_key": "the harness speaks plain HTTP on loopback",
    "ssl_file_cert": "the harness speaks plain HTTP on loopback",
}


def refuse_source(stack: Stack) -> None:
    """Refuse anything but a release of the wheel."""
    source = stack.source
    if source.repo or source.commit or source.patch:
        raise UsageError(
            f"stack {stack.name}: llamacpp runs releases of {PACKAGE} only, not a repository or a commit",
            "replace `source:` by {release: VERSION}, as 2026.10.11549",
        )
    if stack.packages.get(PACKAGE, "") in (None, HOST):
        raise UsageError(
            f"stack {stack.name}: `packages.{PACKAGE}` is the engine itself, which can't be left out or "
            "taken from the host",
            "name its version",
        )
    if not release(stack):
        raise UsageError(
            f"stack {stack.name}: no release of llama.cpp is given",
            f"add `source: {{release: VERSION}}` with a version of {PACKAGE}, as 2026.10.11549",
        )


def refuse_model(stack: Stack) -> None:
    """Refuse a missing or contradictory model, files that are not there, and tensor parallelism."""
    example = "{recipe: tiny-llama} or {path: FILE.gguf}"
    model_check.refuse(stack, RECIPES, example, lambda path: not Path(path).expanduser().is_file())
    if stack.model.tp != 1:
        raise UsageError(f"stack {stack.name}: llama.cpp knows no `model.tp`", "use `args.split_mode`")


def refuse_args(stack: Stack) -> None:
    """Refuse what the harness decides itself, and what no release can have: its own names it knows best."""
    for name, value in stack.args.items():
        if name in _OWNED:
            raise UsageError(f"stack {stack.name}: `args.{name}` is not free: {_OWNED[name]}", "remove it")
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"stack {stack.name}: {name!r} is no name of a llama.cpp setting",
                "use a dotted attribute of CommonParams, as speculative.draft.n_max or n_ctx",
            )
        if isinstance(value, Mapping):
            raise UsageError(
                f"stack {stack.name}: `args.{name}` is a mapping",
                f"write each setting of it by its dotted name, as {name}.{next(iter(value), 'x')}",
            )
    for name, least in (("n_parallel", 1), ("n_ctx", 0), *((name, 0) for name in N_MAX)):
        value = stack.args.get(name)
        if value is not None and (type(value) is not int or value < least):
            raise UsageError(
                f"stack {stack.name}: `args.{name}` is {value!r}", f"give a whole number, {least} or more"
            )


def refuse_speculation(stack: Stack) -> None:
    """Refuse drafting without anything to draft with."""
    has_draft = stack.model.recipe is not None or stack.model.draft is not None
    if not has_draft and argument(stack, N_MAX) and types(stack) is None:
        raise UsageError(
            f"stack {stack.name}: tokens are to be drafted, but there is no draft model",
            "add `model.draft`, or name another way under `args.speculative.types`, as NGRAM_SIMPLE",
        )


def refuse_lengths(stack: Stack, workloads: Sequence[Workload]) -> None:
    """Refuse requests longer than the model, or than the slot that the stack itself declares."""
    limits: list[tuple[int, str]] = []
    if stack.model.recipe is not None:
        limits.append((RECIPES[stack.model.recipe].context_tokens, f"the model {stack.model.recipe}"))
    declared = stack.args.get("n_ctx")
    if declared:
        count = slots(stack, workloads)
        limits.append((declared // count, f"a slot (n_ctx {declared} / {count} slots)"))
    for workload in workloads:
        for limit, what in limits:
            if workload.context_tokens + workload.output_tokens > limit:
                raise UsageError(
                    f"stack {stack.name}: {workload.context_tokens} context + {workload.output_tokens} "
                    f"output tokens are more than the {limit} of {what}",
                    "shorten the workload" + (" or raise `args.n_ctx`" if what.startswith("a slot") else ""),
                )
