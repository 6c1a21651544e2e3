"""What an engine wants, under what a stack declares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.records import Source, Stack
from benchharness.stack.engines import engine_packages, sglang_environment, vllm_environment

CUDA = Stack("s", "sglang", Source(release="0.5.12"))


def test_up_to_0_5_2_a_server_is_an_extra() -> None:
    old, new = (replace(CUDA, source=Source(release=release)) for release in ("0.5.2", "0.5.3"))
    assert sglang_environment.environment(old).requirements == ("sglang[all]==0.5.2",)
    assert sglang_environment.environment(new).requirements == ("sglang==0.5.3",)


def test_declared_packages_win_over_pins_and_are_asked_for() -> None:
    stack = replace(CUDA, packages={"sglang-kernel": "0.4.4", "kernels": None, "torch": "host"})
    spec = sglang_environment.environment(stack)
    assert spec.requirements == ("sglang-kernel==0.4.4", "sglang==0.5.12")
    assert spec.overrides == ("sglang-kernel==0.4.4",)
    assert (spec.excludes, spec.host) == (("kernels",), ("torch",))


def test_a_commits_own_pins_win_over_those_of_the_release_that_it_follows(tmp_path: Path) -> None:
    python = tmp_path / "python"
    (python / "sglang").mkdir(parents=True)
    (python / "sglang" / "launch_server.py").touch()
    text = '[project]\nversion = "0.5.12"\ndependencies = ["torch==2.11.0", "sglang-kernel==0.4.3"]\n'
    (python / "pyproject.toml").write_text(text)
    source = Source(repo="r", commit="a" * 40, folder=str(tmp_path))
    spec = sglang_environment.environment(replace(CUDA, source=source, packages={"sglang-kernel": "0.4.4"}))
    assert spec.requirements == ("sglang-kernel==0.4.4", "sglang==0.5.12")
    assert set(spec.overrides) == {"torch==2.11.0", "sglang-kernel==0.4.4"}


@pytest.mark.parametrize("device", ["cpu", None])
def test_vllm_knows_host_and_left_out_packages_too(device: str | None) -> None:
    args = {"device": device} if device else {}
    packages = {"numpy": "host", "triton": None, "transformers": "5.1.0"}
    stack = Stack("s", "vllm", Source(release="0.32.0"), packages=packages, args=args)
    spec = vllm_environment.environment(stack)
    assert not any(line.startswith(("numpy==", "triton==")) for line in spec.requirements)
    assert "transformers==5.1.0" in spec.requirements
    assert (spec.excludes, spec.host) == (("triton",), ("numpy",))
    assert spec.overrides == (() if device else ("transformers==5.1.0",))


def test_names_are_compared_as_indexes_do() -> None:
    stack = replace(CUDA, packages={"Flashinfer_Python": "0.6.0"})
    assert engine_packages.overridden({"flashinfer-python": "0.7.2"}, stack) == {
        "flashinfer-python": "0.7.2 -> 0.6.0"
    }
    spec = engine_packages.specification(stack, {"flashinfer-python": "0.7.2"}, whole=True)
    assert spec.requirements == ("flashinfer-python==0.6.0",)
