"""Checkouts in the cache: which are old, and that removing one leaves the repository fit for use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.records import Source
from benchharness.stack import checkouts, sources

DAY = 86400


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@b")
    command = ["git", *settings, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, list[Source]]:
    """A cache with checkouts of two commits, and their sources."""
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q")
    found = []
    for text in ("one", "two"):
        (repo / "engine.py").write_text(text)
        git(repo, "add", "--all")
        git(repo, "commit", "-q", "-m", text)
        found.append(Source(repo=str(repo), commit=git(repo, "rev-parse", "HEAD")))
    cache = tmp_path / "cache"
    for source in found:
        sources.checkout(source, cache)
    return cache, found


def age(cache: Path, source: Source, days: float) -> None:
    record = Path(f"{sources.checkout(source, cache).path}.json")
    then = record.stat().st_mtime - days * DAY
    os.utime(record, (then, then))


def test_only_what_was_long_unused_is_old_and_a_use_makes_it_young(made: tuple[Path, list[Source]]) -> None:
    cache, (first, second) = made
    age(cache, first, 40)
    (old,) = checkouts.unused(cache, 30)
    assert old.path.name == str(first.commit)[:12]
    assert old.size_bytes > 0
    sources.of_pinned(first, cache)
    assert checkouts.unused(cache, 30) == ()
    assert len(checkouts.unused(cache, -1)) == 2
    assert second.commit != first.commit


def test_what_a_process_imports_from_is_not_old(made: tuple[Path, list[Source]]) -> None:
    cache, (first, _) = made
    age(cache, first, 40)
    (old,) = checkouts.unused(cache, 30)
    running = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        env={**os.environ, "PYTHONPATH": f"/elsewhere:{old.path}/python"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    try:
        assert checkouts.unused(cache, 30) == ()
    finally:
        running.communicate(b"\n")
    assert checkouts.unused(cache, 30) == (old,)


def test_what_is_removed_is_forgotten_by_git_and_made_again(made: tuple[Path, list[Source]]) -> None:
    cache, (first, second) = made
    age(cache, first, 40)
    (old,) = checkouts.unused(cache, 30)
    checkouts.remove(old)
    assert not old.path.exists()
    assert not Path(f"{old.path}.json").exists()
    (mirror,) = (cache / "sources").glob("*.git")
    listed = git(mirror, "worktree", "list", "--porcelain")
    assert str(old.path) not in listed
    kept = sources.checkout(second, cache)
    assert kept.path in listed
    assert (Path(kept.path) / "engine.py").read_text() == "two"
    assert (Path(sources.checkout(first, cache).path) / "engine.py").read_text() == "one"


def test_no_cache_yet(tmp_path: Path) -> None:
    assert checkouts.unused(tmp_path / "none", 0) == ()
