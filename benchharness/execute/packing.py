"""The environments of a whole plan, as a bundle for a host without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchharness.execute.building import environments_of
from benchharness.records import EnvironmentSpec, Plan
from benchharness.stack import bundles, engines


def pack(
    plan: Plan, cache: Path, folder: Path, options: bundles.Options, tell: Callable[[str], None]
) -> bundles.Packed:
    """Write a bundle with every environment that a resolved plan needs, those of its model recipes included.

    Raises as `bundles.pack` does.
    """
    needed: dict[EnvironmentSpec, list[str]] = {}
    for name, of_stack in environments_of(plan, cache).items():
        if of_stack.reason:
            tell(f"{name} is left out: {of_stack.reason}")
        elif of_stack.spec is not None:
            needed.setdefault(of_stack.spec, []).append(name)
    for stack in plan.stacks:
        spec = engines.named(stack.engine).model_environment(stack)
        if stack.model.recipe is not None and spec is not None:
            names = needed.setdefault(spec, [])
            what = f"the model {stack.model.recipe}"
            names += [] if what in names else [what]
    wanted = [bundles.Wanted(tuple(names), spec) for spec, names in needed.items()]
    return bundles.pack(wanted, folder, options, tell)
