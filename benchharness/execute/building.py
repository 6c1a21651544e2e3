"""Environments of a whole plan, built ahead of its launches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchharness.errors import UnbuildableError
from benchharness.execute.resolving import with_code
from benchharness.records import Built, EnvironmentSpec, Plan
from benchharness.stack import engines, environments


def environments_of(plan: Plan, cache: Path) -> dict[str, EnvironmentSpec | None]:
    """The environment that each stack of a resolved plan needs, by stack name.

    None where the harness's own serves.
    """
    return {
        stack.name: engines.named(stack.engine).environment(with_code(stack, cache)) for stack in plan.stacks
    }


def build_environments(plan: Plan, cache: Path, on_progress: Callable[[str], None]) -> tuple[Built, ...]:
    """Build what a plan's stacks need; an unbuildable one is told and the rest goes on."""
    built = []
    for name, spec in environments_of(plan, cache).items():
        try:
            environment = environments.ensure(spec, cache, on_progress=on_progress) if spec else None
            built.append(Built(name, environment))
        except UnbuildableError as error:
            built.append(Built(name, None, str(error)))
    return tuple(built)
