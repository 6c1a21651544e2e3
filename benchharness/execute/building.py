"""Environments of a whole plan, built ahead of its launches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchharness.errors import UnbuildableError
from benchharness.execute.resolving import with_code
from benchharness.records import Built, Needed, Plan
from benchharness.stack import engines, environments


def environments_of(plan: Plan, cache: Path) -> dict[str, Needed]:
    """The environment that each stack of a resolved plan needs, by stack name.

    A commit that can't be built from is told, and the others go on: it is a point of a matrix as any other.
    """
    needed = {}
    for stack in plan.stacks:
        try:
            spec = engines.named(stack.engine).environment(with_code(stack, cache))
            needed[stack.name] = Needed(spec)
        except UnbuildableError as error:
            needed[stack.name] = Needed(None, str(error))
    return needed


def build_environments(plan: Plan, cache: Path, on_progress: Callable[[str], None]) -> tuple[Built, ...]:
    """Build what a plan's stacks need; an unbuildable one is told and the rest goes on."""
    built = []
    for name, needed in environments_of(plan, cache).items():
        spec = needed.spec
        try:
            environment = environments.ensure(spec, cache, on_progress=on_progress) if spec else None
            built.append(Built(name, environment, needed.reason))
        except UnbuildableError as error:
            built.append(Built(name, None, str(error)))
    return tuple(built)
