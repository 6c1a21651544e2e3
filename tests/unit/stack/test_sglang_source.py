"""What a checkout of SGLang's repository tells: the release it follows, its pins, its compiled modules."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import UnbuildableError
from benchharness.records import Environment, Source, Stack
from benchharness.stack.engines import sglang_environment, sglang_source
from benchharness.stack.engines.sglang_settings import variables

PYPROJECT = """
[project]
name = "sglang"
{version}
dependencies = ["torch==2.8.0", "transformers==4.57.1", "flashinfer_python[cu13]==0.7.2", "numpy",
  "av==16.1.0; platform_machine == 'aarch64'"]
[project.optional-dependencies]
srt = ["sgl-kernel==0.3.9.post2"]
"""


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    package = folder / "python" / "sglang"
    package.mkdir(parents=True)
    (package / "launch_server.py").touch()
    (folder / "python" / "pyproject.toml").write_text(PYPROJECT.format(version='dynamic = ["version"]'))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def of(folder: Path, **more: object) -> Stack:
    stack = Stack("s", "sglang", Source(repo="r", commit="abc", folder=str(folder)), args={"device": "cpu"})
    return replace(stack, **more)  # type: ignore[arg-type]


def test_the_last_tag_before_a_commit_names_its_release(checkout: Path) -> None:
    git(checkout, "tag", "v0.5.18.post1")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "two")
    git(checkout, "tag", "gateway-v9.9.9")
    assert sglang_source.release(of(checkout)) == "0.5.18.post1"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", PYPROJECT.format(version='version = "0.5.2"')),
        ("sglang/version.py", '__version__ = "0.5.2"\n'),
        ("sglang/_version.py", "__version__: str\n__version__ = version = '0.5.2'\n"),
    ],
)
def test_a_version_in_the_code_counts_more_than_a_tag(checkout: Path, name: str, text: str) -> None:
    git(checkout, "tag", "v0.5.1")
    (checkout / "python" / name).write_text(text)
    assert sglang_source.release(of(checkout)) == "0.5.2"


def test_a_fallback_version_is_no_release(checkout: Path) -> None:
    fallback = 'try:\n    from a import b\nexcept ImportError:\n    __version__ = "0.0.0.dev0"\n'
    (checkout / "python" / "sglang" / "version.py").write_text(fallback)
    git(checkout, "tag", "v0.5.9")
    assert sglang_source.release(of(checkout)) == "0.5.9"


def test_a_commit_that_tells_no_release_is_refused_unless_one_is_named(checkout: Path) -> None:
    with pytest.raises(UnbuildableError, match="doesn't tell which release") as refused:
        sglang_source.release(of(checkout))
    assert "`packages.sglang`" in refused.value.advice
    assert sglang_source.release(of(checkout, packages={"sglang": "0.5.18"})) == "0.5.18"


def test_a_repository_of_something_else_is_refused(checkout: Path) -> None:
    git(checkout, "tag", "v0.5.9")
    (checkout / "python" / "sglang" / "launch_server.py").unlink()
    with pytest.raises(UnbuildableError, match="holds no SGLang"):
        sglang_environment.environment(of(checkout))


def test_a_commits_own_pins_make_its_environment(checkout: Path) -> None:
    git(checkout, "tag", "v0.5.18")
    pins = sglang_source.pins(checkout)
    assert pins == {
        "torch": "2.8.0",
        "transformers": "4.57.1",
        "flashinfer-python": "0.7.2",
        "sgl-kernel": "0.3.9.post2",
    }
    wanted = set(sglang_environment.environment(of(checkout)).requirements)
    # The wheel of the release brings compiled modules; 0.5.18 itself pins torch 2.13.0.
    assert {"sglang==0.5.18", "torch==2.8.0", "transformers==4.57.1"} <= wanted
    declared = of(checkout, packages={"torch": "2.13.0"})
    assert "torch==2.13.0" in sglang_environment.environment(declared).requirements
    assert sglang_environment.overridden_pins(declared) == {"torch": "2.8.0 -> 2.13.0"}


def test_the_checkout_comes_before_what_is_installed_and_after_the_kernels(checkout: Path) -> None:
    stack = of(checkout, env={"PYTHONPATH": "/users"})
    path = str(variables(stack)["PYTHONPATH"]).split(":")
    assert path == [str(sglang_environment.CPU_KERNELS), str(checkout / "python"), "/users"]


def test_compiled_modules_are_linked_where_the_checkout_lacks_them(checkout: Path, tmp_path: Path) -> None:
    def environment(name: str) -> tuple[Environment, Path]:
        installed = tmp_path / name / "lib" / "python3.11" / "site-packages" / "sglang"
        (installed / "srt").mkdir(parents=True)
        (installed / "gone").mkdir()
        for library in ("srt/_core.so", "srt/_own.so", "gone/_old.so"):
            (installed / library).write_text(name)
        return Environment(name, str(tmp_path / name), "", "", {}), installed

    (checkout / "python" / "sglang" / "srt").mkdir()
    (checkout / "python" / "sglang" / "srt" / "_own.so").write_text("the commit's")
    first, _ = environment("first")
    assert sglang_source.link_compiled(checkout, first) == ("srt/_core.so",)
    core = checkout / "python" / "sglang" / "srt" / "_core.so"
    assert core.read_text() == "first"
    second, _ = environment("second")
    assert sglang_source.link_compiled(checkout, second) == ("srt/_core.so",)
    assert core.read_text() == "second"
    assert (core.parent / "_own.so").read_text() == "the commit's"
