"""vLLM's arguments are read from its own parser by a real interpreter: here from small packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchharness.errors import UnbuildableError
from benchharness.records import Environment
from benchharness.stack.engines.vllm_options import installed

PARSER = "import argparse\nclass FlexibleArgumentParser(argparse.ArgumentParser): pass\n"
MAKE = """
import argparse
def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--max-num-seqs", type=int)
    parser.add_argument("--speculative-config", "-sc", type=str)
    parser.add_argument("--enforce-eager", action=argparse.BooleanOptionalAction)
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--headless", action="store_true")
    return parser
"""
NEW = {"utils/argparse_utils.py": PARSER, "entrypoints/launchers/cli_args.py": MAKE}
OLD = {"utils/__init__.py": PARSER, "entrypoints/openai/cli_args.py": MAKE}


def place(folder: Path, files: dict[str, str]) -> tuple[Environment, dict[str, str | None]]:
    for name, text in files.items():
        path = folder / "path" / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = Environment("key", str(folder), sys.executable, "3.11", {})
    return environment, {"PYTHONPATH": str(folder / "path")}


@pytest.mark.parametrize("files", [NEW, OLD])
def test_the_parser_is_found_wherever_the_release_has_it(tmp_path: Path, files: dict[str, str]) -> None:
    found = installed(*place(tmp_path, files))
    kinds = {name: option.kind for name, option in found.items()}
    assert kinds["--max-num-seqs"] == kinds["-sc"] == "value"
    assert found["-sc"] is found["--speculative-config"]
    assert kinds["--enforce-eager"] == kinds["--no-enforce-eager"] == "both-ways"
    assert kinds["--served-model-name"] == "list"
    assert kinds["--headless"] == "switch"


def test_an_environment_is_asked_once(tmp_path: Path) -> None:
    environment, variables = place(tmp_path, NEW)
    first = installed(environment, variables)
    (tmp_path / "path" / "vllm" / "entrypoints" / "launchers" / "cli_args.py").unlink()
    assert installed(environment, variables) == first


def test_what_does_not_import_says_why_and_is_not_taken_for_another_place(tmp_path: Path) -> None:
    broken = {**NEW, "entrypoints/launchers/cli_args.py": "import vllm_of_no_kind"}
    environment, variables = place(tmp_path, {**OLD, **broken})
    with pytest.raises(UnbuildableError, match=r"vLLM doesn't import .*vllm_of_no_kind") as error:
        installed(environment, variables)
    assert "vllm-arguments.log" in error.value.advice
