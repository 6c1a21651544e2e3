"""Adapters: one file an engine. `named()` finds them; `adapter.Engine` says what they must do."""

from __future__ import annotations

from importlib import import_module

from benchharness.errors import UsageError, nearest
from benchharness.stack.engines.adapter import Engine

_MODULES = {
    "llamacpp": "benchharness.stack.engines.llamacpp",
    "sglang": "benchharness.stack.engines.sglang",
    "standin": "benchharness.stack.engines.standin",
    "vllm": "benchharness.stack.engines.vllm",
}


def names() -> tuple[str, ...]:
    """Names of the engines that this version drives."""
    return tuple(sorted(_MODULES))


def named(name: str) -> Engine:
    """The adapter of that engine; UsageError with the nearest known name if there is none."""
    if name not in _MODULES:
        raise UsageError(f"unknown engine {name!r}{nearest(name, _MODULES)}", "correct `engine:`")
    engine: Engine = import_module(_MODULES[name]).ENGINE
    return engine
