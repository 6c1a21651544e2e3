"""SGLang by commits of a repository: checked out, run, attested, compared, and bisected with git itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import wheel_repository

from benchharness.execute import resolving
from benchharness.records import Environment, Plan, Source, Stack
from benchharness.stack import environments
from benchharness.stack.engines.sglang import ENGINE
from benchharness.store import open_run

ROOT = Path(__file__).parents[2]
RELEASES = ("0.5.9", "0.5.12", "0.5.18", "0.5.23")
PREDICATE = """
import sys
from dataclasses import replace
from pathlib import Path
from benchharness.records import Model, Source, Stack
from benchharness.execute.resolving import with_code
from benchharness.stack import environments, sources
from benchharness.stack.engines.sglang import ENGINE
repo, cache = sys.argv[1], Path(sys.argv[2])
model, args = Model(recipe="tiny-sglang"), {"device": "cpu"}
stack = Stack("s", "sglang", packages={"torch": "2.13.0"}, model=model, args=args)
pinned = sources.pinned(Source(repo=repo, commit="HEAD"), cache)
stack = with_code(replace(stack, source=pinned), cache)
options = ENGINE.examine(stack, environments.ensure(ENGINE.environment(stack), cache))
print(pinned.commit, "--cuda-graph-bs-decode" in options)
sys.exit(1 if "--cuda-graph-bs-decode" in options else 0)
"""
EXPERIMENT = """
name: commits
engine: sglang
base:
  source: {{repo: {repo}}}
  packages: {{torch: "2.13.0"}}
  model: {{recipe: tiny-sglang, seed: 0}}
  args: {{device: cpu}}
matrix:
  source.commit: [v0.5.18, main]
workload: {{context_tokens: 128, output_tokens: 32, requests: 2}}
measure: {{launches: 1, warmup: 1}}
"""

Repository = tuple[Path, dict[str, str]]


@pytest.fixture(scope="module")
def repository(
    tmp_path_factory: pytest.TempPathFactory,
    environment: Callable[[Stack], Environment],
    stack: Callable[..., Stack],
) -> Repository:
    folder = tmp_path_factory.mktemp("it's a $repo") / "sglang"
    return folder, wheel_repository.make(folder, [(name, environment(stack(name))) for name in RELEASES])


@pytest.fixture(scope="module")
def ran(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("run")
    experiment = folder / "commits.yaml"
    experiment.write_text(EXPERIMENT.format(repo=json.dumps(str(repository[0]))), encoding="utf-8")
    argv = [*(sys.executable, "-m", "benchharness", "run", str(experiment), "--json")]
    argv += ["--results", str(folder / "results"), "--cache", str(cache)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


def test_commits_are_run_and_each_process_attests_its_checkout(
    ran: Any, repository: Repository, cache: Path
) -> None:
    document, folder = ran
    assert document["valid"] is True
    stored = open_run(folder / document["path"])
    wanted = {"commit=v0.5.18": "0.5.18", "commit=main": "0.5.23"}
    for launch in stored.launches:
        release = wanted[stored.run.plan.stack(launch.stack).name]
        commit = repository[1][release]
        assert stored.run.plan.stack(launch.stack).source.commit == commit
        settings = launch.attestation.settings
        assert (settings["commit"], settings["follows_release"]) == (commit, release)
        told = [report for report in launch.attestation.processes if report.files]
        assert told
        for report in told:
            assert f"/{commit[:12]}/python/sglang/" in report.files["sglang"]
            assert Path(report.files["sglang"]).is_relative_to(cache / "sources")


def test_compare_names_the_commits_first(ran: Any, repository: Repository) -> None:
    document, folder = ran
    run = folder / document["path"]
    argv = [sys.executable, "-m", "benchharness", "compare", f"{run}:commit=v0.5.18", f"{run}:commit=main"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=folder)
    assert done.returncode in (0, 1, 3), done.stderr
    assert repository[1]["0.5.18"][:12] in done.stderr + done.stdout
    assert repository[1]["0.5.23"][:12] in done.stderr + done.stdout


def test_git_bisects_the_repository_by_what_the_harness_finds_out(
    repository: Repository, cache: Path, tmp_path: Path
) -> None:
    """0.5.14 brought `--cuda-graph-bs-decode`: of these commits, the one of 0.5.18 is the first with it."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(repository[0]), str(clone)], check=True)
    predicate = tmp_path / "predicate.py"
    predicate.write_text(PREDICATE, encoding="utf-8")
    start = ["git", "bisect", "start", repository[1]["0.5.23"], repository[1]["0.5.9"]]
    subprocess.run(start, cwd=clone, check=True, capture_output=True)
    run = ["git", "bisect", "run", sys.executable, str(predicate), str(clone), str(cache)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(run, cwd=clone, env=env, capture_output=True, text=True)
    assert f"{repository[1]['0.5.18']} is the first" in done.stdout, done.stdout + done.stderr


def test_a_patched_checkout_has_what_the_patch_brings(
    repository: Repository, stack: Callable[..., Stack], cache: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(repository[0]), str(clone)], check=True)
    path = clone / "python" / "sglang" / "srt" / "server_args.py"
    text = path.read_text(encoding="utf-8")
    marker = "    @staticmethod\n    def add_cli_args(parser: argparse.ArgumentParser):\n"
    assert marker in text
    flag = '        parser.add_argument("--of-the-patch", action="store_true")\n'
    path.write_text(text.replace(marker, marker + flag), encoding="utf-8")
    source = Source(repo=str(clone))
    plan = Plan("p", (replace(stack(of_the_patch=True), source=source),), (), (), "none", 1)
    said: list[str] = []
    resolved = resolving.resolve(plan, cache, said.append)
    dirty = resolved.stacks[0]
    assert dirty.source.diff_sha256
    assert any("uncommitted work" in line for line in said)
    assert flag.strip() in resolving.diffs(resolved, cache)[dirty.source.diff_sha256]
    with_code = resolving.with_code(dirty, cache)
    options = ENGINE.examine(with_code, environments.ensure(ENGINE.environment(with_code), cache))
    assert "--of-the-patch" in options
    linked = list(Path(str(with_code.source.folder)).rglob("*.so"))
    assert linked and all(library.is_symlink() for library in linked)
