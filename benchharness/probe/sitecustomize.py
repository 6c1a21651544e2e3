"""Runs at the start of every Python process below the harness: this folder stands first on PYTHONPATH.

Without BENCHHARNESS_PROBE_DIR nothing happens but that the next sitecustomize runs. With it, SGLang's
modules are instrumented as they are imported. This folder is taken off `sys.path` at once, so that no
module of the engine's can be mistaken for one of the probe's; PYTHONPATH still has it for children.
`python -I` and `python -S` don't run this file, and a process so started leaves no file.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  (pathlib costs 5 ms a process)
PACKAGE = "benchharness_probe"


def activate() -> None:
    """Load the probe as a package of its own name and wait for SGLang's modules."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        PACKAGE, f"{HERE}/__init__.py", submodule_search_locations=[HERE]
    )
    if spec is None or spec.loader is None:
        return
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    importlib.import_module(PACKAGE + ".importing").install()


def run_next() -> None:
    """Run the sitecustomize that this one hides (the user's, or the system's) under its own name."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    places = [os.path.abspath(entry or os.curdir) for entry in sys.path]  # noqa: PTH100
    first = places.index(HERE) + 1 if HERE in places else 0
    later = [entry for entry, place in zip(sys.path[first:], places[first:]) if place != HERE]  # noqa: B905
    sys.path[:] = [entry for entry, place in zip(sys.path, places) if place != HERE]  # noqa: B905
    spec = PathFinder.find_spec("sitecustomize", later)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("BENCHHARNESS_PROBE_DIR"):
    try:
        activate()
    except Exception as error:  # noqa: BLE001  (the engine must start whatever is wrong here)
        sys.stderr.write(f"benchharness probe: not active in process {os.getpid()}: {error!r}\n")
run_next()
