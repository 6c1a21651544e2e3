"""Which packages an engine's environment gets: what the engine wants, under what the stack declares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchharness.records import EnvironmentSpec, Stack
from benchharness.stack import packages


def frozen(path: Path) -> dict[str, str]:
    """A frozen set, `name==version` lines and comments: normalised name -> version."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {packages.normal(name): version for name, version in pairs}


def specification(
    stack: Stack, wanted: Mapping[str, str], *, whole: bool, pins: Mapping[str, str] | None = None
) -> EnvironmentSpec:
    """The environment of a stack.

    Args:
        stack: what it declares under `packages` wins.
        wanted: requirement (a name, perhaps with extras) -> version.
        whole: `wanted` is all that is needed; else what it asks for is resolved and installed too.
        pins: versions that win over what `wanted` asks for, as far as the stack declares no others.
    """
    declared = packages.declared(stack.packages)
    over = {**(pins or {}), **declared.pinned}
    over = {name: version for name, version in over.items() if name not in declared.elsewhere}
    plain = {name: packages.normal(name.partition("[")[0]) for name in wanted}
    lines = {name: over.get(plain[name], version) for name, version in wanted.items()}
    lines |= {name: version for name, version in declared.pinned.items() if name not in plain.values()}
    return EnvironmentSpec(
        python=stack.python,
        requirements=tuple(
            sorted(f"{name}=={version}" for name, version in lines.items() if name not in declared.elsewhere)
        ),
        no_deps=whole,
        find_links=stack.find_links,
        extra_index_urls=stack.extra_index_urls,
        imports=("torch",),
        # Engines pin nearly all that they ask for: what is declared has to win over that.
        overrides=() if whole else tuple(f"{name}=={version}" for name, version in over.items()),
        excludes=declared.left_out,
        host=declared.host,
    )


def overridden(pins: Mapping[str, str], stack: Stack) -> dict[str, str]:
    """What the stack declares against pins: name -> "pin -> declared"."""
    declared = {packages.normal(name): version for name, version in stack.packages.items()}
    return {
        name: f"{pins[name]} -> {version or 'left out'}"
        for name, version in sorted(declared.items())
        if name in pins and pins[name] != version
    }
