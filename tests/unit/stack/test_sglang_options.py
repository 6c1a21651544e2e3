"""SGLang's arguments are read from its own parser by a real interpreter: here from a small package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchharness.errors import UnbuildableError
from benchharness.records import Environment
from benchharness.stack.engines import sglang_options
from benchharness.stack.engines.sglang_options import installed

SERVER_ARGS = """
import argparse

class DeprecatedAction(argparse.Action):
    def __call__(self, *a, **k): raise ValueError

class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int)
        parser.add_argument("--dtype", choices=["auto", "half"], default="auto")
        parser.add_argument("--cuda-graph-bs", type=int, nargs="+")
        parser.add_argument("--disable-cuda-graph", action="store_true")
        parser.add_argument("--enable-lora", action=argparse.BooleanOptionalAction)
        parser.add_argument("--enable-ep-moe", action=DeprecatedAction, nargs=0, help="Use  --ep-size.")
"""


def place(folder: Path, server_args: str = SERVER_ARGS) -> tuple[Environment, dict[str, str | None]]:
    package = folder / "path" / "sglang" / "srt"
    package.mkdir(parents=True)
    (package / "server_args.py").write_text(server_args)
    environment = Environment("key", str(folder), sys.executable, "3.11", {})
    return environment, {"PYTHONPATH": str(folder / "path")}


def test_every_spelling_leads_to_its_option(tmp_path: Path) -> None:
    found = installed(*place(tmp_path), tmp_path)
    assert found["--tp-size"] is found["--tensor-parallel-size"]
    kinds = {name: option.kind for name, option in found.items()}
    assert kinds["--tp-size"] == "value"
    assert kinds["--cuda-graph-bs"] == "list"
    assert kinds["--disable-cuda-graph"] == "switch"
    assert kinds["--enable-lora"] == kinds["--no-enable-lora"] == "both-ways"
    assert kinds["--enable-ep-moe"] == "withdrawn"
    assert found["--dtype"].choices == ("auto", "half")


def test_an_environment_is_asked_once(tmp_path: Path) -> None:
    environment, variables = place(tmp_path)
    first = installed(environment, variables, tmp_path)
    (tmp_path / "path" / "sglang" / "srt" / "server_args.py").unlink()
    assert installed(environment, variables, tmp_path) == first


def test_an_answer_of_another_layout_or_a_broken_one_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, variables = place(tmp_path)
    first = installed(environment, variables, tmp_path)
    kept = tmp_path / "sglang-arguments.json"
    kept.write_text("{ half")
    assert installed(environment, variables, tmp_path) == first
    monkeypatch.setattr(sglang_options, "LAYOUT", 99)
    (tmp_path / "path" / "sglang" / "srt" / "server_args.py").write_text("raise ImportError('gone')")
    with pytest.raises(UnbuildableError):
        installed(environment, variables, tmp_path)


def test_what_does_not_import_is_unbuildable_and_says_why(tmp_path: Path) -> None:
    environment, variables = place(tmp_path, "raise ImportError('undefined symbol: _ZN3c10')")
    with pytest.raises(UnbuildableError, match=r"doesn't import .*undefined symbol: _ZN3c10") as error:
        installed(environment, variables, tmp_path)
    assert "sglang-arguments.log" in error.value.advice
    assert not (tmp_path / "sglang-arguments.json").exists()
