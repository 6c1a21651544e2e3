"""The real SGLang on the CPU: environments and models in a cache that outlives the tests.

The cache is BENCHHARNESS_TEST_CACHE, or ~/.cache/benchharness-tests; the first run installs 3 GB. Where
torch's CPU build is not on the index, UV_FIND_LINKS names its folder, as for every use of uv.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchharness.records import Environment, Model, Source, Stack
from benchharness.stack import environments
from benchharness.stack.engines.sglang import ENGINE

CACHE = Path(os.environ.get("BENCHHARNESS_TEST_CACHE", Path.home() / ".cache" / "benchharness-tests"))
NEW = "0.5.23"

BASE = Stack(
    name="s",
    engine="sglang",
    source=Source(release=NEW),
    packages={"torch": "2.13.0"},
    model=Model(recipe="tiny-sglang"),
    args={"device": "cpu"},
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.sglang)
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def cache() -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    return CACHE


@pytest.fixture(scope="session")
def stack() -> Callable[..., Stack]:
    """A stack of a release with further arguments, hyphens written as underscores."""

    def make(release: str = NEW, **args: Any) -> Stack:
        named = {name.replace("_", "-"): value for name, value in args.items()}
        return replace(BASE, source=Source(release=release), args={**BASE.args, **named})

    return make


@pytest.fixture(scope="session")
def environment(cache: Path) -> Callable[[Stack], Environment]:
    """The stack's environment, built once."""
    return lambda stack: environments.ensure(ENGINE.environment(stack), cache)
