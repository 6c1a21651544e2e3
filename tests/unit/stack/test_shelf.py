"""Environments on the shelf: real ones, their sizes and ages, and what may be removed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchharness.records import Environment, EnvironmentSpec
from benchharness.stack import environments, shelf

SIX, OLDER = EnvironmentSpec(requirements=("six==1.17.0",)), EnvironmentSpec(requirements=("six==1.16.0",))
DAY = 86400


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def built(cache: Path) -> tuple[Environment, Environment]:
    return environments.ensure(SIX, cache), environments.ensure(OLDER, cache)


def age(environment: Environment, days: float) -> None:
    manifest = Path(environment.path) / environments.MANIFEST
    then = manifest.stat().st_mtime - days * DAY
    os.utime(manifest, (then, then))


def test_sizes_tell_what_is_shared(cache: Path, built: tuple[Environment, Environment]) -> None:
    copied = Path(built[0].path) / "own.bin"
    copied.write_bytes(os.urandom(1_000_000))
    sizes = {one.environment.key: one for one in shelf.kept(cache)}
    assert set(sizes) == {environment.key for environment in built}
    assert sizes[built[0].key].own_bytes - sizes[built[1].key].own_bytes >= 1_000_000
    os.link(copied, Path(built[0].path) / "again.bin")
    linked = {one.environment.key: one for one in shelf.kept(cache)}[built[0].key]
    assert linked.shared_bytes - sizes[built[0].key].shared_bytes >= 1_000_000


def test_only_what_was_long_unused_is_old_and_a_use_makes_it_young(
    cache: Path, built: tuple[Environment, Environment]
) -> None:
    age(built[0], 40)
    assert [one.environment.key for one in shelf.unused(cache, 30)] == [built[0].key]
    assert shelf.kept(cache)[0].environment.key == built[0].key
    environments.ensure(SIX, cache)
    assert shelf.unused(cache, 30) == ()


def test_what_runs_is_not_old(cache: Path, built: tuple[Environment, Environment]) -> None:
    age(built[0], 40)
    running = subprocess.Popen([built[0].python_path, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert shelf.unused(cache, 30) == ()
    finally:
        running.communicate(b"\n")
    assert len(shelf.unused(cache, 30)) == 1


def test_what_is_removed_is_built_again_when_it_is_needed(
    cache: Path, built: tuple[Environment, Environment]
) -> None:
    age(built[0], 40)
    (old,) = shelf.unused(cache, 30)
    shelf.remove(old)
    assert not Path(built[0].path).exists()
    assert [one.environment.key for one in shelf.kept(cache)] == [built[1].key]
    again = environments.ensure(SIX, cache)
    assert again.key == built[0].key
    assert again.built_s > 0
