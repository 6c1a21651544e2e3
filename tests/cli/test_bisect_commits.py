"""Bisections over the commits of a real repository, whose commits say how fast the stand-in is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import bench, experiment, variables

FAST, SLOW = {"verify_ms": 2.0}, {"verify_ms": 4.0}
ENDS = ("--good", "v1", "--bad", "main", "--metric", "verify_ms")


def git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments],
        cwd=repo,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit(repo: Path, subject: str, content: object, name: str = "standin.json") -> str:
    (repo / name).write_text(content if isinstance(content, str) else json.dumps(content))
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", subject)
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository with two commits that can't be started, and a merge that brought the slow commit."""
    repo = tmp_path / "engine"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    commit(repo, "begin", FAST)
    git(repo, "tag", "v1")
    commit(repo, "words only", "words", "README")
    commit(repo, "breaks the build", "{")
    commit(repo, "mends the build", FAST)
    git(repo, "switch", "-q", "-c", "side")
    commit(repo, "prepares", "prepared", "notes")
    commit(repo, "verifies without graphs", SLOW)
    commit(repo, "writes of it", "written", "notes")
    git(repo, "switch", "-q", "main")
    commit(repo, "more words", "more words", "README")
    git(repo, "merge", "-q", "--no-ff", "-m", "merge of the side", "side")
    commit(repo, "still more words", "still more", "README")
    commit(repo, "again", "again", "README")
    experiment(
        tmp_path / "hunt.yaml",
        args={"launch_cv": 0.01, "noise_seed": None, "speculation": True, "phases": True, "accept_length": 2},
        base_source=None,
    )
    text = json.loads((tmp_path / "hunt.yaml").read_text())
    del text["base_source"]
    text["base"]["source"] = {"repo": str(repo)}
    (tmp_path / "hunt.yaml").write_text(json.dumps(text))
    return tmp_path


def test_the_culprit_is_found_inside_the_merge_that_brought_it(place: Path) -> None:
    (place / "engine" / "standin.json").write_text("uncommitted work")
    ended = bench("bisect", "run", "hunt.yaml", "--axis", "commit", *ENDS, "--merges", "--json", cwd=place)
    found = ended.document
    slow = git(place / "engine", "log", "-1", "--format=%H", "--grep", "verifies without graphs", "main")
    assert (ended.status, found["culprit"], found["phase"]) == (0, slow[:12], "verify"), ended.err
    assert any("uncommitted work" in note for note in found["notes"])
    assert any("entering the merge" in note for note in found["notes"])
    # The working tree of the clone is not touched.
    assert (place / "engine" / "standin.json").read_text() == "uncommitted work"

    log = bench("bisect", "log", "latest", cwd=place)
    replayed = place / "replay"
    replayed.write_text(log.out)
    git(place / "engine", "stash", "-q")
    git(place / "engine", "bisect", "replay", str(replayed))
    assert slow in git(place / "engine", "bisect", "log")


def test_git_bisect_run_can_ask_step_for_each_commit(place: Path) -> None:
    repo = place / "engine"
    git(repo, "bisect", "start", "main", "v1")
    step = [sys.executable, "-m", "benchharness", "bisect", "step", str(place / "hunt.yaml"), *ENDS]
    done = subprocess.run(
        ["git", "bisect", "run", *step, "--results", str(place / "results")],
        cwd=repo,
        env=variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    slow = git(repo, "log", "-1", "--format=%H", "--grep", "verifies without graphs", "main")
    assert f"{slow} is the first bad commit" in done.stdout, done.stdout + done.stderr
    # All calls shared one campaign: the ends were not measured anew for each commit.
    assert len(list(place.glob("results/small-bisect/*/campaign.json"))) == 1


def test_step_aborts_git_bisect_where_nothing_can_be_told(place: Path) -> None:
    unknown = bench("bisect", "step", "hunt.yaml", *ENDS, "--commit", "nothing", cwd=place)
    assert unknown.status == 255
    assert "no commit nothing" in unknown.err
    broken = git(place / "engine", "log", "-1", "--format=%H", "--grep", "breaks the build", "main")
    skipped = bench("bisect", "step", "hunt.yaml", *ENDS, "--commit", broken, cwd=place)
    assert skipped.status == 125, skipped.err
