"""The arguments that an installed vLLM understands, read from its own parser as SGLang's are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchharness.records import Environment
from benchharness.stack.engines import sglang_options
from benchharness.stack.engines.sglang_options import Options, Parser

CODE = """
import importlib, json, sys

def first(attribute, *modules):
    # Where it stands changed with the releases; a module that is there but doesn't import is no other place.
    for name in modules:
        try:
            return getattr(importlib.import_module(name), attribute)
        except ModuleNotFoundError as error:
            if error.name is None or not (name + ".").startswith(error.name + "."):
                raise
    raise ImportError(f"no {attribute} in any of {', '.join(modules)}")

make = first("make_arg_parser", "vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
parser = make(first("FlexibleArgumentParser", "vllm.utils.argparse_utils", "vllm.utils")())
found = [
    {
        "names": action.option_strings,
        "action": type(action).__name__,
        "nargs": action.nargs,
        "choices": None if action.choices is None else [str(choice) for choice in action.choices],
        "help": str(action.help or ""),
    }
    for action in parser._actions
    if action.option_strings
]
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(found, file)
"""

VLLM = Parser("vLLM", "vllm-arguments", CODE)


def installed(environment: Environment, variables: Mapping[str, str | None]) -> Options:
    """The arguments of the vLLM in that environment, read once and kept in its folder.

    Raises UnbuildableError if vLLM doesn't import there, InfrastructureError if it can't be asked.
    """
    return sglang_options.installed(environment, variables, Path(environment.path), VLLM)
