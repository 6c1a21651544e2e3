"""Stored results: `results/<experiment>/<run>/`.

run.json                           the plan and everything declared; written first
launches/NNN/launch.json           how that launch ended; its presence means that the launch is over
launches/NNN/server.log            the engine's own output, raw
launches/NNN/trials/P-CELL/        trial.json and the tables; the folder appears whole, by rename
launches/NNN.interrupted-K/        what a killed run left of a launch that was begun again

`run_folder.py` writes, `reading.py` reads, `tables.py` holds the tables' columns, `documents.py`
turns records into JSON and old formats into the present one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchharness.store.listing import runs
    from benchharness.store.reading import StoredRun, find, open_run
    from benchharness.store.run_folder import RunFolder, create, reopen

__all__ = ["RunFolder", "StoredRun", "create", "find", "open_run", "reopen", "runs"]

_PLACES = {
    **dict.fromkeys(("StoredRun", "find", "open_run"), "reading"),
    **dict.fromkeys(("RunFolder", "create", "reopen"), "run_folder"),
    "runs": "listing",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: a listing needs neither Parquet nor pydantic, which take 0.4 s."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
