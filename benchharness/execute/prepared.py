"""A stack made ready to be launched: environment and model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchharness.execute import floors
from benchharness.execute.observer import Observer
from benchharness.execute.resolving import with_code
from benchharness.records import Environment, Model, Stack
from benchharness.stack import engines, environments, models
from benchharness.stack.engines.adapter import Engine


@dataclass(frozen=True)
class Prepared:
    """A stack that is ready to be launched."""

    engine: Engine
    stack: Stack
    environment: Environment | None
    model: Model
    floors: Mapping[str, Any] = field(default_factory=dict)
    """What its steps must read at least, and how fast its GPUs read (see `floors`)."""


def prepare(stack: Stack, cache: Path, observer: Observer) -> Prepared:
    """Check out, build or find code, environment and model of a stack; UnbuildableError if it can't be."""
    engine = engines.named(stack.engine)
    stack = with_code(stack, cache)
    spec = engine.environment(stack)
    environment = None
    if spec is not None:
        observer.step("environment")
        environment = environments.ensure(spec, cache, on_progress=observer.step)
        observer.step("examining the environment")
        engine.examine(stack, environment)
    model = models.ensure(engine, stack, cache, on_progress=observer.step)
    return Prepared(engine, stack, environment, model, floors.facts(model, environment, cache))
