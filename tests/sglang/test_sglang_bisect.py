"""A bisection of the real SGLang over commits: releases, changes that do nothing, one that drafts badly."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import wheel_repository

from benchharness.bisect.discover.commits import SHORT
from benchharness.records import Environment, Stack

WORKER = "srt/speculative/eagle_worker_v2.py"
DRAFTS_BADLY = "Take the draft's least likely token"
CHANGES = (
    ("Import what is not there", "srt/server_args.py", "import argparse\n", "import argparse, not_there\n"),
    ("Import what is there", "srt/server_args.py", "import argparse, not_there\n", "import argparse\n"),
    (DRAFTS_BADLY, WORKER, "torch.argmax(", "torch.argmin("),
    ("Say more of a draft step", WORKER, "# Forward multiple steps", "# Forward as many steps as asked for"),
)
"""Commits upon the last release, oldest first: subject, file, and what becomes what."""

EXPERIMENT = {
    "name": "drafts",
    "engine": "sglang",
    "base": {
        "packages": {"torch": "2.13.0"},
        "model": {"recipe": "tiny-sglang", "seed": 0},
        "args": {
            "device": "cpu",
            "skip-server-warmup": True,
            "speculative-algorithm": "STANDALONE",
            "speculative-num-steps": 3,
            "speculative-eagle-topk": 1,
            "speculative-num-draft-tokens": 4,
        },
    },
    # Requests long enough that a busy machine's pauses between them are small beside them.
    "workload": {"context_tokens": 64, "output_tokens": 256, "requests": 3},
    "measure": {"warmup": 1},
}


@pytest.fixture(scope="module")
def repository(
    tmp_path_factory: pytest.TempPathFactory,
    environment: Callable[[Stack], Environment],
    stack: Callable[..., Stack],
    cache: Path,
) -> Iterator[tuple[Path, dict[str, str]]]:
    """A repository with its commits by release or subject; their checkouts go when the tests are over."""
    folder = tmp_path_factory.mktemp("bisect") / "sglang"
    releases = ("0.5.18", "0.5.23")
    commits = wheel_repository.make(folder, [(name, environment(stack(name))) for name in releases])
    for subject, inside, old, new in CHANGES:
        path = folder / "python" / "sglang" / inside
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{inside} of this release has no {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")
        commits[subject] = wheel_repository.commit(folder, subject)
    commits = {name: commit[:SHORT] for name, commit in commits.items()}
    yield folder, commits
    sources = cache / "sources"
    records = sources.glob("*/*.json")
    for name in {one.parent.name for one in records if json.loads(one.read_text())["repo"] == str(folder)}:
        shutil.rmtree(sources / name)
        shutil.rmtree(sources / f"{name}.git")
        (sources / f"{name}.lock").unlink()


# A launch takes half a minute on a quiet machine, and five times as long on a busy one.
@pytest.mark.timeout(3000)
def test_the_commit_that_drafts_badly_is_named_with_its_phase(
    repository: tuple[Path, dict[str, str]], cache: Path, tmp_path: Path
) -> None:
    folder, commits = repository
    experiment = tmp_path / "drafts.yaml"
    base = {**EXPERIMENT["base"], "source": {"repo": str(folder)}}  # type: ignore[dict-item]
    experiment.write_text(json.dumps({**EXPERIMENT, "base": base}), encoding="utf-8")
    argv = [sys.executable, "-m", "benchharness", "bisect", "run", str(experiment), "--axis", "commit"]
    argv += ["--good", "v0.5.18", "--bad", "main", "--metric", "accept_length", "--json"]
    argv += ["--results", str(tmp_path / "results"), "--cache", str(cache)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["outcome"] == "found"
    assert found["culprit"] == commits[DRAFTS_BADLY]
    assert found["range"] == [commits["Import what is there"], commits[DRAFTS_BADLY]]
    assert found["confidence"] >= 0.95
    assert found["phase"] == "acceptance"
    # Of four drafted tokens hardly one is accepted, where nearly three were.
    assert found["low"] < found["change"] < found["high"] < -0.5
    assert not any("more than one change" in warning for warning in found["warnings"])
    assert set(found["unusable"]) <= {commits["Import what is not there"]}
    assert found["launches"] <= 16
