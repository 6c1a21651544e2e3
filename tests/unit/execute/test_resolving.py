"""Commits of a plan: named in full, checked out when needed, and never quietly another code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchharness.errors import UsageError
from benchharness.execute import resolving
from benchharness.records import Plan, ProcessReport, Source, Stack
from benchharness.records.ready import EngineFacts
from benchharness.stack import attestation


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "code.py").write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "one")
    return folder


def plan(*sources: Source) -> Plan:
    stacks = tuple(Stack(f"s{n}", "sglang", source) for n, source in enumerate(sources))
    return Plan("p", stacks, (), (), "none", 1)


def test_a_branch_becomes_a_hash_that_stays_when_the_branch_moves(repo: Path, tmp_path: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    said: list[str] = []
    resolved = resolving.resolve(plan(Source(repo=str(repo), commit="main")), tmp_path / "c", said.append)
    commit(repo, "two")
    stack = resolving.with_code(resolved.stacks[0], tmp_path / "c")
    assert stack.source.commit == first
    assert Path(str(stack.source.folder), "code.py").read_text() == "one"
    assert resolved.stacks[0].source.folder is None
    assert said == [f"looking up main of {repo}"]


def test_uncommitted_work_is_said_kept_and_run(repo: Path, tmp_path: Path) -> None:
    (repo / "code.py").write_text("changed")
    said: list[str] = []
    resolved = resolving.resolve(plan(Source(repo=str(repo))), tmp_path / "c", said.append)
    (repo / "code.py").write_text("changed again")
    stack = resolving.with_code(resolved.stacks[0], tmp_path / "c")
    assert Path(str(stack.source.folder), "code.py").read_text() == "changed"
    (text,) = resolving.diffs(resolved, tmp_path / "c").values()
    assert "+changed" in text
    assert any("uncommitted work" in line for line in said)


def test_uncommitted_work_that_is_gone_is_refused_and_not_replaced(repo: Path, tmp_path: Path) -> None:
    (repo / "code.py").write_text("changed")
    resolved = resolving.resolve(plan(Source(repo=str(repo))), tmp_path / "c", lambda _: None)
    with pytest.raises(UsageError, match="can't be found any more"):
        resolving.with_code(resolved.stacks[0], tmp_path / "another cache")


def test_a_release_and_an_engine_without_checkouts_stay_as_they_are(tmp_path: Path) -> None:
    declared = plan(Source(release="0.5.23"))
    assert resolving.resolve(declared, tmp_path, lambda _: None) == declared
    plain = Plan("p", (Stack("s", "llamacpp", Source(repo="none", commit="x")),), (), (), "none", 1)
    assert resolving.resolve(plain, tmp_path, lambda _: None) == plain
    unreal = Plan("p", (Stack("s", "standin", Source(repo="synthetic", commit="x")),), (), (), "none", 1)
    assert resolving.resolve(unreal, tmp_path, lambda _: None) == unreal
    assert resolving.diffs(declared, tmp_path) == {}


def test_an_unknown_commit_is_refused(repo: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no commit, tag or branch nothing"):
        resolving.resolve(plan(Source(repo=str(repo), commit="nothing")), tmp_path / "c", lambda _: None)


def test_a_process_that_imports_another_copy_than_the_checkout_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    (folder / "python" / "sglang").mkdir(parents=True)
    stack = Stack("s", "sglang", Source(repo="r", commit="a" * 40, folder=str(folder)))
    right = ProcessReport(1, 0, files={"sglang": f"{folder}/python/sglang/__init__.py"}, source="probe")
    wrong = ProcessReport(2, 1, files={"sglang": "/site-packages/sglang/__init__.py"}, source="probe")
    taken = attestation.take(stack, {}, EngineFacts(), None, (right, wrong), lambda _: "")
    (mismatch,) = taken.mismatches
    assert (mismatch.where, mismatch.name, mismatch.declared) == ("rank 1 (pid 2)", "source.commit", "a" * 12)
    assert mismatch.effective == "/site-packages/sglang/__init__.py"
