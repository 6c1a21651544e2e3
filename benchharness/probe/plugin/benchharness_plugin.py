"""How the probe comes into a process, under a name that nobody else's module has.

`sitecustomize.py` is the usual way. Where it doesn't run (another one stands before it, or the interpreter
was started with -S), SGLang itself finds `install` from 0.5.11 on: this folder stands on PYTHONPATH too and
holds a `dist-info` with an entry point of the group `sglang.srt.plugins`, which SGLang runs in its parent
and in each scheduler. It stays on `sys.path` then, since spawned children take that from their parent.
`SGLANG_PLUGINS`, where it is set, must name `benchharness`. An interpreter with -I or -E ignores PYTHONPATH
and can't be reached by either way.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

# pathlib would cost 5 ms a process.
PROBE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
PACKAGE = "benchharness_probe"
FOLDER = "BENCHHARNESS_PROBE_DIR"


def activate(way: str) -> None:
    """Load the probe as a package of its own name and wait for SGLang's modules; once a process.

    Whatever goes wrong is told on standard error, since the engine must start all the same.

    Args:
        way: how it came in, `sitecustomize` or `plugin`; told in the process's file.
    """
    if not os.environ.get(FOLDER) or PACKAGE in sys.modules:
        return
    try:
        spec = importlib.util.spec_from_file_location(
            PACKAGE, f"{PROBE}/__init__.py", submodule_search_locations=[PROBE]
        )
        if spec is None or spec.loader is None:
            return
        package = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = package
        spec.loader.exec_module(package)
        importlib.import_module(PACKAGE + ".importing").install(way)
    except Exception as error:  # noqa: BLE001
        sys.stderr.write(f"benchharness probe: not active in process {os.getpid()}: {error!r}\n")


def install() -> None:
    """The entry point: SGLang runs it in a process that no sitecustomize of ours has reached."""
    activate("plugin")
    # As sitecustomize does it: no module of the engine's may be mistaken for one of the probe's.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != PROBE]  # noqa: PTH100
