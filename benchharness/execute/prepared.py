"""A stack made ready to be launched: environment and model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchharness.execute.observer import Observer
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


def prepare(stack: Stack, cache: Path, observer: Observer) -> Prepared:
    """Build or find the environment and the model of a stack; UnbuildableError if it can't be."""
    engine = engines.named(stack.engine)
    spec = engine.environment(stack)
    environment = None
    if spec is not None:
        observer.step("environment")
        environment = environments.ensure(spec, cache, on_progress=observer.step)
        observer.step("examining the environment")
        engine.examine(stack, environment)
    model = models.ensure(engine, stack, cache, on_progress=observer.step)
    return Prepared(engine, stack, environment, model)
