"""Runs at the start of every Python process below the harness: this folder stands first on PYTHONPATH.

Without BENCHHARNESS_PROBE_DIR nothing happens but that the next sitecustomize runs. With it, SGLang's
modules are instrumented as they are imported. This folder is taken off `sys.path` at once, so that no
module of the engine's can be mistaken for one of the probe's; PYTHONPATH still has it for children.
`python -I`, `-E` and `-S` don't run this file; `plugin/benchharness_plugin.py` says what is left then.
"""

from __future__ import annotations

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  (pathlib costs 5 ms a process)
PLUGIN = f"{HERE}/plugin"


def activate() -> None:
    """Load the probe and wait for SGLang's modules."""
    sys.path.insert(0, PLUGIN)
    importlib.import_module("benchharness_plugin").activate("sitecustomize")


def run_next() -> None:
    """Run the sitecustomize that this one hides (the user's, or the system's) under its own name."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    places = [os.path.abspath(entry or os.curdir) for entry in sys.path]  # noqa: PTH100
    first = places.index(HERE) + 1 if HERE in places else 0
    ours = (HERE, PLUGIN)
    later = [entry for entry, place in zip(sys.path[first:], places[first:]) if place not in ours]  # noqa: B905
    sys.path[:] = [entry for entry, place in zip(sys.path, places) if place not in ours]  # noqa: B905
    spec = PathFinder.find_spec("sitecustomize", later)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("BENCHHARNESS_PROBE_DIR"):
    try:
        activate()
    except ImportError as error:
        sys.stderr.write(f"benchharness probe: not active in process {os.getpid()}: {error!r}\n")
run_next()
