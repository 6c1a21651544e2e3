"""Environments of the real SGLang: what a second release costs, and what the installed one understands."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import UsageError
from benchharness.records import Environment, Model, Stack
from benchharness.stack import environments
from benchharness.stack.engines import sglang_options
from benchharness.stack.engines.sglang import ENGINE

Stacks = Callable[..., Stack]
Environments = Callable[[Stack], Environment]


def inodes(folder: Path) -> dict[tuple[int, int], int]:
    """(device, inode) -> bytes on disk of everything below."""
    entries = (path.lstat() for path in folder.rglob("*"))
    return {(entry.st_dev, entry.st_ino): entry.st_blocks * 512 for entry in entries}


def test_a_second_release_costs_little_disk_and_time(
    environment: Environments, stack: Stacks, tmp_path: Path
) -> None:
    first = environment(stack("0.5.23"))
    second = environments.ensure(ENGINE.environment(stack("0.5.22")), tmp_path)
    assert second.packages["sglang"] == "0.5.22"
    assert {n for n in first.packages if first.packages[n] != second.packages[n]} == {"sglang"}
    before = inodes(Path(first.path))
    added = sum(size for key, size in inodes(Path(second.path)).items() if key not in before)
    assert added < 300e6, f"{added / 1e6:.0f} MB"
    assert second.built_s < 60


def test_the_torch_that_was_declared_is_the_one_installed(environment: Environments, stack: Stacks) -> None:
    found = environment(stack())
    assert found.packages["torch"].split("+")[0] == "2.13.0"
    assert not any(name.startswith("nvidia") for name in found.packages)


def test_a_flag_that_the_release_lacks_is_refused_by_name(environment: Environments, stack: Stacks) -> None:
    lacking = stack(speculative_num_stepz=3, speculative_algorithm="EAGLE3")
    with pytest.raises(UsageError, match=r"0\.5\.23 has no argument --speculative-num-stepz") as refused:
        ENGINE.examine(lacking, environment(lacking))
    assert "did you mean 'speculative-num-steps'" in refused.value.message


def test_a_renamed_flag_is_spelled_as_each_release_knows_it(environment: Environments, stack: Stacks) -> None:
    for release, flag in (("0.5.23", "--cuda-graph-bs-decode"), ("0.5.9", "--cuda-graph-bs")):
        declared = stack(release, cuda_graph_bs=[1, 2])
        argv = ENGINE.command(declared, Model(path="/m"), environment(declared), 1, ()).argv
        assert argv[argv.index(flag) :][:3] == (flag, "1", "2")


def test_what_a_release_understands_is_asked_once(
    environment: Environments, stack: Stacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = environment(stack())
    first = ENGINE.examine(stack(), built)
    assert len({option.names for option in first.values()}) > 400
    monkeypatch.setattr(sglang_options, "ProcessTree", None)
    assert ENGINE.examine(stack(), built) == first


def test_a_seed_gives_the_same_model_for_ever(cache: Path, stack: Stacks, tmp_path: Path) -> None:
    def made(name: str, seed: int) -> dict[str, str]:
        declared = replace(stack(), model=Model(recipe="tiny-sglang", seed=seed))
        spec = ENGINE.model_environment(declared)
        assert spec is not None
        folder = tmp_path / name
        folder.mkdir()
        command = ENGINE.make_model(declared, environments.ensure(spec, cache), folder)
        subprocess.run(command.argv, check=True)
        return {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    first, again, other = made("a", 0), made("b", 0), made("c", 1)
    assert first == again
    changed = {name for name in first if first[name] != other[name]}
    assert changed == {
        f"{folder}/model.safetensors" for folder in ("target", "standalone", "eagle", "eagle3")
    }
